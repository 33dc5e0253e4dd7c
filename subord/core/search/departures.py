"""Nodes that are about to leave; the search makes them no proposals (docs/protocol.md, section 3)."""

from __future__ import annotations

from math import inf

from subord.core.state.context import Context
from subord.core.tables import BoundedMap
from subord.core.view import Position

DEPARTURES_MAX = 64  # the oldest is dropped


class Departures:
    """Announced departures. Each counts for `patience_s`, after which the node may be back."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._until: BoundedMap[Position, float] = BoundedMap(DEPARTURES_MAX)

    def note(self, position: Position) -> None:
        """`position` is about to leave."""
        self._until[position] = self._context.now + self._context.timing.patience_s

    def has(self, position: Position) -> bool:
        return self._until.get(position, -inf) > self._context.now
