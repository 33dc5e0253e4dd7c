"""A token bucket that holds the tokens of one second; it bounds the answers and referrals of a node."""

from __future__ import annotations


class TokenBucket:
    """Fills at `per_s` tokens per second. Times are seconds of the caller's clock."""

    __slots__ = ("_at", "_per_s", "_tokens")

    def __init__(self, per_s: float, now: float) -> None:
        self._per_s = per_s
        self._tokens = per_s
        self._at = now

    def admit(self, now: float) -> bool:
        """Take a token; False when there is none."""
        self._tokens = min(self._per_s, self._tokens + (now - self._at) * self._per_s)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
