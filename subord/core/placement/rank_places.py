"""Where does a node belong when ranks go by performance? (protocol section 7)

Intuition: an usher in a theatre where the best players sit in front. He counts how many of those present play better
than the newcomer; that tells him the row, as in a full tree, and he looks for a seat in that row. Nobody who sits
within a row of where he belongs is asked to get up because of a newcomer: so only who became better or worse moves.

The count goes by what everybody has measured. Who may sit behind whom goes by the standings (rank_classes.py), which
follow row by row from the front: the best of all is told first that the top is his, then those who belong behind him.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from subord.core.address.numbering import numbering
from subord.core.messages import Change
from subord.core.placement.mapping import Rank
from subord.core.state.context import Context
from subord.core.state.view import Position

LOOKED_AT_MAX = 256  # places of one level
CHOICE = 8


class RankPlaces:
    """The advice of a root. Drawn anew with the plan of vacant places (downlink/vacancies.py)."""

    def __init__(
        self, context: Context, free: Callable[[Position], int], promised: Callable[[Position], int]
    ) -> None:
        """`free`: how many places of a leader are not taken; `promised`: how many of these are kept for others."""
        self._context = context
        self._not_taken, self._promised = free, promised
        # Each leader has p places and g more, whatever the numbering: `paper` gives its first one more of them.
        self._full = numbering("complete", context.settings.fanout)
        self._rows: Mapping[Position, Change] = {}
        self._levels: Mapping[Position, int] = {}
        self._order: list[Rank] = []  # of all, by what they measure
        self._on_level: list[list[Position]] = []
        self._roomy: list[list[Position]] = []  # those of them with room, first who has fewer than p subordinates
        self._spare = context.settings.guest_slots
        self._tall: dict[int, list[Position]] = {}

    def draw(self, rows: Mapping[Position, Change], levels: Mapping[Position, int]) -> None:
        """`rows` of the living; real `levels` of those whose way to the top is known."""
        self._rows, self._levels, self._tall = rows, levels, {}
        self._order = sorted(self._measured(each) for each in rows.values())
        self._on_level = [[] for _ in range(max(levels.values(), default=0) + 1)]
        for position, level in levels.items():
            self._on_level[level].append(position)
        # A promise ends without a change of the rows, so it does not count here.
        roomy = ([p for p in each if self._not_taken(p) > 0] for each in self._on_level)
        self._roomy = [sorted(each, key=lambda p: self._not_taken(p) <= self._spare) for each in roomy]

    def _free(self, leader: Position) -> int:
        return self._not_taken(leader) - self._promised(leader)

    def _measured(self, change: Change) -> Rank:
        return self._context.mapping.rank(change.position, change.performance or change.standing)

    def wanted(self, node: Position, performance: int) -> int:
        """The level on which a node with this class belongs; 0: it is the best of all."""
        rank = self._context.mapping.rank(node, performance)
        better = bisect_left(self._order, rank)
        row = self._rows.get(node)
        if row is not None and self._measured(row) < rank:
            better -= 1  # itself, as it was
        return self._full.depth(better + 1)

    def is_best(self, node: Position, performance: int) -> bool:
        """Does the top belong to a node with this class? Not while somebody better has not come down from it."""
        mapping = self._context.mapping
        above_us = mapping.rank(node, performance) < mapping.rank(self._context.position)
        return above_us and self.wanted(node, performance) == 0

    def places(self, node: Position, performance: int, wanted: int) -> Iterator[Position]:
        """Leaders with room, best first: on the level above the wanted one; its own, if that may stay; others."""
        rank = self._context.mapping.rank(node, performance)
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
        """A leader on the right level, one of whose subordinates stands too high and ranks above; 0: none."""
        mapping = self._context.mapping
        rank = mapping.rank(node, performance)
        for position in self._too_high(wanted):
            leader, standing = self._rows[position].leader, self._rows[position].standing
            if node not in (leader, position) and mapping.rank(leader) < rank < mapping.rank(position, standing):
                return leader
        return 0

    def _too_high(self, level: int) -> list[Position]:
        """Who stands on that level and belongs further down; at most LOOKED_AT_MAX, the slowest first."""
        if level not in self._tall:
            standing_there = self._on_level[level] if level < len(self._on_level) else []
            slowest = sorted(standing_there, key=lambda p: self._measured(self._rows[p]), reverse=True)
            found = (p for p in slowest if self.wanted(p, self._measured_class(p)) > level)
            self._tall[level] = list(islice(found, LOOKED_AT_MAX))
        return self._tall[level]

    def _measured_class(self, position: Position) -> int:
        return self._rows[position].performance or self._rows[position].standing

    def _with_room(self, level: int, node: Position, rank: Rank, present: Position) -> list[Position]:
        """Those who have fewer than p subordinates first, then the nearest; not the `present` leader."""
        if not 0 <= level < len(self._roomy):
            return []
        good = (
            p
            for p in self._roomy[level]
            if p not in (node, present) and self._free(p) > 0 and self._leading_rank(p) < rank
        )
        looked_at = islice(good, LOOKED_AT_MAX)
        return sorted(looked_at, key=lambda p: (self._free(p) <= self._spare, abs(p - node), p))[:CHOICE]

    def _leading_rank(self, leader: Position) -> Rank:
        """Our own may be sinking."""
        mapping = self._context.mapping
        return mapping.leading_rank() if leader == self._context.position else mapping.rank(leader)
