"""A limit on moves by choice: at most MOVES_PER_HOUR_MAX in any hour (docs/protocol.md, section 7).

A move after the loss of a leader is not counted.
"""

from __future__ import annotations

from subord.core.pacing.sliding_window import SlidingWindow

MOVES_PER_HOUR_MAX = 24
HOUR_S = 3600.0


class MoveBudget:
    """Moves of one node by choice. Times are seconds of its clock."""

    def __init__(self) -> None:
        self.moves = 0
        self.held = 0  # moves not made
        self._window = SlidingWindow(MOVES_PER_HOUR_MAX, HOUR_S)

    def allows(self, now: float) -> bool:
        """Whether the node may move now; a refusal is counted."""
        if now < self._window.free_at():
            self.held += 1
            return False
        return True

    def spend(self, now: float) -> None:
        """Count a move."""
        self._window.note(now)
        self.moves += 1
