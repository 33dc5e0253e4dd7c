"""`evaluate discovery`, the paper's first test: the mapping against a full scan.

Source: HPCS 2015, "Evaluation on virtual network". One leader, the fan-out being the number of nodes, as in the
paper; the network is exactly the nodes' addresses, so that a scan has no silent address to wait for. Starts from disk
are measured beside a search that costs something: at random addresses, without seeds.
"""

from __future__ import annotations

import signal
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from netlab.common import measure
from netlab.common.results import Record
from netlab.common.tables import Column, comparison
from netlab.errors import LabError
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run, is_measured
from netlab.lab import Lab, LabTimeout
from netlab.processes.launch import Progress
from netlab.topology.addresses import NETWORK, network_of

SPARSE = ("cold", "warm")
MODES = ("mapping", "scan", *SPARSE)
ADDRESSES_PER_NODE = 64  # at least, where they are sparse: at most twice as many
QUIET_S = 1.0
STABLE_S_MAX = 90.0
LEAVE_S_MAX = 30.0
COLUMNS = (
    Column("built_s", "built, s", 2),
    Column("built_after_last_start_s", "after last start, s", 2),
    Column("own_s_median", "own, s", 3),
    Column("frames_per_node", "frames", 1),
)


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """`modes`: the ways in which the tree is built."""

    modes: tuple[str, ...] = MODES

    def runs(self, progress: Progress) -> Iterator[Run]:
        def measure(nodes: int, mode: str, repeat: int) -> Record:
            return measure_one(nodes, mode, repeat, self.rootless, progress)

        return self.by_turns(measure, mode=self.modes)


def measure_one(nodes: int, mode: str, number: int, rootless: bool, progress: Progress) -> Record:
    """One tree in a lab of its own. Raises LabError."""
    with Lab(
        nodes,
        max(nodes, 2),
        layout="random" if mode in SPARSE else "dense",
        network=network(nodes, sparse=mode in SPARSE),
        seed=1 + number,
        full_scan=mode == "scan",
        disk=mode == "warm",
        arp_proxy=True,
        rootless=rootless,
        progress=progress,
    ) as lab:
        lab.touch_memory()
        progress("starting daemons, waiting for a stable tree", 0, 0)
        order = ("random", number) if mode in SPARSE else ("together", 0)
        found = _start(lab, order)
        if mode == "warm":
            if not found["stable"]:
                raise LabError(f"The start before it was not stable within {STABLE_S_MAX:g} s.")
            progress("stopping all daemons, starting them again", 0, 0)
            for position in Random(number).sample(lab.positions, len(lab.positions)):  # all at once, in random order
                lab.kill(position, signal.SIGTERM)
            lab.wait(lambda cluster: all(node.exited for node in cluster.nodes.values()), LEAVE_S_MAX)
            found = _start(lab, order)
        return {"network": lab.options.network, **found}


def network(nodes: int, *, sparse: bool) -> str:
    """Exactly the addresses of so many nodes, or a block with many more."""
    block = network_of(NETWORK)
    if not sparse:
        return f"{block.address_text_of(1)}-{block.address_text_of(max(nodes, 2))}"
    return f"10.0.0.0/{32 - (ADDRESSES_PER_NODE * nodes - 1).bit_length()}"


def _start(lab: Lab, order: tuple[str, int]) -> Record:
    """Start all that are down; times count from the fork of the first process and of the last one."""
    before, then = _counted(lab), {}

    def read() -> None:
        then.update(_counted(lab))

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


def _counted(lab: Lab) -> dict[str, float]:
    """All frames since the lab was raised, and the processor time of the daemons that live now."""
    frames = sum(packets for _, packets in lab.ports()["sent"].values())
    return {"frames": frames, "cpu_s": sum(lab.processes("cpu_s")["cpu_s"].values())}


def is_whole(record: Record) -> bool:
    """One tree of all nodes, at rest."""
    return is_measured(record) and record["stable"] and (record["roots"], record["placed"]) == (1, record["nodes"])


def table(records: list[Record]) -> str:
    """For people: medians and spread."""
    return comparison(records, ("nodes", "mode"), COLUMNS, is_whole)
