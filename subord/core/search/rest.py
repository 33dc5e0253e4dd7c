"""The rest between two rounds of a search.

Input is the end of a round, or a hint that a place may be free; output is the time of the next round. The rest
doubles with each round in vain, up to a bound of the caller.
"""

from __future__ import annotations

from math import inf

from subord.core.pacing.backoff import Backoff
from subord.core.state.context import Context


class Rest:
    """Ends at `until`, a time of the node's clock; infinity: no rest."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._backoff = Backoff(0.0)
        self.until = inf

    @property
    def length_s(self) -> float:
        """The length of the next rest in seconds."""
        return self._backoff.delay_s

    @length_s.setter
    def length_s(self, seconds: float) -> None:
        self._backoff.delay_s = seconds

    def begin(self, seconds: float) -> None:
        self.until = self._context.now + self._context.jittered(seconds)

    def begin_longer(self, seconds_max: float) -> None:
        """Rest for `length_s`; the next rest is twice as long."""
        self.begin(self._backoff.step(seconds_max))

    def shorten(self, seconds: float) -> None:
        """Start again with a short rest, unless the rest under way is as short."""
        if self.until == inf or self.length_s > seconds:
            self.length_s = seconds
            self.begin(seconds)

    def end(self) -> None:
        self.until = inf
