"""`evaluate mappings`: the mappings `latency` and `performance` with real daemons, in four parts.

Each part measures the tree, does one thing to it, and says what must not be in its records.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from netlab.common.results import Record
from netlab.common.tables import Column, groups, spread
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run, is_measured
from netlab.mappings import jitter, multisite, rank_change
from netlab.mappings.base import MappingRun
from netlab.processes.launch import Progress
from netlab.topology import sites_file
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
    """What is measured with which mappings, by turns; `lowest`: at the lowest fan-out, not the highest; None: all.

    A long part is done `once`, however often the others are repeated.
    """

    mappings: tuple[str, ...]
    lowest: bool | None
    measure: Callable[[MappingRun], Record]
    faults_of: Callable[[Record], list[str]]
    columns: tuple[Column, ...]
    once: bool = False


KNOWN = {
    "distance": Part(("ip", "latency"), False, multisite.measure_one, multisite.faults_of, DISTANCE),
    "performance": Part(("performance",), None, rank_change.measure_one, rank_change.faults_of, PERFORMANCE),
    "trembling-performance": Part(("performance",), True, jitter.measure_one, jitter.faults_of, JITTER, once=True),
    "trembling-latency": Part(("latency",), False, jitter.measure_one, jitter.faults_of, JITTER, once=True),
}
PARTS = tuple(KNOWN)


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """`performance` is measured at each fan-out; the others at the one that their part names."""

    fanout: tuple[int, ...] = (2, 8)
    parts: tuple[str, ...] = PARTS
    sites: Path | None = None
    rest_s: float = 60.0
    seconds: float = 600.0  # of jitter
    timing: TimingName = "lan"
    events: Path | None = None  # a directory for the event log of each run

    def runs(self, progress: Progress) -> Iterator[Run]:
        """Raises LabError for what cannot be measured."""
        evaluate.check_directory(self.events)
        self.check_nodes(NODES_MIN, "A comparison of mappings")
        sites_file.read(self.sites or SITES)
        for part in self.parts:
            known = KNOWN[part]
            fanouts = (
                self.fanout if known.lowest is None else (min(self.fanout) if known.lowest else max(self.fanout),)
            )
            repeats = range(1 if known.once else self.repeat)
            for nodes, number, fanout, mapping in itertools.product(self.nodes, repeats, fanouts, known.mappings):
                run = MappingRun(
                    part=part,
                    nodes=nodes,
                    fanout=fanout,
                    mapping=mapping,
                    number=number,
                    timing=self.timing,
                    sites=None if mapping == "performance" else self.sites or SITES,
                    rest_s=self.rest_s,
                    seconds=self.seconds,
                    rootless=self.rootless,
                    events=self.events,
                    progress=progress,
                )
                about = {"part": part, "mapping": mapping, "nodes": nodes, "fanout": fanout, "repeat": number}
                title = f"{part}, mapping {mapping}, {nodes} nodes, fan-out {fanout}, run {number + 1}"
                yield Run(title, about | {"timing": self.timing}, partial(known.measure, run))


def faults_of(record: Record) -> list[str]:
    """What must not be, in words; nothing when all is as it should be."""
    if record["fault"] is not None:
        return [str(record["fault"])]
    return KNOWN[record["part"]].faults_of(record)


def is_whole(record: Record) -> bool:
    """Nothing of what must not be."""
    return not faults_of(record)


def table(records: list[Record]) -> str:
    """For people: medians and spread of each part, mapping, size and fan-out, and what went wrong."""
    lines: list[str] = []
    for (part, mapping, nodes, fanout), some in groups(records, ("part", "mapping", "nodes", "fanout")).items():
        good = list(filter(is_measured, some))
        lines.append(f"{part}, mapping {mapping}, {nodes} nodes, fan-out {fanout}: {len(good)} of {len(some)} runs")
        for column in KNOWN[part].columns if good else ():
            values = [value_of(record, column.key) for record in good]
            lines.append(f"  {column.title:32}{spread(values, column.digits)}")
        lines += [f"  run {record['repeat'] + 1}: {words}" for record in some for words in faults_of(record)]
    return "\n".join(lines)


def value_of(record: Record, name: str) -> float | None:
    """`slow.reached_s` is in the record `slow`."""
    found: Record | float | None = record
    for part in name.split("."):
        assert isinstance(found, dict)
        found = found[part]
    assert not isinstance(found, dict)
    return found
