"""When is news passed on? (protocol section 5)

Intuition: a newsroom. One event is reported at once, after a moment for what belongs to it; but on a day on which
everything happens, bulletins are collected and come ever more seldom, so that nobody hears each of a hundred changes.
"""

from __future__ import annotations

from math import inf

from subord.core.state.context import Context


class Coalescer:
    """The pace of the news to one listener, or to all below us at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sent_at = -inf
        self._wait_s = 0.0

    @property
    def next_at(self) -> float:
        """When what has just changed should be told: `report_s` from now, or up to `answer_s` after the last time."""
        return max(self._context.now + self._context.timing.report_s, self._sent_at + self._wait_s)

    def sent(self) -> None:
        """It was told now."""
        now, timing = self._context.now, self._context.timing
        is_busy = now - self._sent_at <= 2 * timing.answer_s
        self._wait_s = min(2 * self._wait_s, timing.answer_s) if is_busy else timing.report_s
        self._sent_at = now
