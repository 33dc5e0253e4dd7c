"""When must somebody wake us?

Intuition: one kitchen clock for many pots. We note for each pot when it is done, but only the earliest
time is put on the clock.

Planning an alarm again moves it. An alarm is due once. Late or reordered wake-ups do no harm, because
what is due is decided here, by the time that the caller brings along.
"""

from __future__ import annotations

import enum
from math import inf


class Timer(enum.IntEnum):
    """What may be due. The order decides between alarms of the same time, so that runs repeat."""

    BEAT = enum.auto()  # our leader should hear from us, or has not answered
    LIVENESS = enum.auto()  # a subordinate may be overdue
    SEARCH = enum.auto()  # a question was not answered, or a rest from searching is over
    SCAN = enum.auto()  # of those who are asked in a scan some have not answered
    GUIDE = enum.auto()  # our subordinates should hear that the way to the root changed
    ANNOUNCE = enum.auto()  # everybody on the wire should hear that we are root
    EXPIRY = enum.auto()  # a missing node has been shown long enough
    RANK_CHANGE = enum.auto()  # those who outrank us should have left, or are told so again
    MEASURE = enum.auto()  # probes have been answered, or are to be sent again
    LEAVE = enum.auto()  # a goodbye should be repeated, or the time for goodbyes is over
    LISTING = enum.auto()  # the root should be asked whether it lists us


class Timers:
    """Named deadlines in seconds of the caller's clock."""

    __slots__ = ("_at", "next_at")

    def __init__(self) -> None:
        self._at: dict[Timer, float] = {}
        self.next_at = inf
        """The earliest deadline; infinity when nothing is planned. Only read it."""

    def plan(self, timer: Timer, at: float) -> None:
        """Set or move an alarm; infinity takes it off."""
        if at == inf:
            self._at.pop(timer, None)
        else:
            self._at[timer] = at
        self.next_at = min(self._at.values(), default=inf)

    def at(self, timer: Timer) -> float:
        """When it is planned; infinity: it is not."""
        return self._at.get(timer, inf)

    def clear(self) -> None:
        """Nothing will be done any more."""
        self._at.clear()
        self.next_at = inf

    def take_due(self, now: float) -> list[Timer]:
        """Remove and return what is due, earliest first."""
        if self.next_at > now:
            return []
        due = sorted((at, timer) for timer, at in self._at.items() if at <= now)
        for _, timer in due:
            del self._at[timer]
        self.next_at = min(self._at.values(), default=inf)
        return [timer for _, timer in due]
