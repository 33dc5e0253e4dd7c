"""`evaluate sealing`: the same start and the same rest, sealed and in the clear, by turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netlab.common.results import Record
from netlab.common.tables import Column, comparison
from netlab.experiments import evaluate, start_up
from netlab.experiments.evaluate import Run, is_measured
from netlab.experiments.start_up import is_whole
from netlab.processes.launch import Progress

FANOUT = 8
WAYS = {"sealed": False, "in the clear": True}
COLUMNS = (
    Column("stable_after_last_start_s", "stable, s", 2),
    Column("cpu_s_per_node", "CPU until then, s", 3),
    Column("rest_packets_per_s", "packets/s", 2),
    Column("rest_bytes_per_s", "B/s", 0),
    Column("rest_cpu_percent", "CPU, %", 3),
    Column("pss_mib_per_node", "PSS, MiB", 1),
)


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """`rest_s`: how long each tree is measured at rest."""

    rest_s: float = 30.0

    def runs(self, progress: Progress) -> Iterator[Run]:
        def measure(nodes: int, way: str, repeat: int) -> Record:
            lab = {"insecure": WAYS[way], "rootless": self.rootless}
            plan = start_up.Plan(nodes=(nodes,), fanout=(FANOUT,), rest_s=self.rest_s, lab=lab)
            return start_up.measure_one(plan, progress, nodes=nodes, fanout=FANOUT, start="together", number=repeat)

        return self.by_turns(measure, way=tuple(WAYS))


def table(records: list[Record]) -> str:
    """For people: medians and spread."""
    return comparison(records, ("nodes", "way"), COLUMNS, is_whole, counted="stable", measured=is_measured)
