"""The mapping `performance`: the better class leads, then the lower position (docs/protocol.md, section 7).

Nodes state their classes, others believe the latest statement (rank_classes.py), and a node without one ranks last.
The root plans all places by rank (rank_places.py), and a guest moves to its level (placement/rank_change.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from subord.core.mapping.mapping import Guest, Mapping, Move, Plan, Rank
from subord.core.mapping.rank_classes import learn
from subord.core.mapping.rank_places import RankPlaces
from subord.core.messages import Advice, Message
from subord.core.view import Position


class ByPerformance(Mapping):
    ranks_are_positions = False
    ranks_change = True

    def rank(self, node: Position, standing: int | None = None) -> Rank:
        return -(self.rank_classes.of(node) if standing is None else standing), node

    def might_lead(self, candidate: Position) -> bool:
        return (candidate > 0 and not self.knows_rank(candidate)) or super().might_lead(candidate)

    def knows_rank(self, node: Position) -> bool:
        return self.rank_classes.knows(node)

    def learn(self, source: Position, message: Message) -> None:
        learn(self.rank_classes, source, message)

    def in_order(self, node: Position, some: Iterable[Position]) -> list[Position]:
        """In the given order; with nodes that might lead the owner."""
        return [p for p in some if (self.might_lead(p) if node == self._owner else self.may_lead(p, node))]

    def plan(self, free: Callable[[Position], int], reserved: Callable[[Position], int]) -> Plan | None:
        return RankPlaces(self, self._owner, self._settings, free, reserved)

    def choose(self, guest: Guest, advice: Advice) -> Move | None:
        return guest.move_to_level(advice)

    def looks_soon(self, guest: Guest, _advice: Advice) -> bool:
        return guest.awaits_level
