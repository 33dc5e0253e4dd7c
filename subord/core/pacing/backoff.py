"""A backoff that doubles.

A step returns the delay to wait now and doubles the next one up to the bound of the caller. Times are seconds.
"""

from __future__ import annotations


class Backoff:
    """`delay_s` is the delay of the next step."""

    __slots__ = ("delay_s",)

    def __init__(self, first_s: float) -> None:
        self.delay_s = first_s

    def step(self, most_s: float) -> float:
        """The delay to wait now; the next one is twice as long, and at most `most_s`."""
        delay_s = self.delay_s
        self.delay_s = min(2 * delay_s, most_s)
        return delay_s
