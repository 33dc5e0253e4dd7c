"""What is still to be done at a later moment of the scenario, beside the steps that follow.

Intuition: kitchen timers. Each is wound up once, and the cook looks at them whenever there is nothing else to stir.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from math import inf

from netlab.errors import LabError

ENTRIES_MAX = 100_000

Act = Callable[[], None]


class Agenda:
    """Times are those of the caller's clock, in seconds."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Act]] = []
        self._tie = count()

    @property
    def next_at(self) -> float:
        """When the next is due; infinity: nothing is planned."""
        return self._entries[0][0] if self._entries else inf

    def plan(self, at: float, act: Act) -> None:
        """Raises LabError when more is planned than can be meant."""
        if len(self._entries) >= ENTRIES_MAX:
            raise LabError(f"The scenario has planned more than {ENTRIES_MAX} things for later: shorten it.")
        heapq.heappush(self._entries, (at, next(self._tie), act))

    def do_due(self, now: float) -> None:
        """Do what was planned for `now` or earlier, in order of time."""
        while self.next_at <= now:
            heapq.heappop(self._entries)[2]()
