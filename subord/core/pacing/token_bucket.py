"""How many questions do I answer per second?

Intuition: a doctor's waiting room with a ticket machine. Tickets come out at a steady pace, a few are
in stock for a rush; who gets none is told when to come again.
"""

from __future__ import annotations


class TokenBucket:
    """A token bucket that holds one second's worth of tickets."""

    __slots__ = ("_at", "_per_s", "_tickets")

    def __init__(self, per_s: float, now: float) -> None:
        self._per_s = per_s
        self._tickets = per_s
        self._at = now

    def admit(self, now: float) -> bool:
        """Take a ticket; False when there is none."""
        self._tickets = min(self._per_s, self._tickets + (now - self._at) * self._per_s)
        self._at = now
        if self._tickets < 1:
            return False
        self._tickets -= 1
        return True
