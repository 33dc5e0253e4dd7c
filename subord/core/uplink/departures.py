"""Which nodes have said that they are about to leave?

They are not proposed to for a while (protocol section 3).
"""

from __future__ import annotations

from math import inf

from subord.core.state.context import Context
from subord.core.state.view import Position
from subord.core.tables import BoundedMap

DEPARTURES_MAX = 64  # remembered; the oldest is dropped


class Departures:
    """What one node was told. A word holds for `patience_s`: its sender may be back after that."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._until: BoundedMap[Position, float] = BoundedMap(DEPARTURES_MAX)

    def note(self, position: Position) -> None:
        """It says so."""
        self._until[position] = self._context.now + self._context.timing.patience_s

    def has(self, position: Position) -> bool:
        return self._until.get(position, -inf) > self._context.now
