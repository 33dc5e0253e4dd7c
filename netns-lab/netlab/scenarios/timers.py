"""Timers: what is to be done at a later moment of the scenario, beside the steps that follow."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from math import inf

from netlab.errors import LabError

TIMERS_MAX = 100_000

Act = Callable[[], None]


class Timers:
    """Times are those of the caller's clock, in seconds."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Act]] = []
        self._tie = count()

    @property
    def next_at(self) -> float:
        """When the next is due; infinity: there is none."""
        return self._entries[0][0] if self._entries else inf

    def set(self, at: float, act: Act) -> None:
        """Raises LabError when there are too many."""
        if len(self._entries) >= TIMERS_MAX:
            raise LabError(f"The scenario has planned more than {TIMERS_MAX} things for later: shorten it.")
        heapq.heappush(self._entries, (at, next(self._tie), act))

    def fire(self, now: float) -> None:
        """Do what is due at `now` or earlier, in order of time."""
        while self.next_at <= now:
            heapq.heappop(self._entries)[2]()
