"""Damping of returns to the home (docs/protocol.md, section 4).

Input are losses of the home; output is `hold_until`, before which a guest or root does not return. After two losses
in a row the hold is `return_hold_s`, and each further loss doubles it up to `return_hold_s_max`, so a home that
crashes again and again does not move a branch each time. An orphan is not held: it has to move anyway.
"""

from __future__ import annotations

from math import inf

from subord.core.settings import Timing


class Damping:
    """Counts recent losses of the home. Times are seconds of the node's clock."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._losses = 0.0
        self._lost_at = -inf
        self.hold_until = -inf

    def lost(self, now: float, since: float) -> None:
        """The home, which led the node since `since`, is lost or leaves."""
        timing = self._timing
        calm_s = now - max(self._lost_at, since)
        self._losses = max(0.0, self._losses - calm_s / timing.return_hold_s_max) + 1
        self._lost_at = now
        doublings = round(self._losses) - 2
        if doublings >= 0:
            hold_s = min(timing.return_hold_s * 2 ** min(doublings, 32), timing.return_hold_s_max)
            self.hold_until = now + hold_s
