"""Folds repeated log lines into one line that counts them.

In: records and times of one monotonic clock in seconds. A new line passes at once; repeats within REPEAT_S are held
and come out as one record with their number. Memory is bounded by SUBJECTS_MAX. Pure.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Hashable, Iterator
from math import inf

REPEAT_S = 30.0
"""Window in which repeats of a line are held."""
ALIKE_MAX = 20
"""Lines per window that differ only in their subject."""
DEBUG_MAX = 3000
"""The same for debug lines, which are not folded otherwise."""
SUBJECTS_MAX = 256


class Dedup:
    """The windows of one log."""

    def __init__(self) -> None:
        self._same = _Windows("repeated {} times in {:.0f} s", "repeated once in {:.0f} s")
        self._alike = _Windows("and {} more like this in {:.0f} s", "and one more like this in {:.0f} s")

    def hold(self, record: logging.LogRecord, now: float) -> bool:
        """Whether to hold `record` back. `due` reports the number of held records."""
        if record.levelno <= logging.DEBUG:
            return self._alike.hold(record.msg, DEBUG_MAX, record, now)
        key = record.msg, str(getattr(record, "subject", record.args))
        # Held lines of many subjects must not evict the windows of lines that passed.
        if key not in self._same and self._alike.hold(record.msg, ALIKE_MAX, record, now):
            return True
        return self._same.hold(key, 1, record, now)

    def due(self, now: float = inf) -> Iterator[logging.LogRecord]:
        """The sums of windows that have ended or were evicted; without `now`, of all windows.

        Each is a copy of the last held record with the attributes `repeated` (number held) and `remark` (in words).
        """
        yield from self._same.due(now)
        yield from self._alike.due(now)

    def __len__(self) -> int:
        return len(self._same) + len(self._alike)


class _Window:
    """The state of one line since it passed."""

    __slots__ = ("began", "held", "last", "passed")

    def __init__(self, now: float, passed: int) -> None:
        self.began = now
        self.passed = passed
        self.held = 0
        self.last: logging.LogRecord | None = None


class _Windows:
    """Open windows by key, oldest first. All have the same length, so the oldest ends first."""

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
        if window.passed < most:
            window.passed += 1
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
                    self._open[key] = _Window(now, 1)  # the sum counts as a line that passed
                yield self._summed_up(window, now)

    def _summed_up(self, window: _Window, now: float) -> logging.LogRecord:
        assert window.last is not None
        record = copy.copy(window.last)
        lasted_s = min(now - window.began, REPEAT_S)
        record.repeated = window.held
        record.remark = self._one.format(lasted_s) if window.held == 1 else self._many.format(window.held, lasted_s)
        return record
