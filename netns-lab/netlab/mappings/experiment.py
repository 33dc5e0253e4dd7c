"""`evaluate mappings`: the mappings `latency` and `performance` with real daemons, in four parts.

Each part measures the tree, does one thing to it, and says what must not be in its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from netlab.common.results import Record, flat
from netlab.common.tables import Column, groups, spread
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.verdicts import of_measured
from netlab.lab import Lab
from netlab.mappings import jitter, multisite, rank_change
from netlab.topology.layout import SPREAD
from netlab.topology.sites import read_sites
from subord.core.settings import TimingName

SITES = Path(__file__).parents[2] / "sites" / "four.toml"
NODES_MIN = 8

DISTANCE = (
    Column("wide_edges", "wide edges", 0),
    Column("wide_least_s", "until the least, s", 1),
    Column("depth", "depth", 0),
    Column("wide_frames_per_s", "wide frames/s", 1),
    Column("wide_bytes_per_s", "wide B/s", 0),
    Column("all_frames_per_s", "frames/s in all", 1),
    Column("all_bytes_per_s", "B/s in all", 0),
    Column("cut_whole_s", "cut: both whole, s", 1),
    Column("mend_one_root_s", "mended: one root, s", 1),
    Column("mend_wide_least_s", "mended: least wide edges, s", 1),
)
PERFORMANCE = (
    Column("last_move_s", "last move, s", 1),
    Column("depth", "depth", 0),
    Column("spearman", "Spearman", 3),
    Column("spearman_best", "the best possible", 3),
    Column("spearman_class", "by class", 3),
    Column("spearman_class_best", "the best possible by class", 3),
    Column("above_faster", "above one two classes faster", 0),
    *(
        Column(f"{way}.{key}", f"{word}: {title}", digits)
        for way, word in (("slow", "slower"), ("fast", "faster"))
        for key, title, digits in (
            ("level_before", "level before", 0),
            ("level_after", "level after", 0),
            ("reached_s", "there after, s", 1),
            ("others_moved", "others moved", 0),
        )
    ),
)
JITTER = (Column("trembled_s", "jitter, s", 0), Column("places", "changes of place", 0))


class Part(NamedTuple):
    """What is measured with which mappings, by turns, at one of the fan-outs or at all of them.

    A long part is done `once`, however often the others are repeated.
    """

    mappings: tuple[str, ...]
    fanout: Callable[[tuple[int, ...]], int] | None
    measure: Callable[[Lab, int, Plan], Record]
    faults_of: Callable[[Record], dict[str, object]]
    columns: tuple[Column, ...]
    once: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """Each part at the fan-outs that it names."""

    fanout: tuple[int, ...] = (2, 8)
    parts: tuple[str, ...] = ()
    sites: Path = SITES
    rest_s: float = 60.0
    seconds: float = 600.0  # of jitter
    timing: TimingName = "lan"

    def runs(self) -> Iterator[Run]:
        """Raises LabError for what cannot be measured."""
        self.check_nodes(NODES_MIN, "A comparison of mappings")
        read_sites(self.sites)
        for name in self.parts:
            part = KNOWN[name]
            plan = replace(self, repeat=1) if part.once else self
            fanouts = self.fanout if part.fanout is None else (part.fanout(self.fanout),)
            about = {"timing": self.timing}
            yield from plan.by_turns(measure_one, about, part=(name,), fanout=fanouts, mapping=part.mappings)


def _jitter(lab: Lab, number: int, plan: Plan) -> Record:
    return jitter.measure_one(lab, number, plan.seconds)


KNOWN = {
    "distance": Part(
        ("ip", "latency"),
        max,
        lambda lab, number, plan: multisite.measure_one(lab, number, plan.rest_s),
        multisite.faults_of,
        DISTANCE,
    ),
    "performance": Part(
        ("performance",),
        None,
        lambda lab, number, _plan: rank_change.measure_one(lab, number),
        rank_change.faults_of,
        PERFORMANCE,
    ),
    "trembling-performance": Part(("performance",), min, _jitter, jitter.faults_of, JITTER, once=True),
    "trembling-latency": Part(("latency",), max, _jitter, jitter.faults_of, JITTER, once=True),
}
PARTS = tuple(KNOWN)


def measure_one(plan: Plan, nodes: int, number: int, *, part: str, fanout: int, mapping: str) -> Record:
    with plan.raised(
        nodes,
        fanout,
        log=f"mappings-{part}-{mapping}-{nodes}-{fanout}-{number}",
        sites=None if mapping == "performance" else plan.sites,
        mapping=mapping,
        spread=SPREAD,
        seed=1 + number,
        arp_proxy=True,
        timing=plan.timing,
    ) as lab:
        lab.touch_memory()
        lab.progress("starting daemons, waiting until no node moves any more")
        lab.start_all()
        return KNOWN[part].measure(lab, number, plan)


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words; nothing when all is as it should be."""
    return [words for words, holds in KNOWN[record["part"]].faults_of(record).items() if holds]


def is_whole(record: Record) -> bool:
    return not faults_of(record)


def table(records: list[Record]) -> str:
    """For people: medians and spread of each part, mapping, size and fan-out, and what went wrong."""
    lines: list[str] = []
    for (part, mapping, nodes, fanout), some in groups(records, ("part", "mapping", "nodes", "fanout")).items():
        good = list(filter(is_measured, some))
        lines.append(f"{part}, mapping {mapping}, {nodes} nodes, fan-out {fanout}: {len(good)} of {len(some)} runs")
        for column in KNOWN[part].columns if good else ():
            values = spread([flat(record)[column.key] for record in good], column.digits)
            lines.append(f"  {column.title:32}{values}")
        lines += [f"  run {record['repeat'] + 1}: {words}" for record in some for words in faults_of(record)]
    return "\n".join(lines)
