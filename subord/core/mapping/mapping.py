"""The mapping: which node may lead (rank), and which is asked first (preference) (docs/protocol.md, section 7).

`ip` and `latency` rank by position, `performance` by the class of performance, then by position. Nodes state their
classes, others believe the latest statement (rank_classes.py), and a node without one ranks last. A leader accepts
only a node that ranks above it by the statements of both. Only `ip` has homes, because only there computed leaders
never change. Where the rank is the position, address/order.py and downlink/vacancies.py also compare positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from subord.core.address.order import in_rank_order, ranked
from subord.core.mapping.rank_classes import RankClasses
from subord.core.quantize import UNKNOWN
from subord.core.settings import Settings
from subord.core.view import Position

Rank = tuple[int, Position]


class Mapping:
    """Rank and preference as one node knows them."""

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
        """A lower rank leads; by `standing`, or by the last one known."""
        if not self.by_performance:
            return UNKNOWN, node
        return -(self.rank_classes.of(node) if standing is None else standing), node

    def leading_rank(self) -> Rank:
        """The owner's rank towards subordinates: while it sinks, the worse one already."""
        return self.rank(self._owner, min(self.rank_classes.own, self.rank_classes.sinks_to))

    def may_lead(self, candidate: Position, node: Position) -> bool:
        """Whether `candidate` ranks below `node`, as far as known."""
        return candidate > 0 and self.rank(candidate) < self.rank(node)

    def might_lead(self, candidate: Position) -> bool:
        """Whether `candidate` may lead the owner, or its rank is unknown."""
        if self.by_performance and candidate > 0 and not self.rank_classes.knows(candidate):
            return True
        return self.may_lead(candidate, self._owner)

    # -- preference ---------------------------------------------------------------------------------------

    def first_of(self, node: Position) -> Position | None:
        """The computed leader, which a newcomer asks first; None for the lowest position."""
        return self._numbering.computed_leader(node)

    def home_of(self, node: Position) -> Position | None:
        """The computed leader if it keeps a place for the node; else None."""
        return self._numbering.computed_leader(node) if self.has_homes else None

    def at_home_below(self, leader: Position) -> Iterable[Position]:
        """The positions whose home is `leader`."""
        return self._numbering.computed_subordinates(leader, self._size) if self.has_homes else ()

    def candidates(self, node: Position) -> Iterator[Position]:
        """All lower positions, best first, generated on demand."""
        return ranked(node, self._numbering)

    def in_order(self, node: Position, some: Iterable[Position]) -> list[Position]:
        """The members of `some` that may lead `node`, or might lead the owner; best first but by performance."""
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
