"""`evaluate metrics`: what the metrics of a cluster cost, how old they are, whether they are right, and what they say
after a death; beside the same cluster without them, and beside Ganglia.

Each record is of one system in a lab of its own; the systems take turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from netlab.common.results import Record
from netlab.common.tables import Column
from netlab.common.waiting import wait_until
from netlab.experiments.evaluate import Run
from netlab.experiments.verdicts import of_measured
from netlab.lab import Lab
from netlab.peers import ganglia
from netlab.services import metrics_parts, metrics_peers, plans, ready
from subord import __version__

SUBORD, WITHOUT = plans.SUBORD, "subord-without"
PEERS: dict[str, Sequence[str]] = dict.fromkeys((ganglia.MULTICAST, ganglia.UNICAST), ganglia.PROGRAMS)
SYSTEMS = (SUBORD, WITHOUT, *PEERS)
PEER_NODES_MAX = 200  # with multicast each node takes the datagrams of all: a share of two cores that grows squarely
SETTLE_S = 25.0  # two rounds, so that rates are told, too


@dataclass(frozen=True, kw_only=True)
class Plan(plans.PeersPlan):
    """`systems` take turns; `times`: changes, and deaths, in each lab; `ages_s`: how long ages are looked at."""

    systems: tuple[str, ...] = SYSTEMS
    times: int = 3
    rest_s: float = 60.0
    ages_s: float = 60.0

    @property
    def programs(self) -> Mapping[str, Sequence[str]]:
        return {name: programs for name, programs in PEERS.items() if name in self.systems}

    def runs(self) -> Iterator[Run]:
        self.check()
        for nodes in self.nodes:
            systems = [name for name in self.systems if name not in self.absent and fits(name, nodes)]
            yield from replace(self, nodes=(nodes,)).judged(measure_one, faults_of, system=systems)


def fits(system: str, nodes: int) -> bool:
    return system not in PEERS or nodes <= PEER_NODES_MAX


def measure_one(plan: Plan, nodes: int, number: int, system: str) -> Record:
    log = f"metrics-{system}-{nodes}-{number}"
    with plan.turn(nodes, log, publish=system != WITHOUT, texts=system == SUBORD) as (lab, programs):
        lab.progress(f"starting {system}")
        if system in PEERS:
            return metrics_peers.measure(lab, programs, system, rest_s=plan.rest_s, ages_s=plan.ages_s)
        return of_subord(plan, lab, publishes=system == SUBORD)


def of_subord(plan: Plan, lab: Lab, *, publishes: bool) -> Record:
    """With all that there is to see of figures, or only what the daemons cost without them."""
    settings = f"subord {__version__}: fan-out {plan.fanout}{'' if publishes else ', publish = false'}"
    found: Record = {"settings": settings}
    shown = metrics_parts.Figures(lab)
    ready.raise_tree(lab)
    if publishes:
        lab.progress("waiting for the figures of all nodes")
        shown.await_all()
        found["first_whole_s"] = time.monotonic() - (lab.cluster.first_fork_at or 0.0)
    time.sleep(min(SETTLE_S, plan.rest_s))
    found |= metrics_parts.at_rest(lab, plan.rest_s)
    return found | (of_figures(plan, lab, shown) if publishes else {})


def of_figures(plan: Plan, lab: Lab, shown: metrics_parts.Figures) -> Record:
    """From now on each node has a text file, too, which it reads in each round."""
    shown.write(0)
    wait_until(shown.is_right, metrics_parts.CHANGED_S_MAX, metrics_parts.LOOK_S)  # `values` says what is wrong
    lab.progress("looking at ages and values")
    found = metrics_parts.ages(shown, plan.ages_s) | metrics_parts.values(shown)
    return found | metrics_parts.changes(lab, shown, plan.times) | metrics_parts.deaths(lab, shown, plan.times)


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words: of subord alone."""
    return metrics_parts.faults_of(record) if record["system"] == SUBORD else []


def is_whole(record: Record) -> bool:
    return not faults_of(record)


COLUMNS = (
    Column("heart_bytes_per_s", "root, B/s", 0),
    Column("heart_packets_per_s", "packets/s", 1),
    Column("node_bytes_per_s", "node sends, B/s", 0),
    Column("brought_bytes_per_s", "gets, B/s", 0),
    Column("all_cpu_percent", "CPU of all, %", 2),
    Column("age_s", "oldest, s", 1),
    Column("changed_s", "changed, s", 1),
    Column("quantile_error_percent", "quantile wrong by, %", 2),
    Column("death_whole_s", "whole after a death, s", 1),
    Column("death_counted_over_s", "dead counted, s", 1),
)


def table(records: list[Record]) -> str:
    """For people: figures by size and system, what went wrong, and what is left out."""
    return "\n".join([*plans.compared(records, COLUMNS, faults_of), *plans.left_out(records)])
