"""The lab as tests and measurements use it; README.md has an example.

The caller stays outside of the lab's namespaces. It names nodes by position. What the cluster does is read from the
event log; only `wait`, `wait_stable` and `look` read it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.eventlog.events import Cluster, Event, EventLog
from netlab.eventlog.tree import wide_edges
from netlab.processes import clocks
from netlab.processes.client import Client
from netlab.processes.enter import ran_in
from netlab.processes.groups import GROUPS_READ_ONLY, Used
from netlab.processes.launch import LabHandle, Progress, silent
from netlab.processes.options import Options
from netlab.processes.releases import Release, tree_of
from netlab.topology import addresses as naming
from netlab.topology.layout import listed, located, performances, placed, seeds_of
from netlab.topology.sites import Sites
from subord.client.daemon import ask
from subord.client.errors import CommandError

READ_INTERVAL_S = 0.02
ANSWER_S_MAX = 15.0  # of a daemon on a busy machine
FORK_S_MAX = 30.0
QUIET_S = 3.0  # no change of place for so long means stable

Condition = Callable[[Cluster], bool]


class LabTimeout(LabError):  # noqa: N818  # a kind of LabError, as the name says
    """A condition did not become true in time; the message holds the facts."""


@dataclass(frozen=True, kw_only=True)
class Stable:
    """A stable tree. Times are on the event log's clock, in seconds."""

    at: float  # the later of the last change of place and the complete roster
    since_first_start_s: float
    since_last_start_s: float


class Lab:
    """A lab that lives as long as the `with` block. Raises LabError when it cannot be raised.

    Every daemon is told of `seed_nodes` (positions), or of `seeds` nodes, evenly spread. `seed` draws the layout, and
    with a `spread` performances (layout.py).
    """

    def __init__(
        self,
        nodes: int | None = None,
        fanout: int = 2,
        *,
        layout: str = "dense",
        addresses: Iterable[str] | None = None,
        network: str | None = None,
        sites: Path | None = None,
        seed: int = 1,
        seeds: int = 0,
        seed_nodes: Iterable[int] = (),
        mapping: str = "ip",
        spread: float = 0.0,
        daemon: str | None = None,
        previous: Path | None = None,
        old: Iterable[int] = (),
        stand_ins: Iterable[int] = (),
        name: str | None = None,
        progress: Progress = silent,
        **others: Any,
    ) -> None:
        """No `network`: the layout's. `sites`: a file. `previous`: what `old` nodes begin with (releases.py).
        `stand_ins`: nodes whose agents the caller plays.

        `others`: fields of Options.
        """
        given = None if addresses is None else listed(addresses, network)
        where = located(sites, layout, nodes, network, seed) if given is None else placed(sites, given)
        self._addresses = {naming.position_of(each, where.network): each for each in where.addresses}
        self.options = Options(
            name=name or f"at-{os.getpid()}-{time.monotonic_ns() % 10**9}",
            **vars(where),
            seeds=seeds_of(where, seeds, seed_nodes),
            mapping=mapping,
            performances=performances(mapping, where.addresses, spread, seed),
            fanout=fanout,
            daemon=_whole(daemon),
            previous=_whole(previous),
            old=tuple(map(self.address, old)),
            stand_ins=tuple(map(self.address, stand_ins)),
            **others,
        )
        self._progress = progress
        self.cluster = Cluster()
        self.events: list[Event] = []  # all that were read

    def __enter__(self) -> Lab:
        self.handle = LabHandle(self.options, self._progress)
        try:
            self.directory = self.handle.directory
            self.client = Client(self.directory)
            self._log = EventLog(self.directory.events)
        except BaseException:
            self.handle.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.handle.end()

    @property
    def positions(self) -> list[int]:
        return list(self._addresses)

    def address(self, position: int) -> str:
        """Raises LabError when there is no such node."""
        if position not in self._addresses:
            raise LabError(f"No node of this lab has position {position}.")
        return self._addresses[position]

    def position(self, address: str) -> int:
        """Raises LabError when the address has none."""
        return naming.position_of(address, self.options.network)

    @property
    def sites(self) -> Sites:
        """Of a lab that has some."""
        assert self.options.sites is not None
        return self.options.sites

    def control_socket(self, position: int) -> Path:
        return self.directory.control_socket(position)

    @property
    def previous_tree(self) -> Path:
        """Where the package of the previous release is; with it as PYTHONPATH `python -m subord` is that."""
        assert self.options.previous is not None
        return tree_of(Path(self.options.previous), self.directory.path)

    @property
    def environment(self) -> dict[str, str]:
        """For commands beside the lab: they sign as its operator."""
        return {**os.environ, "SUBORD_OPERATOR_KEY": str(self.directory.operator_key)}

    def progress(self, what: str) -> None:
        self._progress(what, 0, 0)

    # Acting

    def start_all(self, order: str = "together", seed: int = 0) -> None:
        """Start every node, as fast as possible, none waiting for another.

        Order "together" is ascending, "reverse" descending, "random" shuffled by `seed`.
        """
        self.start(*start_order(self.positions, order, seed))

    def start(self, *positions: int, release: Release | None = None) -> None:
        """Start these nodes, in this order, and from now on of this release. Raises LabError when one is running."""
        self.client.ask("start", addresses=[self.address(position) for position in positions], release=release)

    def start_and_wait(self, *positions: int) -> None:
        """Start these nodes, and wait until the event log shows their first line. Raises LabTimeout."""
        asked_at = time.monotonic()
        self.start(*positions)
        addresses = [self.address(position) for position in positions]

        def are_forked(cluster: Cluster) -> bool:
            nodes = map(cluster.nodes.get, addresses)
            return all(node is not None and (node.forked_at or 0.0) >= asked_at for node in nodes)

        self.wait(are_forked, FORK_S_MAX)

    def kill(self, position: int, number: int = signal.SIGKILL) -> None:
        """Send a signal; after SIGKILL the process is gone on return. Raises LabError if it was not running."""
        self.client.ask("signal", address=self.address(position), number=int(number))

    def kill_agent(self, position: int, number: int = signal.SIGKILL) -> bool:
        """Send a signal to the agent of the node; whether it ran. After SIGKILL the process is gone on return."""
        ran: bool = self.client.ask("signal_agent", address=self.address(position), number=int(number))
        return ran

    def remove_agent(self, position: int) -> None:
        """The node has no agent from now on, and no socket of one."""
        self.client.ask("remove_agent", address=self.address(position))

    def set_clock(self, position: int, ahead_s: float) -> None:
        """The wall clock of the node is ahead by so much from the next start of its daemon, or of its agent, on. Only
        in a lab with agents."""
        (self.directory.node(position) / clocks.FILE).write_text(str(ahead_s))

    def cut(self, position: int, *, connected: bool = False) -> None:
        """Pull the node's cable at the bridge (or put it back); no node is told."""
        self.client.ask("cut", address=self.address(position), connected=connected)

    def replace(self, position: int) -> None:
        """The host disappears, and another one has its address: no disk, another MAC, and no daemon yet."""
        self.client.ask("replace", address=self.address(position))

    def cut_site(self, name: str, *, connected: bool = False) -> None:
        """Cut a site off from all others (or end that); no node is told. Raises LabError."""
        self.client.ask("cut_site", site=name, connected=connected)

    def jitter(self, share: float) -> None:
        """Delays between sites change by this share from now on (wan.py); 0: no longer."""
        self.client.ask("relay", request={"do": "jitter", "share": share})

    def set_performance(self, position: int, jobs_per_hour: float) -> None:
        """Give the node another performance in its configuration, and have it read that again if it runs."""
        self.client.ask("perform", address=self.address(position), jobs_per_hour=jobs_per_hour)

    def port(self, position: int) -> str:
        return naming.port_name(self.address(position), self.options.network)

    def filter(self, rules: str) -> None:
        """What the bridge drops from now on, as the input of `nft -f`. Raises LabError when it is refused."""
        self.client.ask("filter", rules=rules)

    def run(self, place: int | str, *command: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Run a command in the node's namespace, or on the "wire" (enter.py); wait for its end. Output as text.

        Raises LabError when there is no such place.
        """
        with Client(self.directory) as client:  # threads may run commands at once
            return ran_in(client, str(place), command, timeout_s)

    def document(self, position: int, path: str, timeout_s: float = ANSWER_S_MAX) -> dict[str, Any]:
        """What the daemon of that node shows at a path such as /v1/status. Raises LabError."""
        try:
            return ask(str(self.control_socket(position)), path, timeout_s, gives_up_s=0)
        except CommandError as reason:
            raise LabError(f"Node {position}: {reason}.") from None

    # Classes of work (groups.py), in a lab with `classes` and `agents`

    def load(self, position: int, name: str, *, busy: bool = True) -> None:
        """From now on the class has work on this node that never ends, or none."""
        self._on_groups("load", address=self.address(position), name=name, busy=busy)

    def used(self) -> Used:
        """What all classes have used so far."""
        at, cpu_s = self._on_groups("used")
        return Used(at, {int(position): each for position, each in cpu_s.items()})

    def weights(self, position: int) -> dict[str, int]:
        """The weights of the groups of the node, by class."""
        found: dict[str, int] = self._on_groups("weights", address=self.address(position))
        return found

    def weigh(self, position: int, weights: Mapping[str, int]) -> None:
        """Set weights by hand."""
        self._on_groups("weigh", address=self.address(position), weights=dict(weights))

    def remove_class(self, position: int, name: str) -> None:
        """Remove the group of a class of the node, with what runs in it."""
        self._on_groups("remove_class", address=self.address(position), name=name)

    def forbid_groups(self, position: int, *, forbidden: bool = True) -> None:
        """The agent of the node cannot write to groups, from its next start on; or it can again."""
        file = self.directory.node(position) / GROUPS_READ_ONLY
        if forbidden:
            file.touch()
        else:
            file.unlink()

    def _on_groups(self, what: str, **about: Any) -> Any:
        return self.client.ask("groups", what=what, **about)

    # Looking

    def look(self) -> Cluster:
        """The state of the cluster from everything logged so far."""
        for event in self._log.new():
            self.cluster.apply(event)
            self.events.append(event)
        return self.cluster

    @property
    def malformed_events(self) -> int:
        return self._log.malformed

    def places(self) -> dict[int, tuple[str | None, int | None]]:
        """Position -> (place, leader's position) of every live node."""
        live = self.look().live()
        leaders = [None if node.leader is None else self.position(node.leader) for node in live]
        return {self.position(node.address): (node.place, leader) for node, leader in zip(live, leaders, strict=True)}

    def wait(self, condition: Condition, timeout_s: float) -> None:
        """Until the state of the cluster meets the condition. Raises LabTimeout."""
        if not self.holds(condition, timeout_s):
            raise LabTimeout(f"Waited {timeout_s:g} s in vain. {facts(self.cluster)}")

    def holds(self, condition: Condition, timeout_s: float) -> bool:
        return bool(wait_until(lambda: condition(self.look()), timeout_s, READ_INTERVAL_S))

    def wait_stable(
        self, timeout_s: float, quiet_s: float = QUIET_S, on_settled: Callable[[], None] = lambda: None
    ) -> Stable:
        """Until one root has all live nodes in its roster and no node moved for `quiet_s` after that.

        `on_settled` is called whenever it begins to look so, for measurements at that moment; the last call counts.
        Raises LabTimeout when the tree has not settled within `timeout_s` (the quiet time not counted).
        """
        seen: float | None = None
        until = time.monotonic() + timeout_s
        while True:
            at = self.look().settled_at()
            if at is not None and at != seen:
                on_settled()
            seen, now = at, time.monotonic()
            if at is not None and now - at >= quiet_s:
                cluster = self.look()
                if cluster.settled_at() == at:
                    first = at if cluster.first_fork_at is None else cluster.first_fork_at
                    return Stable(at=at, since_first_start_s=at - first, since_last_start_s=at - cluster.last_fork_at)
            if now > until and (at is None or at > until):
                raise LabTimeout(f"Not stable after {timeout_s:g} s. {facts(self.cluster)}")
            time.sleep(READ_INTERVAL_S)

    # Measuring (see measure.py)

    def touch_memory(self) -> int:
        """Have the host lend now the memory that the daemons will need (zygote.py); MiB."""
        touched: int = self.client.ask("touch_memory")
        return touched

    def ports(self) -> Any:
        """{"mono": s, "sent": {address: [bytes, packets]}, "brought": the same}: what was on every node's link."""
        return self.client.ask("ports")

    def traffic(self) -> Any:
        """What has crossed from site to site so far (wan.py), for a lab with `sites`."""
        return self.client.ask("relay", request={"do": "traffic"})

    def wide_edges(self) -> int:
        """How many edges of the present tree have their ends at two sites, for a lab with `sites`."""
        return wide_edges(self.look().leaders(), self.sites.name_of)

    def arp(self) -> Any:
        """What was asked by ARP so far (arp_counter.py), for a lab with `arp`."""
        nodes = self.look().nodes.values()
        contacts = {node.address: node.contact_at for node in nodes if node.contact_at is not None}
        return {**self.client.ask("arp", contacts=contacts), "contacted": len(contacts)}

    def processes(self, *what: str) -> Any:
        """{"mono": s, WHAT: {address: value}} of every live node; WHAT: names of measure.OF_PROCESS."""
        return self.client.ask("processes", what=what)


def _whole(path: str | Path | None) -> str | None:
    return None if path is None else str(Path(path).resolve())


def start_order(positions: Iterable[int], order: str, seed: int) -> list[int]:
    ascending = sorted(positions)
    if order == "reverse":
        return ascending[::-1]
    if order == "random":
        random.Random(seed).shuffle(ascending)
    return ascending


def facts(cluster: Cluster) -> str:
    """One sentence about how far the cluster has come."""
    live, roots = cluster.live(), cluster.roots()
    placed = sum(node.place is not None for node in live)
    largest = max((root.roster_nodes for root in roots), default=0)
    return (
        f"{len(live)} of {len(cluster.nodes)} nodes live, {placed} have a place, {len(roots)} roots,"
        f" the largest roster has {largest} nodes."
    )
