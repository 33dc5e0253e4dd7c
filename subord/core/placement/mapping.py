"""Who may lead whom, and whom do I ask first? (protocol section 7; paper, section "Node mapping")

Intuition: soldiers fall in by height. The *rank* says who may stand in front of whom. The *preference* says beside
whom I look for my place first.

`ip` and `latency` rank by position, which everybody can work out for everybody. `performance` ranks by the class of
performance, then by position: everybody *says* the class by which it stands, and others believe what they heard last
(rank_classes.py); who has said nothing ranks after all who have. What decides is only ever said at the door: nobody
is led by a node that does not rank below it by the words of both.

Only `ip` has homes, because only there the computed leader of a node stays the same for ever. Nothing else in the
core compares positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from subord.core.address.order import in_rank_order, ranked
from subord.core.placement.quantize import UNKNOWN
from subord.core.placement.rank_classes import RankClasses
from subord.core.state.settings import Settings
from subord.core.state.view import Position

Rank = tuple[int, Position]


class Mapping:
    """Rank and preference, as one node sees them."""

    def __init__(self, settings: Settings, owner: Position) -> None:
        self._numbering = settings.numbering
        self._size = settings.network.size
        self._owner = owner
        self.has_homes = settings.has_homes
        self.by_performance = settings.mapping == "performance"
        self.by_latency = settings.mapping == "latency"
        self.rank_classes = RankClasses(owner)

    # -- rank ---------------------------------------------------------------------------------------------

    def rank(self, node: Position, standing: int | None = None) -> Rank:
        """Lower leads; by the standing that is given, or the last one that we know of."""
        if not self.by_performance:
            return UNKNOWN, node
        return -(self.rank_classes.of(node) if standing is None else standing), node

    def leading_rank(self) -> Rank:
        """Our own towards those below: while we sink it is the worse one already."""
        return self.rank(self._owner, min(self.rank_classes.own, self.rank_classes.sinks_to))

    def may_lead(self, candidate: Position, node: Position) -> bool:
        """Rule 1: lower ranks only, as far as we know."""
        return candidate > 0 and self.rank(candidate) < self.rank(node)

    def might_lead(self, candidate: Position) -> bool:
        """Is it worth asking whether `candidate` leads us? Also who is not known to rank above us."""
        if self.by_performance and candidate > 0 and not self.rank_classes.knows(candidate):
            return True
        return self.may_lead(candidate, self._owner)

    # -- preference ---------------------------------------------------------------------------------------

    def first_of(self, node: Position) -> Position | None:
        """The computed leader, whom a newcomer asks first; None for the lowest position."""
        return self._numbering.computed_leader(node)

    def home_of(self, node: Position) -> Position | None:
        """The computed leader where it keeps a place for the node; else None."""
        return self._numbering.computed_leader(node) if self.has_homes else None

    def at_home_below(self, leader: Position) -> Iterable[Position]:
        """The positions whose home is `leader`."""
        return self._numbering.computed_subordinates(leader, self._size) if self.has_homes else ()

    def candidates(self, node: Position) -> Iterator[Position]:
        """All lower positions, best first, lazily."""
        return ranked(node, self._numbering)

    def in_order(self, node: Position, some: Iterable[Position]) -> list[Position]:
        """Those of `some` who may lead `node`, or might lead us, best first; by performance in the order given."""
        if not self.by_performance:
            return in_rank_order(node, some, self._numbering)
        return [p for p in some if (self.might_lead(p) if node == self._owner else self.may_lead(p, node))]

    def neighbours(self, node: Position) -> Iterator[Position]:
        """The positions around a node, nearest first, the lower before the higher."""
        for step in range(1, self._size):
            if node - step >= 1:
                yield node - step
            if node + step <= self._size:
                yield node + step
