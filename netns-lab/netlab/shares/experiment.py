"""`evaluate shares`: real daemons divide nodes among classes of work, with real cgroups and agents, and in a large
cluster with agents that are played.

Each record is of one part in a lab of its own: `real` (real.py), `cluster` (cluster.py), `faults` (faults.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from netlab.common.results import Record
from netlab.common.tables import Column, aligned, comparison
from netlab.errors import LabError
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.verdicts import of_measured
from netlab.lab import Lab
from netlab.services import plans, ready
from netlab.shares import cluster, faults, real
from netlab.shares.operating import CLASSES
from netlab.shares.stand_ins import StandIns
from netlab.topology import filters

REAL, CLUSTER, FAULTS = "real", "cluster", "faults"
PARTS: Final = (REAL, CLUSTER, FAULTS)
ROUNDS_S: Final = (0.3, 1.0)
REAL_NODES: Final = 4
REAL_FANOUT: Final = 2
STREAMS_S: Final = 12.0
"""By then each daemon has opened the stream to its leader."""
WHEN: Final = ("without", "with")
NODES_MIN: Final = 12
NAMED: Final = {REAL: real, CLUSTER: cluster, FAULTS: faults}


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`nodes`: of the parts with agents that are played. `seconds`: of each measurement. `times`: pauses of a class,
    and leaders that are killed, and cut off."""

    nodes: tuple[int, ...] = (100,)
    fanout: int = 10
    repeat: int = 1
    timing: str = "lan"
    only: tuple[str, ...] = PARTS
    round_s: tuple[float, ...] = ROUNDS_S
    seconds: float = 60.0
    times: int = 2

    def runs(self) -> Iterator[Run]:
        self._check()
        if REAL in self.only:
            few = replace(self, nodes=(REAL_NODES,), fanout=REAL_FANOUT)
            cases = {"static": (self.round_s[0],), "uneven": self.round_s, "even": self.round_s}
            for case, rounds_s in cases.items():
                yield from few.judged(part=(REAL,), case=(case,), round_s=rounds_s)
        for part in (CLUSTER, FAULTS):
            if part in self.only:
                yield from self.judged(part=(part,), case=("",), round_s=self.round_s)

    def _check(self) -> None:
        """Raises LabError before the first run."""
        self.check_nodes(max(NODES_MIN, self.fanout + 2), "An evaluation of shares")
        if self.rootless and REAL in self.only:
            raise LabError("Real cgroups need root: leave out --rootless, or the part `real`. Nothing was done.")
        if FAULTS in self.only and (reason := filters.obstacle(rootless=self.rootless)):
            raise LabError(f"The part `faults` cannot be measured here. {reason} Nothing was done.")

    def judged(self, **axes: Any) -> Iterator[Run]:
        """By turns; what must not be in a record is written down."""

        def judged(plan: Plan, nodes: int, number: int, **chosen: Any) -> Record:
            found = measure_one(plan, nodes, number, **chosen)
            about = {"nodes": nodes, "fanout": plan.fanout, **chosen}
            return {**found, "faults": faults_of({**about, **found})}

        return self.by_turns(judged, {"fanout": self.fanout, "layout": "dense", "timing": self.timing}, **axes)


def measure_one(plan: Plan, nodes: int, number: int, *, part: str, case: str, round_s: float) -> Record:
    log = f"shares-{part}-{case}-{nodes}-{round_s:g}-{number}"
    options: dict[str, Any] = {"timing": plan.timing, "classes": CLASSES}
    if part == REAL:
        with plan.raised(nodes, plan.fanout, log=log, agents=True, quota=real.QUOTA, **options) as lab:
            _raise(lab)
            return shown(real.measure(lab, case, round_s, plan.seconds))
    with (
        plan.raised(nodes, plan.fanout, log=log, stand_ins=range(1, nodes + 1), **options) as lab,
        StandIns(lab, lab.positions) as stand_ins,
    ):
        _raise(lab)
        return shown(_of_many(plan, lab, stand_ins, part, round_s))


def _raise(lab: Lab) -> None:
    """Raises LabError."""
    ready.raise_tree(lab)
    time.sleep(STREAMS_S)


def _of_many(plan: Plan, lab: Lab, stand_ins: StandIns, part: str, round_s: float) -> Record:
    if part == CLUSTER:
        return cluster.measure(lab, stand_ins, round_s, plan.seconds, plan.times)
    return faults.measure(lab, stand_ins, round_s, plan.times)


def shown(record: Record) -> Record:
    """With figures of tables, which are not nested."""
    classes = {f"{name}_{key}": value for name, of in record.get("classes", {}).items() for key, value in of.items()}
    return record | classes


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words."""
    found: list[str] = NAMED[record["part"]].faults_of(record)
    return found


def is_whole(record: Record) -> bool:
    return not faults_of(record)


def table(records: list[Record]) -> str:
    """For people: a table for each part, and what went wrong."""
    lines = []
    for part, module in NAMED.items():
        some = [record for record in records if record["part"] == part]
        if some:
            lines += [part, _compared(some, module.COLUMNS), *_costs(some), *_turns(some), *_wrong(some)]
    return "\n".join(lines)


def _compared(records: list[Record], columns: tuple[Column, ...]) -> str:
    keys = ("nodes", "fanout", "case", "round_s")
    return comparison(records, keys, columns, is_whole, counted="held", measured=is_measured, show=plans.cell)


def _costs(records: list[Record]) -> Iterator[str]:
    """Of a node of each kind, without and with shares."""
    rows = [
        [f"{record['round_s']:g}", role, *(f"{record[when][role][key]:g}" for key in cluster.COSTS for when in WHEN)]
        for record in records
        if "with" in record
        for role in record["with"]
    ]
    if rows:
        yield aligned([["round_s", "node", "packets/s", "with", "B/s", "with", "CPU, %", "with"], *rows])


def _turns(records: list[Record]) -> Iterator[str]:
    """Of faults, one line for each."""
    for record in records:
        if not record.get("turns"):
            continue
        head = ("fault", "last new place, s", "told = asked", "shares back", "worst, points", "shares since")
        rows = [
            (
                turn["fault"],
                f"{turn['edge_s']:.1f}",
                f"{turn['whole_s']:.1f}",
                "never" if turn["back_s"] is None else f"{turn['back_s']:.1f}",
                f"{turn['worst_points']:.1f}",
                "; ".join("/".join(f"{each:.0f}" for each in part["shares"]) for part in turn["parts"]),
            )
            for turn in record["turns"]
        ]
        yield f"rounds of {record['round_s']:g} s; seconds after the last new place in the tree"
        yield aligned([head, *rows], 1)


def _wrong(records: list[Record]) -> Iterator[str]:
    for record in records:
        for words in faults_of(record):
            case = f" {record['case']}" if record["case"] else ""
            yield f"{record['nodes']} nodes{case}, {record['round_s']:g} s, run {record['repeat'] + 1}: {words}"
