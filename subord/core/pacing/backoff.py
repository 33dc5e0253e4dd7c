"""When do we look again?

Intuition: a snooze button. Every time it is pressed in vain the next nap is twice as long, up to a limit.
"""

from __future__ import annotations

from math import inf

from subord.core.state.context import Context


class Backoff:
    """The rest between two looks of one node. `until` is a time of our clock; infinity: we do not rest."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.length_s = 0.0
        self.until = inf

    def begin(self, seconds: float) -> None:
        self.until = self._context.now + self._context.jittered(seconds)

    def begin_longer(self, seconds_max: float) -> None:
        """As long as planned; the next one is twice as long."""
        self.begin(self.length_s)
        self.length_s = min(2 * self.length_s, seconds_max)

    def shorten(self, seconds: float) -> None:
        """Begin anew with a short one, unless we are resting as shortly."""
        if self.until == inf or self.length_s > seconds:
            self.length_s = seconds
            self.begin(seconds)

    def end(self) -> None:
        self.until = inf
