"""The paper's first test: the mapping against a scan of everybody (HPCS 2015, "Evaluation on virtual network").

Intuition: the same class finds its teacher twice. Once everybody knows the name of the room; once everybody knocks
at every door of the house, and then goes to the room. The clock runs from the first bell to the last pupil seated.

One leader, the fan-out being the number of nodes, as in the paper; the network is exactly the nodes' addresses, so
that a scan has no silent address to wait for. Starts from disk are measured beside a search that costs something:
at random addresses, with nothing to go by.
"""

from __future__ import annotations

import signal
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

from netlab.common import measure
from netlab.common.results import Record
from netlab.errors import LabError
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run
from netlab.experiments.figures import spread_text
from netlab.lab import Lab, LabTimeout
from netlab.processes.launch import Progress
from netlab.topology.layout import NETWORK, network_of

DENSE = ("mapping", "scan")
SPARSE = ("cold", "warm")
MODES = DENSE + SPARSE
ADDRESSES_PER_NODE = 64  # at least, where they are sparse: at most twice as many
QUIET_S = 1.0
STABLE_S_MAX = 90.0
LEAVE_S_MAX = 30.0


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """Modes take turns, so that what happens on the machine meanwhile happens to all of them."""

    modes: tuple[str, ...] = MODES

    def runs(self, progress: Progress) -> Iterator[Run]:
        for nodes in self.nodes:
            for number in range(self.repeat):
                for mode in self.modes:
                    yield Run(
                        f"{nodes} nodes, {mode}, run {number + 1} of {self.repeat}",
                        {"nodes": nodes, "mode": mode, "repeat": number},
                        partial(measure_one, nodes, mode, number, self.rootless, progress),
                    )


def measure_one(nodes: int, mode: str, number: int, rootless: bool, progress: Progress) -> Record:
    """One tree in a lab of its own. Raises LabError."""
    with _lab(nodes, mode, number, rootless, progress) as lab:
        lab.touch_memory()
        progress("starting daemons, waiting for a stable tree", 0, 0)
        order = ("random", number) if mode in SPARSE else ("together", 0)
        found = _start(lab, order)
        if mode == "warm":
            if not found["stable"]:
                raise LabError(f"The start before it was not stable within {STABLE_S_MAX:g} s.")
            progress("stopping all daemons, starting them again", 0, 0)
            _stop_all(lab, number)
            found = _start(lab, order)
        return {"network": lab.options.network, **found}


def _lab(nodes: int, mode: str, number: int, rootless: bool, progress: Progress) -> Lab:
    return Lab(
        nodes,
        max(nodes, 2),
        layout="random" if mode in SPARSE else "dense",
        network=network(nodes, sparse=mode in SPARSE),
        seed=1 + number,
        full_scan=mode == "scan",
        disk=mode == "warm",
        errands=True,
        rootless=rootless,
        progress=progress,
    )


def network(nodes: int, *, sparse: bool) -> str:
    """Exactly the addresses of so many nodes, or a block with many more."""
    block = network_of(NETWORK)
    if not sparse:
        return f"{block.address_text_of(1)}-{block.address_text_of(max(nodes, 2))}"
    return f"10.0.0.0/{32 - (ADDRESSES_PER_NODE * nodes - 1).bit_length()}"


def _start(lab: Lab, order: tuple[str, int]) -> Record:
    """Start all that are down; times count from the fork of the first process and of the last one."""
    before, then = _meters(lab), {}

    def read() -> None:
        then.update(_meters(lab))

    lab.start_all(*order)
    try:
        lab.wait_stable(STABLE_S_MAX, QUIET_S, on_settled=read)
        stable = True
    except LabTimeout:
        read()
        stable = False
    live = lab.look().live()
    times = [(node.placed_at, node.forked_at) for node in live if node.forked_at is not None and node.place]
    if not times:
        raise LabError(f"No daemon had a place within {STABLE_S_MAX:g} s: see the logs of the nodes.")
    built_at, forked = max(placed for placed, _ in times), [at for _, at in times]
    own = [placed - at for placed, at in times]
    return {
        "stable": stable,
        "placed": len(times),
        "roots": sum(node.place == "root" for node in live),
        "leaders": len({node.leader for node in live if node.leader is not None}),
        "built_s": built_at - min(forked),
        "built_after_last_start_s": built_at - max(forked),
        "own_s_median": statistics.median(own),
        "own_s_max": max(own),
        "frames_per_node": (then["frames"] - before["frames"]) / len(live),
        "cpu_s_per_node": then["cpu_s"] / len(live),
        "exchanges_per_node": measure.exchanges_per_node(map(lab.control_socket, lab.positions)),
    }


def _meters(lab: Lab) -> dict[str, float]:
    """All that was sent on the wires since the lab was raised, and the processor time of those who live now."""
    frames = sum(packets for _, packets in lab.ports()["sent"].values())
    return {"frames": frames, "cpu_s": sum(lab.processes("cpu_s")["cpu_s"].values())}


def _stop_all(lab: Lab, seed: int) -> None:
    """As when a cluster is shut down: all at once, in no order."""
    for position in Random(seed).sample(lab.positions, len(lab.positions)):
        lab.kill(position, signal.SIGTERM)
    lab.wait(lambda cluster: all(node.exited for node in cluster.nodes.values()), LEAVE_S_MAX)


def is_whole(record: Record) -> bool:
    """One tree of all nodes, at rest."""
    return (
        record["fault"] is None and record["stable"] and (record["roots"], record["placed"]) == (1, record["nodes"])
    )


def table(records: list[Record]) -> str:
    """For people: medians and spread."""
    lines = ["nodes     mode  runs  built, s              after last start, s   own, s                frames"]
    for nodes in dict.fromkeys(record["nodes"] for record in records):
        for mode in dict.fromkeys(record["mode"] for record in records):
            some = [each for each in records if (each["nodes"], each["mode"]) == (nodes, mode) and is_whole(each)]
            cells = [
                spread_text([each[key] for each in some], digits)
                for key, digits in (
                    ("built_s", 2),
                    ("built_after_last_start_s", 2),
                    ("own_s_median", 3),
                    ("frames_per_node", 1),
                )
            ]
            lines.append(f"{nodes:5}  {mode:>7}  {len(some):4}  " + "".join(f"{cell:22}" for cell in cells).rstrip())
    return "\n".join(lines)
