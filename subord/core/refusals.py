"""Who does not fit us, and why?

Intuition: a visitors' book with few pages. The same visitor with the same complaint gets a tally mark,
not another line; when the book is full the oldest line goes.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from subord.core.view import Refusal

REFUSALS_MAX = 64


class _Line(msgspec.Struct):
    reason: str
    at: float
    times: int


class Refusals:
    """The last refusals by address and side."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, Literal["them", "us"]], _Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, address: str, by: Literal["them", "us"], reason: str, now: float) -> bool:
        """Note a refusal; True when this address and reason are new."""
        old = self._lines.pop((address, by), None)
        new = old is None or old.reason != reason
        times = 1 if old is None or new else old.times + 1
        self._lines[address, by] = _Line(reason, now, times)
        if len(self._lines) > REFUSALS_MAX:
            del self._lines[next(iter(self._lines))]
        return new

    def shown(self, now: float) -> tuple[Refusal, ...]:
        """Latest first."""
        return tuple(
            Refusal(address=address, by=by, reason=line.reason, ago_s=now - line.at, times=line.times)
            for (address, by), line in reversed(self._lines.items())
        )
