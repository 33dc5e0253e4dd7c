"""Reports in every node of a simulated cluster: drawn publishers, and checkers with arithmetic of their own.

Inputs are the lives of nodes and the drawn intervals; outputs are records that nodes publish, and a Violation. A
record says of its node only what can be computed from the node and its life, so a fold is known without the algebra
of the engine: C7, in a settled tree it equals the direct sum. C4: the tables keep their bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final
from zlib import crc32

from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.interface import PartAction
from subord.core.carriage.engine.parts import Part
from subord.core.carriage.reports.algebra import Count, Latest, Max, Min, Nodes, Quantiles, Sum, Tally, Top
from subord.core.carriage.reports.bounds import STALE_INTERVALS
from subord.core.carriage.reports.coverage import Coverage
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.reports import Fold, Publish, Reports
from subord.core.roster_tree import RosterTree
from subord.core.view import Position
from subord.sim.limits import silence_s
from subord.sim.violation import Violation
from subord.sim.world.world import World

LOAD: Final = "load"
QUEUE: Final = "queue"
INTERVALS_S: Final = (1.0, 2.0, 3.0)
LOOK_EVERY_S: Final = 1.0
UNLISTED_S_MIN: Final = 10.0
"""The least time for which a node may be counted twice: there may be some reports meanwhile."""
TOP_SHOWN: Final = 16
ERROR: Final = 0.0201
SIZES_MAX: Final = {"report services": 32, "report records": 32 * 4097, "report bytes": 32 << 20}
REPORTING_SHARE: Final = 0.5
TWO_SHARE: Final = 0.3
"""Of seeds with reports, and of these with reports of two services."""
FORGETFUL_SHARE: Final = 0.4
"""Of seeds in which some nodes cease to publish: in order, or without a word."""
RISE_S: Final = 3.0
"""Until a change of the coverage has gone up all levels."""
LEVEL_INTERVALS: Final = 1.6
"""A level adds so much to the age of a fold, at most."""


def value_of(position: Position, life: int) -> int:
    """The load of a node in one of its lives, in thousandths."""
    return crc32(b"%d/%d" % (position, life)) % 100_000


def record_of(position: Position, life: int) -> Record:
    """What a node publishes."""
    value = value_of(position, life) / 1000
    return {
        "nodes": Count(1),
        "sum": Sum.of(value),
        "least": Min(value),
        "most": Max(value),
        "spread": Quantiles.of(value),
        "top": Top.of(value, position),
        "who": Nodes.of((position,)),
        "kinds": Tally.of({f"kind {position % 7}": Count(1)}),
        "newest": Latest(life, position, b"%d" % position),
    }


class ReportDraw:
    """Draws for one cluster: the intervals, when nodes begin, and which of them cease to publish."""

    def __init__(self, seed: int, positions: Sequence[Position]) -> None:
        self.chance = Random(f"{seed}/reports")
        self.intervals_s: dict[str, float] = {}
        """None: no node publishes."""
        if self.chance.random() < REPORTING_SHARE:
            self.intervals_s[LOAD] = self.chance.choice(INTERVALS_S)
            if self.chance.random() < TWO_SHARE:
                self.intervals_s[QUEUE] = self.chance.choice(INTERVALS_S)
        few = self.chance.sample(list(positions), min(3, len(positions)))
        forgetful = few if self.chance.random() < FORGETFUL_SHARE else []
        self.ceases = {each: (self.chance.uniform(5, 30), self.chance.random() < 0.5) for each in forgetful}
        """By node: when it publishes no more, and whether it says so."""

    def phase_s(self, interval_s: float) -> float:
        """Until the first record of a life."""
        return self.chance.uniform(0, interval_s)


class ReportSide:
    """The part of reports in every engine. `feed` gives an event to the engine of a node."""

    actions: tuple[type[PartAction], ...] = ()
    sizes_max = SIZES_MAX

    def __init__(self, world: World, draw: ReportDraw, feed: Callable[[Position, Engine, Publish], None]) -> None:
        self.engine_of: Callable[[Position], Engine | None]
        self.has_edge: Callable[[Position, Position], bool]
        self._world = world
        self._draw = draw
        self._feed = feed
        self._parts: dict[Position, Reports] = {}
        self._records: dict[Position, Record] = {}
        self._published_at: dict[tuple[Position, str], float] = {}
        self._judged: dict[Position, tuple[int, int]] = {}
        self._looked_at: dict[Position, float] = {}
        self._unlisted_since: dict[tuple[Position, str], float] = {}

    def part_of(self, position: Position, tree: RosterTree) -> Part:
        self._parts[position] = part = Reports(tree)
        self._records[position] = record_of(position, self._world.boots[position])
        for name, interval_s in self._draw.intervals_s.items():
            self._published_at.pop((position, name), None)
            self._unlisted_since.pop((position, name), None)
            self._world.after(self._draw.phase_s(interval_s), self._publish, position, part, name)
        return part

    def _publish(self, position: Position, part: Reports, name: str) -> None:
        engine = self.engine_of(position)
        if engine is None or self._parts[position] is not part:
            return  # the life is over
        interval_s = self._draw.intervals_s[name]
        ceases_at, is_told = self._draw.ceases.get(position, (1e9, False))
        record: Record | None = self._records[position]
        if self._world.now >= ceases_at:
            self._published_at.pop((position, name), None)
            if not is_told:
                return
            record = None
        else:
            self._world.after(interval_s, self._publish, position, part, name)
            self._published_at[position, name] = self._world.now
        self._feed(position, engine, Publish(name, record, interval_s))

    def lose(self, position: Position) -> None: ...

    def carry_out(self, position: Position, engine: Engine, action: Any) -> None: ...

    # -- at every moment ----------------------------------------------------------------------------------

    def handled(self, position: Position) -> None:
        """C4, and of C7 what holds at every moment."""
        part = self._parts[position]
        if part.sent and not self._draw.intervals_s:
            raise Violation("C4", self._world.now, f"{position} sends reports though no node publishes")
        revisions = part.revision, self._world.nodes[position].roster.revision
        if revisions != self._judged.get(position):
            self._judged[position] = revisions
            for name in part.services():
                self._demand_counts(position, name, part.coverage(name))
            if self._world.now >= self._looked_at.get(position, 0.0) + LOOK_EVERY_S:
                self._looked_at[position] = self._world.now
                self._demand_record(position, part)

    def _demand_counts(self, position: Position, name: str, coverage: Coverage) -> None:
        """C7: told nodes are among those that the roster lists, and others do not count for long."""
        world, node = self._world, self._world.nodes[position]
        slots = node.downlink.slots.taken
        rows = node.roster.rows.items()
        living = 1 + sum(via in slots and not claim.change.missing for each, (via, claim) in rows if each != position)
        missing = sum(each.count for each in coverage.missing)
        if not coverage.told <= coverage.asked == living or coverage.told + missing != coverage.asked:
            text = (
                f"{position}: {coverage.told} told and {missing} missing of {coverage.asked}, {living} in the roster"
            )
            raise Violation("C7", world.now, text)
        # A host with an empty disk and a clock behind lives an earlier life than the row of the former host, which
        # stands until the tree forgets it. The leader of the new one counts it; the roster does not list it there.
        is_odd = bool(coverage.unlisted) and not any(
            each in world.nodes and claim.change.incarnation > world.nodes[each].context.incarnation
            for each, (_, claim) in node.roster.rows.items()
        )
        if not is_odd:
            self._unlisted_since.pop((position, name), None)
            return
        since = self._unlisted_since.setdefault((position, name), world.now)
        if world.now - since > self._unlisted_s_max():
            raise Violation("C7", world.now, f"{position} counts {coverage.unlisted} nodes twice since {since:.1f} s")

    def _unlisted_s_max(self) -> float:
        """The former leader of a node that has moved gives it up after a silence; then its row goes up."""
        return max(UNLISTED_S_MIN, silence_s(self._world.settings) + self._rise_s())

    def _rise_s(self) -> float:
        """How long the last row of a move takes to the root, level by level: records may be faster."""
        timing = self._world.settings.timing
        levels = max(len(node.uplink.path) for node in self._world.nodes.values())
        return levels * (timing.report_s + timing.answer_s)

    def _demand_record(self, position: Position, part: Reports) -> None:
        """C7: the record has one count of each told node."""
        for name in part.services():
            found = part.folded(name, self._world.clock(position))
            counted: Any = found.record.get("nodes", Count())
            if counted.value != found.coverage.told + found.coverage.unlisted:
                raise Violation("C7", self._world.now, f"{position} counts {counted.value} in {found.coverage}")

    @property
    def settled_at(self) -> float:
        """From when on no fold has a node that publishes no more: its leader drops its last record after a while."""
        longest_s = max(self._draw.intervals_s.values(), default=0.0)
        known_s = {True: longest_s, False: (1 + STALE_INTERVALS) * longest_s}
        ends = (ceases_at + known_s[is_told] for ceases_at, is_told in self._draw.ceases.values())
        return max(ends, default=0.0) + RISE_S if self.is_reporting else 0.0

    @property
    def is_reporting(self) -> bool:
        """Whether nodes publish."""
        return bool(self._draw.intervals_s)

    # -- a settled tree -----------------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """C7: where a fold at a root of a settled tree is not the sum of the records of its tree."""
        return [
            text
            for position, part in sorted(self._parts.items())
            if self.engine_of(position) is not None and not self._world.leader_of(position)
            for name in self._draw.intervals_s
            for text in self._wrong(position, name, part.folded(name, self._world.clock(position)))
        ]

    def _wrong(self, root: Position, name: str, found: Fold) -> list[str]:
        members = [each for each in self._world.nodes if self._is_reachable(each, root)]
        tellers = [each for each in members if (each, name) in self._published_at]
        values = {each: value_of(each, self._world.boots[each]) for each in tellers}
        wrong = [] if found.coverage.told == len(tellers) else [f"told {found.coverage.told} of {len(tellers)}"]
        wrong += [f"{found.coverage.unlisted} nodes count twice"] if found.coverage.unlisted else []
        if not tellers:
            return [f"{root}: {each}" for each in wrong]
        wrong += self._wrong_record(found.record, values) if "nodes" in found.record else ["no record"]
        ages_s = [self._world.now - self._published_at[each, name] for each in tellers]
        levels = max(self._level(each) for each in tellers)
        oldest_max_s = (levels + 1) * LEVEL_INTERVALS * self._draw.intervals_s[name] + 0.5
        if not max(ages_s) - 0.01 <= found.oldest_s <= oldest_max_s:
            wrong.append(f"age {found.oldest_s:.2f} s, published {max(ages_s):.2f} s ago, {levels} levels")
        return [f"{root}: {each}" for each in wrong]

    def _wrong_record(self, record: Record, values: dict[Position, int]) -> list[str]:
        """Each field that differs from the direct sum."""
        by_size = sorted(values.items(), key=lambda entry: (-entry[1], entry[0]))
        newest = max((self._world.boots[each], each) for each in values)
        kinds = Counter(f"kind {each % 7}" for each in values)
        found: dict[str, Any] = dict(record)
        seen = {
            "nodes": (found["nodes"].value, len(values)),
            "sum": (found["sum"].whole * 1000 + found["sum"].millionths // 1000, sum(values.values())),
            "least": (found["least"].value, min(values.values()) / 1000),
            "most": (found["most"].value, max(values.values()) / 1000),
            "spread": (found["spread"].count, len(values)),
            "top": (list(found["top"].entries), [(each / 1000, node) for node, each in by_size[:TOP_SHOWN]]),
            "who": (set(found["who"].ranges), set(values)),
            "kinds": ({label: each.value for label, each in found["kinds"].labels.items()}, dict(kinds)),
            "newest": (found["newest"].data, b"%d" % newest[1]),
        }
        wrong = [f"{name} is {is_}, not {truly}" for name, (is_, truly) in seen.items() if is_ != truly]
        middle, ordered = found["spread"].at(0.5), sorted(values.values())
        truly = ordered[(len(ordered) - 1) // 2] / 1000
        near = ordered[len(ordered) // 2] / 1000
        if min(truly, near) * (1 - ERROR) > middle or middle > max(truly, near) * (1 + ERROR):
            wrong.append(f"the median is {middle}, not {truly}")
        return wrong

    def _level(self, position: Position) -> int:
        level = 0
        while position := self._world.leader_of(position):
            level += 1
        return level

    def _is_reachable(self, position: Position, root: Position) -> bool:
        """Whether it is below the root with open streams, and no node of an older release is between."""
        while position != root:
            leader = self._world.leader_of(position)
            is_alive = self.engine_of(position) is not None and leader in self._world.nodes
            if not is_alive or not self.has_edge(position, leader):
                return False
            position = leader
        return True
