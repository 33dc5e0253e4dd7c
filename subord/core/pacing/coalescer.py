"""When news is passed on (docs/protocol.md, section 5).

A first change is told after `report_s`, which collects what belongs to it. While changes go on, each message waits
twice as long as the one before, up to `answer_s`, so a restart of many nodes costs few messages.
"""

from __future__ import annotations

from math import inf

from subord.core.pacing.backoff import Backoff
from subord.core.state.context import Context


class Coalescer:
    """The pace of news to one listener, or to all subordinates at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sent_at = -inf
        self._wait_s = 0.0
        self._backoff = Backoff(context.timing.report_s)

    @property
    def next_at(self) -> float:
        """When a change of this moment is told: after `report_s`, and up to `answer_s` after the last message."""
        return max(self._context.now + self._context.timing.report_s, self._sent_at + self._wait_s)

    def sent(self) -> None:
        """The news was sent now."""
        now, timing = self._context.now, self._context.timing
        if now - self._sent_at > 2 * timing.answer_s:
            self._backoff = Backoff(timing.report_s)
        self._wait_s = self._backoff.step(timing.answer_s)
        self._sent_at = now
