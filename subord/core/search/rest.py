"""The rest between two rounds of a search.

Input is the end of a round, or a hint that a place may be free; output is the time of the next round. The rest of a
root or guest doubles with each round in vain, up to a bound.
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

    def begin(self, seconds: float) -> None:
        self.until = self._context.now + self._context.jittered(seconds)

    def begin_as_root(self, *, hears_lower: bool) -> None:
        """The next rest of the root is twice as long, unless it hears a lower node."""
        timing = self._context.timing
        if hears_lower:  # that node may have no place yet, but will soon
            self._backoff.delay_s = timing.search_interval_s / 2
        self.begin(self._backoff.step(timing.search_interval_s_max))

    def begin_as_guest(self) -> None:
        """The next rest of the guest is twice as long."""
        self.begin(self._backoff.step(self._context.mapping.rest_s_max(self._context.timing)))

    def shorten(self, seconds: float) -> None:
        """Start again with a short rest, unless the rest under way is as short."""
        if self.until == inf or self.length_s > seconds:
            self._backoff.delay_s = seconds
            self.begin(seconds)

    def shorten_next(self) -> None:
        """Start again with a short rest after this one."""
        self._backoff.delay_s = self._context.timing.search_interval_s

    def lengthen_next(self) -> None:
        """Take the longest rest of a guest next."""
        self._backoff.delay_s = self._context.mapping.rest_s_max(self._context.timing)

    def end(self) -> None:
        self.until = inf
