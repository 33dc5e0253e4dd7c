"""The places that a root advises where ranks follow classes (docs/protocol.md, section 7).

Inputs are the rows of the living and their levels; outputs are the wanted level of a node and leaders with room. The
level is that of the node's rank by measured performance in a full tree. A node within a level of it stays, so only
those move whose performance changed. The standings (rank_classes.py) decide which node may lead; they follow level by
level from the root.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice

from subord.core.address.numbering import numbering
from subord.core.mapping.depth_rule import off_min
from subord.core.mapping.mapping import Mapping, Rank
from subord.core.messages import Change
from subord.core.settings import Settings
from subord.core.view import Position

LOOKED_AT_MAX = 256  # places of one level
CHOICE = 8


class RankPlaces:
    """The advice of a root, computed anew with the free places (vacancies/vacancies.py)."""

    def __init__(
        self,
        mapping: Mapping,
        owner: Position,
        settings: Settings,
        free: Callable[[Position], int],
        reserved: Callable[[Position], int],
    ) -> None:
        self._mapping = mapping
        self._owner = owner
        self._not_taken, self._reserved = free, reserved
        # Each leader has p + g places with both numberings, so levels are counted with `complete`.
        self._full = numbering("complete", settings.fanout)
        self._rows: dict[Position, Change] = {}
        self._levels: dict[Position, int] = {}
        self._order: list[Rank] = []  # of all nodes, by measured performance
        self._on_level: list[list[Position]] = []
        self._with_free: list[list[Position]] = []  # by level; fewer than p subordinates first
        self._spare = settings.guest_slots
        self._off_min = off_min(settings.fanout)
        self._misplaced: dict[int, list[Position]] = {}

    def draw(self, rows: dict[Position, Change], levels: dict[Position, int]) -> None:
        """`rows` of the living; `levels` in the real tree, of nodes with a known path."""
        self._rows, self._levels, self._misplaced = rows, levels, {}
        self._order = sorted(self._measured(each) for each in rows.values())
        self._on_level = [[] for _ in range(max(levels.values(), default=0) + 1)]
        for position, level in levels.items():
            self._on_level[level].append(position)
        # Reservations end without a change of the rows, so they do not count here.
        with_free = ([p for p in each if self._not_taken(p) > 0] for each in self._on_level)
        self._with_free = [sorted(each, key=lambda p: self._not_taken(p) <= self._spare) for each in with_free]

    def _free(self, leader: Position) -> int:
        return self._not_taken(leader) - self._reserved(leader)

    def _measured(self, change: Change) -> Rank:
        return self._mapping.rank(change.position, change.performance or change.standing)

    def wanted(self, node: Position, performance: int) -> int:
        """The level on which a node of this class belongs; 0: it is the best of all."""
        rank = self._mapping.rank(node, performance)
        better = bisect_left(self._order, rank)
        row = self._rows.get(node)
        if row is not None and self._measured(row) < rank:
            better -= 1  # the node itself, by its former class
        return self._full.depth(better + 1)

    def is_best(self, node: Position, performance: int) -> bool:
        """Whether a node of this class belongs at the root. Not while a better former root stands there."""
        mapping = self._mapping
        above_us = mapping.rank(node, performance) < mapping.rank(self._owner)
        return above_us and self.wanted(node, performance) == 0

    def will_move(self, node: Position, standing: int, wanted: int) -> bool:
        """A newcomer, a node whose class has changed, and one that stands far off its level; the others only look."""
        row, level = self._rows.get(node), self._levels.get(node)
        if row is None or level is None or row.standing != standing:
            return True
        return abs(level - wanted) >= self._off_min

    def places(self, node: Position, performance: int, wanted: int) -> Iterator[Position]:
        """Leaders with room, best first: on the level above the wanted one; the present leader; other levels."""
        rank = self._mapping.rank(node, performance)
        row = self._rows.get(node)
        present = row.leader if row is not None else 0
        may_stay = present in self._levels and self._leading_rank(present) < rank
        right = wanted - 1
        if may_stay and self._levels[present] == right:
            yield present
        yield from self._with_room(right, node, rank, present)
        if may_stay and self._levels[present] != right:
            yield present
        if row is None or not may_stay:
            for level in sorted(range(len(self._on_level)), key=lambda level: abs(level - right)):
                if level != right:
                    yield from self._with_room(level, node, rank, present)

    def giving_way(self, node: Position, performance: int, wanted: int) -> Position:
        """A leader on the right level with a subordinate that stands too high and ranks above; 0: none."""
        mapping = self._mapping
        rank = mapping.rank(node, performance)
        for position in self._too_high(wanted):
            leader, standing = self._rows[position].leader, self._rows[position].standing
            if node not in (leader, position) and mapping.rank(leader) < rank < mapping.rank(position, standing):
                return leader
        return 0

    def _too_high(self, level: int) -> list[Position]:
        """Nodes on `level` that belong further down, the slowest first; at most LOOKED_AT_MAX."""
        if level not in self._misplaced:
            standing_there = self._on_level[level] if level < len(self._on_level) else []
            slowest = sorted(standing_there, key=lambda p: self._measured(self._rows[p]), reverse=True)
            found = (p for p in slowest if self.wanted(p, self._measured_class(p)) > level)
            self._misplaced[level] = list(islice(found, LOOKED_AT_MAX))
        return self._misplaced[level]

    def _measured_class(self, position: Position) -> int:
        return self._rows[position].performance or self._rows[position].standing

    def _with_room(self, level: int, node: Position, rank: Rank, present: Position) -> list[Position]:
        """Leaders with fewer than p subordinates first, then the nearest; without `present`."""
        if not 0 <= level < len(self._with_free):
            return []
        good = (
            p
            for p in self._with_free[level]
            if p not in (node, present) and self._free(p) > 0 and self._leading_rank(p) < rank
        )
        looked_at = islice(good, LOOKED_AT_MAX)
        return sorted(looked_at, key=lambda p: (self._free(p) <= self._spare, abs(p - node), p))[:CHOICE]

    def _leading_rank(self, leader: Position) -> Rank:
        """The owner's rank may be falling."""
        mapping = self._mapping
        return mapping.leading_rank() if leader == self._owner else mapping.rank(leader)
