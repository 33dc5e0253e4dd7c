"""Which nodes have said that they are about to leave?

They are not proposed to for a while (protocol section 3).
"""

from __future__ import annotations

from math import inf

from subord.core.state.context import Context
from subord.core.state.view import Position

DEPARTURES_MAX = 64  # remembered; the oldest is dropped


class Departures:
    """What one node was told. A word holds for `patience_s`: its sender may be back after that."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._until: dict[Position, float] = {}

    def note(self, position: Position) -> None:
        """It says so."""
        self._until.pop(position, None)
        self._until[position] = self._context.now + self._context.timing.patience_s
        if len(self._until) > DEPARTURES_MAX:
            del self._until[next(iter(self._until))]

    def has(self, position: Position) -> bool:
        return self._until.get(position, -inf) > self._context.now
