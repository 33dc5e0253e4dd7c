"""How long to wait for a node that does not acknowledge, so that busy machines are not taken for hung ones.

Inputs are the times that acknowledgements took, how late this node was called, and which peers are in doubt now.
Outputs are a time, and whether messages are late. Invariants: with one peer in doubt on quick machines the times are
those of bounds.py; no time exceeds GIVE_UP_S_MAX, so a node that is slow on purpose delays others by a bounded time.
"""

from __future__ import annotations

from math import inf

from subord.core.carriage.engine import bounds
from subord.core.view import Position


class Slowness:
    """The longest delay that this node has seen of late, and the peers in doubt: those without acknowledgement."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._at = -inf
        self._late_until = -inf
        self._doubted: dict[int, Position] = {}

    def note(self, delay_s: float, now: float, usual_s: float = bounds.ACK_S_MIN) -> None:
        """Something took so long, or came so late; `usual_s` is enough on quick machines."""
        if delay_s > usual_s:
            self._late_until = now + bounds.LATE_S
        if delay_s > self._delay_s(now):
            self._longest_s, self._at = min(delay_s, bounds.SLOW_S_MAX), now

    def _delay_s(self, now: float) -> float:
        """The longest delay, halved for each SLOW_HALF_S since."""
        return self._longest_s * 0.5 ** ((now - self._at) / bounds.SLOW_HALF_S) if self._longest_s else 0.0

    def is_late(self, now: float) -> bool:
        """Whether something took longer in the last LATE_S than it may on quick machines."""
        return now < self._late_until

    def doubt(self, number: int, peer: Position) -> None:
        """The peer has not acknowledged this question."""
        self._doubted[number] = peer

    def settle(self, number: int) -> None:
        """The question is acknowledged or over."""
        self._doubted.pop(number, None)

    def ack_s(self, usual_s: float, peer: Position, now: float) -> float:
        """How long an acknowledgement may take, where `usual_s` is enough on quick machines."""
        return min(max(usual_s, bounds.SLOW_ACKS * self._delay_s(now)) * self._factor(peer), bounds.GIVE_UP_S_MAX)

    def give_up_s(self, peer: Position, now: float) -> float:
        """When a peer in doubt is missing."""
        return self.ack_s(max(bounds.GIVE_UP_S, bounds.SLOW_GIVE_UPS * self._delay_s(now)), peer, now)

    def _factor(self, peer: Position) -> int:
        """Several peers at once are rather slow than hung."""
        return 1 + len(set(self._doubted.values()) - {peer})
