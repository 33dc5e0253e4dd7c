"""The mappings `latency` and `performance` with real daemons: sites far apart, changes of performance, trembling.

Intuition: a medical with three stations. Where do you stand, what do you do when something happens, and do you keep
still when nothing does?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from netlab.common.results import Record
from netlab.errors import LabError
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run
from netlab.experiments.figures import spread_text
from netlab.mappings import jitter, multisite, performance
from netlab.mappings.base import Ground
from netlab.processes.launch import Progress
from netlab.topology import sites_file
from subord.core.settings import TimingName

SITES = Path(__file__).parents[2] / "sites" / "four.toml"
NODES_MIN = 8


class Part(NamedTuple):
    """What is measured with which mappings, by turns; `lowest`: at the lowest fan-out, not the highest; None: all.

    What lasts long is done `once`, however often the others are repeated.
    """

    mappings: tuple[str, ...]
    lowest: bool | None
    measure: Callable[[Ground], Record]
    faults_of: Callable[[Record], list[str]]
    once: bool = False


KNOWN = {
    "distance": Part(("ip", "latency"), False, multisite.measure_one, multisite.faults_of),
    "performance": Part(("performance",), None, performance.measure_one, performance.faults_of),
    "trembling-performance": Part(("performance",), True, jitter.measure_one, jitter.faults_of, once=True),
    "trembling-latency": Part(("latency",), False, jitter.measure_one, jitter.faults_of, once=True),
}
PARTS = tuple(KNOWN)


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """`performance` is measured at each fan-out; the others at the one that their part names."""

    fanout: tuple[int, ...] = (2, 8)
    parts: tuple[str, ...] = PARTS
    sites: Path | None = None
    rest_s: float = 60.0
    seconds: float = 600.0  # of trembling
    timing: TimingName = "lan"
    events: Path | None = None  # a directory for the event log of each run

    def runs(self, progress: Progress) -> Iterator[Run]:
        """Raises LabError for what cannot be measured."""
        if self.events is not None and not self.events.is_dir():
            raise LabError(f"{self.events} is no directory: make it, or correct --events. Nothing was done.")
        if min(self.nodes) < NODES_MIN:
            raise LabError(
                f"Mappings are compared with {NODES_MIN} nodes or more: correct --nodes. Nothing was done."
            )
        sites_file.read(self._sites)
        for part in self.parts:
            for nodes in self.nodes:
                for number in range(1 if KNOWN[part].once else self.repeat):
                    yield from self._runs_of(part, nodes, number, progress)

    @property
    def _sites(self) -> Path:
        return SITES if self.sites is None else self.sites

    def _runs_of(self, part: str, nodes: int, number: int, progress: Progress) -> Iterator[Run]:
        known = KNOWN[part]
        lowest, highest = min(self.fanout), max(self.fanout)
        fanouts = self.fanout if known.lowest is None else (lowest if known.lowest else highest,)
        for fanout in fanouts:
            for mapping in known.mappings:
                ground = Ground(
                    part=part,
                    nodes=nodes,
                    fanout=fanout,
                    mapping=mapping,
                    number=number,
                    timing=self.timing,
                    sites=None if mapping == "performance" else self._sites,
                    rest_s=self.rest_s,
                    seconds=self.seconds,
                    rootless=self.rootless,
                    events=self.events,
                    progress=progress,
                )
                about = {"part": part, "mapping": mapping, "nodes": nodes, "fanout": fanout, "repeat": number}
                title = f"{part}, mapping {mapping}, {nodes} nodes, fan-out {fanout}, run {number + 1}"
                yield Run(title, about | {"timing": self.timing}, partial(_measured, ground))


def _measured(ground: Ground) -> Record:
    return KNOWN[ground.part].measure(ground)


def faults_of(record: Record) -> list[str]:
    """What must not be, in words; nothing when all is as it should be."""
    if record["fault"] is not None:
        return [str(record["fault"])]
    return KNOWN[record["part"]].faults_of(record)


def is_whole(record: Record) -> bool:
    """Nothing of what must not be."""
    return not faults_of(record)


COLUMNS: dict[str, tuple[tuple[str, str, int], ...]] = {
    "distance": (
        ("wide edges", "wide_edges", 0),
        ("until the least, s", "wide_least_s", 1),
        ("depth", "depth", 0),
        ("wide frames/s", "wide_frames_per_s", 1),
        ("wide B/s", "wide_bytes_per_s", 0),
        ("frames/s in all", "all_frames_per_s", 1),
        ("B/s in all", "all_bytes_per_s", 0),
        ("cut: both whole, s", "cut_whole_s", 1),
        ("mended: one root, s", "mend_one_root_s", 1),
        ("mended: least wide edges, s", "mend_wide_least_s", 1),
    ),
    "performance": (
        ("last move, s", "last_move_s", 1),
        ("depth", "depth", 0),
        ("Spearman", "spearman", 3),
        ("the best possible", "spearman_best", 3),
        ("by class", "spearman_class", 3),
        ("the best possible by class", "spearman_class_best", 3),
        ("above one two classes faster", "above_faster", 0),
        *(
            (f"{word}: {title}", f"{way}.{key}", digits)
            for way, word in (("slow", "slower"), ("fast", "faster"))
            for title, key, digits in (
                ("level before", "level_before", 0),
                ("level after", "level_after", 0),
                ("there after, s", "reached_s", 1),
                ("others moved", "others_moved", 0),
            )
        ),
    ),
    "trembling-performance": (("trembled, s", "trembled_s", 0), ("changes of place", "places", 0)),
    "trembling-latency": (("trembled, s", "trembled_s", 0), ("changes of place", "places", 0)),
}


def table(records: list[Record]) -> str:
    """For people: medians and spread of each part, mapping, size and fan-out, and what went wrong."""
    lines: list[str] = []
    groups: dict[tuple[str, str, int, int], list[Record]] = {}
    for record in records:
        key = (record["part"], record["mapping"], record["nodes"], record["fanout"])
        groups.setdefault(key, []).append(record)
    for (part, mapping, nodes, fanout), some in groups.items():
        good = evaluate.sound(some)
        lines.append(f"{part}, mapping {mapping}, {nodes} nodes, fan-out {fanout}: {len(good)} of {len(some)} runs")
        for title, name, digits in COLUMNS[part] if good else ():
            lines.append(f"  {title:32}{spread_text([value_of(record, name) for record in good], digits)}")
        lines += [f"  run {record['repeat'] + 1}: {words}" for record in some for words in faults_of(record)]
    return "\n".join(lines)


def value_of(record: Record, name: str) -> float | None:
    """`slow.reached_s` stands one deeper."""
    found: Record | float | None = record
    for part in name.split("."):
        assert isinstance(found, dict)
        found = found[part]
    assert not isinstance(found, dict)
    return found
