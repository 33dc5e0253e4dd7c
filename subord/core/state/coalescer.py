"""When changes are passed on, so that several travel in one message (docs/protocol.md, section 5).

The first change waits `report_s`. While changes continue, the delay doubles with each message up to `answer_s`.
"""

from __future__ import annotations

from math import inf

from subord.core.pacing.backoff import Backoff
from subord.core.state.context import Context


class Coalescer:
    """The pace of messages to one receiver, or to all subordinates at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sent_at = -inf
        self._wait_s = 0.0
        self._backoff = Backoff(context.timing.report_s)

    @property
    def next_at(self) -> float:
        """When a change of this moment is sent: after `report_s`, and up to `answer_s` after the last message."""
        return max(self._context.now + self._context.timing.report_s, self._sent_at + self._wait_s)

    def sent(self) -> None:
        """Note that a message was sent now."""
        now, timing = self._context.now, self._context.timing
        if now - self._sent_at > 2 * timing.answer_s:
            self._backoff = Backoff(timing.report_s)
        self._wait_s = self._backoff.step(timing.answer_s)
        self._sent_at = now
