"""Who may lead whom, and whom do I ask first? (protocol section 7; paper, section "Node mapping")

Intuition: soldiers fall in by height. The *rank* says who may stand in front of whom, and everybody
agrees on it. The *preference* says beside whom I look for my place first.

`IpMapping` ranks by position. Other mappings put another class in its place; nothing else in the core
compares positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from subord.core.candidates import in_rank_order, ranked
from subord.core.settings import Settings
from subord.core.view import Position


class IpMapping:
    """Rank and preference by position of the address."""

    def __init__(self, settings: Settings) -> None:
        self._numbering = settings.numbering
        self._size = settings.network.size

    def may_lead(self, candidate: Position, node: Position) -> bool:
        """Rule 1: lower ranks only."""
        return 0 < candidate < node

    def home_of(self, node: Position) -> Position | None:
        """The computed leader; None for the lowest position."""
        return self._numbering.computed_leader(node)

    def at_home_below(self, leader: Position) -> Iterable[Position]:
        """The positions whose computed leader is `leader`."""
        return self._numbering.computed_subordinates(leader, self._size)

    def candidates(self, node: Position) -> Iterator[Position]:
        """All who may lead `node`, best first, lazily."""
        return ranked(node, self._numbering)

    def in_order(self, node: Position, some: Iterable[Position]) -> list[Position]:
        """Those of `some` who may lead `node`, best first."""
        return in_rank_order(node, some, self._numbering)

    def neighbours(self, node: Position) -> Iterator[Position]:
        """The positions around a node, nearest first, the lower before the higher."""
        for step in range(1, self._size):
            if node - step >= 1:
                yield node - step
            if node + step <= self._size:
                yield node + step
