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
from functools import partial
from random import Random

from netlab.common import measure
from netlab.common.results import Record
from netlab.common.tables import Column, comparison
from netlab.errors import LabError
from netlab.experiments import figures
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.lab import Lab
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
class Plan(Evaluation):
    """`modes`: the ways in which the tree is built."""

    modes: tuple[str, ...] = MODES

    def runs(self) -> Iterator[Run]:
        return self.by_turns(measure_one, mode=self.modes)


def measure_one(plan: Plan, nodes: int, number: int, mode: str) -> Record:
    with plan.raised(
        nodes,
        max(nodes, 2),
        layout="random" if mode in SPARSE else "dense",
        network=network(nodes, sparse=mode in SPARSE),
        seed=1 + number,
        full_scan=mode == "scan",
        disk=mode == "warm",
        arp_proxy=True,
    ) as lab:
        lab.touch_memory()
        lab.progress("starting daemons, waiting for a stable tree")
        order = ("random", number) if mode in SPARSE else ("together", 0)
        found = _start(lab, order)
        if mode == "warm":
            if not found["stable"]:
                raise LabError(f"The start before it was not stable within {STABLE_S_MAX:g} s.")
            lab.progress("stopping all daemons, starting them again")
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
    before = figures.read(lab)
    lab.start_all(*order)
    stable, then, _ = figures.until_stable(lab, STABLE_S_MAX, QUIET_S, lambda: figures.read(lab))
    live = lab.look().live()
    times = [(node.placed_at, node.forked_at) for node in live if node.forked_at is not None and node.place]
    if not times:
        raise LabError(f"No daemon had a place within {STABLE_S_MAX:g} s: see the logs of the nodes.")
    built_at, forked = max(placed for placed, _ in times), [at for _, at in times]
    own = [placed - at for placed, at in times]
    frames = sum(then.sent[each][1] - packets for each, (_, packets) in before.sent.items())
    return {
        "stable": stable is not None,
        "placed": len(times),
        "roots": sum(node.place == "root" for node in live),
        "leaders": len({node.leader for node in live if node.leader is not None}),
        "built_s": built_at - min(forked),
        "built_after_last_start_s": built_at - max(forked),
        "own_s_median": statistics.median(own),
        "own_s_max": max(own),
        "frames_per_node": frames / len(live),
        "cpu_s_per_node": sum(then.cpu_s.values()) / len(live),
        "exchanges_per_node": measure.exchanges_per_node(map(lab.control_socket, lab.positions)),
    }


def is_whole(record: Record) -> bool:
    return is_measured(record) and record["stable"] and (record["roots"], record["placed"]) == (1, record["nodes"])


table = partial(comparison, keys=("nodes", "mode"), columns=COLUMNS, is_whole=is_whole)
