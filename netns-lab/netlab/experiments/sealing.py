"""`evaluate sealing`: the same start and the same rest, sealed and in the clear, by turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from netlab.common.results import Record
from netlab.common.tables import Column, comparison
from netlab.experiments import start_up
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.start_up import is_whole

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
class Plan(Evaluation):
    """`rest_s`: how long each tree is measured at rest."""

    rest_s: float = 30.0

    def runs(self) -> Iterator[Run]:
        about = {"fanout": FANOUT, "layout": "dense", "start": "together"}
        return self.by_turns(measure_one, about, way=tuple(WAYS))


def measure_one(plan: Plan, nodes: int, number: int, way: str) -> Record:
    options = {name: getattr(plan, name) for name in ("nodes", "rest_s", "rootless", "progress")}
    start = start_up.Plan(fanout=(FANOUT,), options={"insecure": WAYS[way]}, **options)
    return start_up.measure_one(start, nodes, number, fanout=FANOUT, start="together")


table = partial(
    comparison, keys=("nodes", "way"), columns=COLUMNS, is_whole=is_whole, counted="stable", measured=is_measured
)
