"""How slow the machines are at present, so that a busy cluster is not taken for one that hangs.

Inputs are the times that acknowledgements took, and how late this node was called; output is a time that halves each
SLOW_HALF_S. Invariant: it is at most SLOW_S_MAX, so a node that is slow on purpose delays others by a bounded time.
"""

from __future__ import annotations

from math import inf

from subord.core.carriage.engine import bounds


class Slowness:
    """The longest delay that this node has seen lately."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._at = -inf

    def note(self, delay_s: float, now: float) -> None:
        """Something took so long, or came so late."""
        if delay_s > self.delay_s(now):
            self._longest_s, self._at = min(delay_s, bounds.SLOW_S_MAX), now

    def delay_s(self, now: float) -> float:
        """The longest delay, halved for each SLOW_HALF_S since."""
        return self._longest_s * 0.5 ** ((now - self._at) / bounds.SLOW_HALF_S) if self._longest_s else 0.0

    def ack_s(self, usual_s: float, now: float) -> float:
        """How long an acknowledgement may take that usually takes `usual_s` at most."""
        return max(usual_s, bounds.SLOW_ACKS * self.delay_s(now))

    def give_up_s(self, now: float) -> float:
        """When a node without acknowledgement is missing."""
        return max(bounds.GIVE_UP_S, bounds.SLOW_GIVE_UPS * self.delay_s(now))
