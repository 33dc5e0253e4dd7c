"""A token bucket; it bounds the answers, referrals and verifications of a node."""

from __future__ import annotations


class TokenBucket:
    """Fills at `per_s` tokens per second. Times are seconds of the caller's clock."""

    __slots__ = ("_at", "_burst", "_per_s", "_tokens")

    def __init__(self, per_s: float, now: float, burst: float | None = None) -> None:
        """`burst`: how many tokens it holds; by default those of one second."""
        self._per_s = per_s
        self._burst = per_s if burst is None else burst
        self._tokens = self._burst
        self._at = now

    def admit(self, now: float) -> bool:
        """Take a token; False when there is none."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
