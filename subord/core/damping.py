"""May I go home already? (protocol section 4)

Intuition: whoever was thrown out of the same house twice in a row waits a while before moving in again, and longer
every time. Otherwise a daemon that crashes again and again would make its whole branch run to and fro.

Only guests wait. An orphan that finds its home alive goes there at once: it has to move anyway.
"""

from __future__ import annotations

from math import inf

from subord.core.settings import Timing


class Damping:
    """Counts how often the home was lost lately. Times are seconds of our clock."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._losses = 0.0
        self._lost_at = -inf
        self.hold_until = -inf

    def lost(self, now: float, since: float) -> None:
        """The home, which we had since `since`, is lost or says goodbye."""
        timing = self._timing
        calm_s = now - max(self._lost_at, since)
        self._losses = max(0.0, self._losses - calm_s / timing.return_hold_s_max) + 1
        self._lost_at = now
        doublings = round(self._losses) - 2
        if doublings >= 0:
            hold_s = min(timing.return_hold_s * 2 ** min(doublings, 32), timing.return_hold_s_max)
            self.hold_until = now + hold_s
