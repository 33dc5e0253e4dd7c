"""A sliding window: at most so many events in any window of time.

Inputs are the times of events; output is the time from which more are allowed. The limit bounds the memory.
"""

from __future__ import annotations

from collections import deque
from math import inf


class SlidingWindow:
    """At most `events_max` events in any `window_s` seconds of the caller's clock."""

    def __init__(self, events_max: int, window_s: float) -> None:
        self.window_s = window_s
        self._events_max = events_max
        self._at: deque[float] = deque(maxlen=events_max)

    @property
    def last_at(self) -> float:
        """The time of the last event; minus infinity without events."""
        return self._at[-1] if self._at else -inf

    def is_idle(self, now: float) -> bool:
        """Whether the last window had no event, so that any event is allowed."""
        return now >= self.last_at + self.window_s

    def note(self, now: float, events: int = 1) -> None:
        """Note that so many events happened now."""
        self._at.extend([now] * events)

    def free_at(self, events: int = 1, events_max: int | None = None) -> float:
        """When `events` more are allowed, under `events_max` if given; minus infinity: at once."""
        excess = len(self._at) + events - (self._events_max if events_max is None else events_max)
        return self._at[excess - 1] + self.window_s if excess > 0 else -inf
