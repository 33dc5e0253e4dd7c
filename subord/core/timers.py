"""The timers of one node: which are due, and when the driver must call again.

Inputs are deadlines in seconds of the caller's clock; outputs are the timers that are due, each once. Invariant: what
is due depends on the time of the call alone, so late and reordered wake-ups do no harm.
"""

from __future__ import annotations

import enum
from math import inf


class Timer(enum.IntEnum):
    """What may be due. Timers of the same time fire in this order, so runs repeat."""

    BEAT = enum.auto()  # the next beat to the leader, or its repetition
    LIVENESS = enum.auto()  # a subordinate may be overdue
    SEARCH = enum.auto()  # a question was not answered, or a rest of the search is over
    SCAN = enum.auto()  # unanswered questions of a scan
    GUIDE = enum.auto()  # subordinates hear the new path to the root
    ANNOUNCE = enum.auto()  # the announcement of a node without a leader
    EXPIRY = enum.auto()  # a missing node was shown long enough
    RANK_CHANGE = enum.auto()  # subordinates that outrank the node are told again to leave
    MEASURE = enum.auto()  # round trips are complete, or probes are repeated
    LEAVE = enum.auto()  # a goodbye is repeated, or the time for goodbyes is over
    LISTING = enum.auto()  # the root is asked whether it lists the node
    SETTLE = enum.auto()  # rows of a large branch that came or went are settled, some at a time


class Timers:
    __slots__ = ("_at", "next_at")

    def __init__(self) -> None:
        self._at: dict[Timer, float] = {}
        self.next_at = inf
        """The earliest deadline; infinity without timers. Read-only."""

    def plan(self, timer: Timer, at: float) -> None:
        """Set or move a timer; infinity stops it."""
        if at == self._at.get(timer, inf):
            return
        if at == inf:
            self._at.pop(timer, None)
        else:
            self._at[timer] = at
        self.next_at = min(self._at.values(), default=inf)

    def plan_if_unset(self, timer: Timer, at: float) -> None:
        """Set a timer that is not set. Events that repeat often do not move it on."""
        if timer not in self._at:
            self.plan(timer, at)

    def at(self, timer: Timer) -> float:
        """The deadline of `timer`; infinity when it is not set."""
        return self._at.get(timer, inf)

    def clear(self) -> None:
        """Stop all timers."""
        self._at.clear()
        self.next_at = inf

    def take_due(self, now: float) -> list[Timer]:
        """Remove and return the timers that are due, earliest first."""
        if self.next_at > now:
            return []
        due = sorted((at, timer) for timer, at in self._at.items() if at <= now)
        for _, timer in due:
            del self._at[timer]
        self.next_at = min(self._at.values(), default=inf)
        return [timer for _, timer in due]
