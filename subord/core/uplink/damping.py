"""May I go home already? (protocol section 4)

A home that was lost twice in a row is returned to after a wait, and each further loss doubles the wait. Otherwise a
daemon that crashes again and again, or a link that flaps, makes a whole branch move to and fro.

Guests wait, and so does a node that became root because its home was lost. An orphan that finds its home alive goes
there at once, because it has to move anyway.
"""

from __future__ import annotations

from math import inf

from subord.core.state.settings import Timing


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
