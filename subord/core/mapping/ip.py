"""The mapping `ip`: rank is position, and each node has a home (docs/protocol.md, section 7)."""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.mapping.mapping import Mapping
from subord.core.view import Position


class ByAddress(Mapping):
    keeps_homes = True

    def home_of(self, node: Position) -> Position | None:
        return self._numbering.computed_leader(node)

    def at_home_below(self, leader: Position) -> Iterable[Position]:
        return self._numbering.computed_subordinates(leader, self._size)
