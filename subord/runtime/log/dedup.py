"""Whoever says the same again is heard now and then: repeats of a log line become one line that counts them. Pure.

Intuition: a doorman. He announces a guest at once; who comes in the same coat soon after is announced later, as
"and four more like him".
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Hashable, Iterator
from math import inf

REPEAT_S = 30.0
"""A line that was said is said again after so long at the earliest, with the number of its repeats."""
ALIKE_MAX = 20
"""In that time, of lines that differ only in whom or what they are about."""
DEBUG_MAX = 3000
"""The same for debug lines, which are not folded otherwise: whoever switched them on wants to see each."""
SUBJECTS_MAX = 256


class Dedup:
    """One per log. Times are of one clock that never goes back, in seconds."""

    def __init__(self) -> None:
        self._same = _Windows("repeated {} times in {:.0f} s", "repeated once in {:.0f} s")
        self._alike = _Windows("and {} more like this in {:.0f} s", "and one more like this in {:.0f} s")

    def hold(self, record: logging.LogRecord, now: float) -> bool:
        """Whether to keep it back: it was said already, and `due` will tell how often."""
        if record.levelno <= logging.DEBUG:
            return self._alike.hold(record.msg, DEBUG_MAX, record, now)
        key = record.msg, str(getattr(record, "subject", record.args))
        # A crowd that is kept back takes no room from those who were said.
        if key not in self._same and self._alike.hold(record.msg, ALIKE_MAX, record, now):
            return True
        return self._same.hold(key, 1, record, now)

    def due(self, now: float = inf) -> Iterator[logging.LogRecord]:
        """What was kept back long enough, or had to make room, or (without `now`) all of it: each the last of its
        kind, with the attributes `repeated` (how many were kept back) and `remark` (the same in words)."""
        yield from self._same.due(now)
        yield from self._alike.due(now)

    def __len__(self) -> int:
        return len(self._same) + len(self._alike)


class _Window:
    """What is remembered of a line since it was said."""

    __slots__ = ("began", "held", "last", "said")

    def __init__(self, now: float, said: int) -> None:
        self.began = now
        self.said = said
        self.held = 0
        self.last: logging.LogRecord | None = None


class _Windows:
    """By key, the oldest first, which is the first to end: all are open equally long."""

    def __init__(self, many: str, one: str) -> None:
        self._many = many
        self._one = one
        self._open: dict[Hashable, _Window] = {}
        self._evicted: list[_Window] = []

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._open

    def hold(self, key: Hashable, most: int, record: logging.LogRecord, now: float) -> bool:
        window = self._open.get(key)
        if window is None:
            if len(self._open) >= SUBJECTS_MAX:
                oldest = self._open.pop(next(iter(self._open)))
                if oldest.held:
                    self._evicted.append(oldest)
            window = self._open[key] = _Window(now, 0)
        if window.said < most:
            window.said += 1
            return False
        window.held += 1
        window.last = record
        return True

    def due(self, now: float) -> Iterator[logging.LogRecord]:
        for window in self._evicted:
            yield self._summed_up(window, now)
        self._evicted.clear()
        while self._open:
            key, window = next(iter(self._open.items()))
            if now - window.began < REPEAT_S:
                return
            del self._open[key]
            if window.held:
                if now != inf:
                    self._open[key] = _Window(now, 1)  # the sum counts as said
                yield self._summed_up(window, now)

    def _summed_up(self, window: _Window, now: float) -> logging.LogRecord:
        assert window.last is not None
        record = copy.copy(window.last)
        lasted_s = min(now - window.began, REPEAT_S)
        record.repeated = window.held
        record.remark = self._one.format(lasted_s) if window.held == 1 else self._many.format(window.held, lasted_s)
        return record
