"""Two trees, each with a cell of its own, and a link between their transfer hosts alone.

The trees have networks of their own, which nothing connects. The link is a cable between the transfer hosts. When it
is cut, both hosts drop what comes by it, and what they send: neither is told.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from netlab.elastic.hosted import HEAD, NAMES
from netlab.errors import LabError
from netlab.transfer.trees import PORT, QUEUE, TreeLab

CABLE: Final = "cable"
THRESHOLD: Final = 5
"""Of the sensors: jobs leave while less is there."""
NETWORKS: Final = ("10.91.0.0/24", "10.92.0.0/24")
LINK: Final = ("10.93.0.1", "10.93.0.2")
_RULES: Final = f"""
table inet cable {{
  chain come {{ type filter hook input priority 0; iifname "{CABLE}" drop; }}
  chain go {{ type filter hook output priority 0; oifname "{CABLE}" drop; }}
}}
"""


_ORPHANS: Final = "cd /proc/sys/net/ipv4; echo 1 >tcp_fin_timeout; echo 1 >tcp_orphan_retries"
"""Connections across the cable whose process has ended keep the network of their host, and the end of the lab waits
for that: without this for half a minute and more."""


class Pair:
    """`trees`: two, which run, or one, which has no other. `plans`: what was published last, by the name of the
    tree."""

    def __init__(self, trees: tuple[TreeLab, ...]) -> None:
        self.trees = trees
        self.plans: dict[str, dict[str, Any]] = {}

    @property
    def a(self) -> TreeLab:
        return self.trees[0]

    @property
    def b(self) -> TreeLab:
        return self.trees[1]

    def other(self, tree: TreeLab) -> TreeLab:
        return self.b if tree is self.a else self.a

    # -- the link -------------------------------------------------------------------------------------------------

    def lay(self) -> None:
        """Once: the network of a transfer host stays when its processes end."""
        pids = [each.ask("pid", name=NAMES[HEAD]) for each in self.trees]
        inside = ("nsenter", "--target", str(pids[0]), "--net", "--")
        _call(*inside, "ip", "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", str(pids[1]))
        for pid, address in zip(pids, LINK, strict=True):
            own = ("nsenter", "--target", str(pid), "--net", "--", "ip")
            _call(*own, "address", "add", f"{address}/30", "dev", CABLE)
            _call(*own, "link", "set", CABLE, "up")
        for each in self.trees:
            each.run_on_head("sh", "-c", _ORPHANS)

    def cut(self) -> None:
        for each in self.trees:
            each.run_on_head("nft", "-f", "/dev/stdin", given=_RULES)

    def mend(self) -> None:
        for each in self.trees:
            each.run_on_head("nft", "delete", "table", "inet", CABLE)

    # -- plans ----------------------------------------------------------------------------------------------------

    def plan(self, tree: TreeLab, **changed: Any) -> dict[str, Any]:
        """What a tree is told of the other one. `changed`: further keys, or others."""
        other = self.other(tree)
        address = LINK[self.trees.index(other)]
        return {
            "host": tree.lab.address(HEAD),
            "cluster": tree.name,
            "peer": {
                "name": other.name,
                "addresses": [f"{address}:{PORT}"],
                "certificates": [other.identity().text],
            },
            "queues": [{"name": QUEUE}],
            "slots_max": tree.slots,
            **changed,
        }

    def publish(self, **changed: Any) -> None:
        """To both. Raises LabError."""
        for each in self.trees:
            self.plans[each.name] = self.plan(each, **changed)
            each.publish(self.plans[each.name])

    def status(self, tree: TreeLab) -> Mapping[str, Any]:
        return tree.lab.document(HEAD, "/v1/transfer")


def _call(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30.0)
    if done.returncode:
        raise LabError(f"There can be no link between the trees: {' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def running(
    names: tuple[str, str] = ("a", "b"),
    *,
    transfer_slots: int = 40,
    kinds: tuple[type[TreeLab], type[TreeLab]] = (TreeLab, TreeLab),
    **options: Any,
) -> Iterator[Pair]:
    """Two trees with transfer queues, without plans. `kinds`: with which batch system each; `options`: of both.
    Raises LabError."""
    each_of = zip(kinds, names, NETWORKS, strict=True)
    trees = [kind(name, network=network, **options) for kind, name, network in each_of]
    with ExitStack() as stack, ThreadPoolExecutor(2) as at_once:
        for each in at_once.map(_entered, trees):
            stack.callback(each.__exit__)
        pair = Pair((trees[0], trees[1]))
        pair.lay()
        list(at_once.map(lambda each: each.set_up(slots=transfer_slots, threshold=THRESHOLD, sensor_s=2), trees))
        yield pair


def _entered(tree: TreeLab) -> TreeLab:
    return tree.__enter__()
