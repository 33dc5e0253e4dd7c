"""How often may a node move because of what it measures? (protocol section 7)

Intuition: pocket money. Whoever has moved for better company too often in the last hour stays where he is, however
green the grass elsewhere looks. Losing a leader is no choice, and costs nothing.
"""

from __future__ import annotations

from subord.core.pacing.sliding_window import SlidingWindow

MOVES_PER_HOUR_MAX = 24
HOUR_S = 3600.0


class MoveBudget:
    """Moves of one node by choice. Times are seconds of its clock."""

    def __init__(self) -> None:
        self.moves = 0
        self.held = 0  # that were not made
        self._window = SlidingWindow(MOVES_PER_HOUR_MAX, HOUR_S)

    def allows(self, now: float) -> bool:
        """May we look for another leader now? If not, that is counted."""
        if now < self._window.free_at():
            self.held += 1
            return False
        return True

    def spend(self, now: float) -> None:
        """We have moved."""
        self._window.note(now)
        self.moves += 1
