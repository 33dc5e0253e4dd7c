"""Refusals by other settings or wire versions, the latest of each address and side.

Inputs are addresses and reasons; output is a notice for each new reason, and the list for `subord status`. A repeated
refusal is counted. The table is bounded.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from subord.core.events import Refused
from subord.core.state.context import Context
from subord.core.tables import BoundedMap
from subord.core.view import Refusal

REFUSALS_MAX = 64


class _Line(msgspec.Struct):
    reason: str
    at: float
    times: int


class Refusals:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._lines: BoundedMap[tuple[str, Literal["them", "us"]], _Line] = BoundedMap(REFUSALS_MAX)

    def __len__(self) -> int:
        return len(self._lines)

    def note(self, address: str, by: Literal["them", "us"], reason: str) -> None:
        """Count a refusal; `Refused` is noted when the address or the reason is new."""
        now = self._context.now
        old = self._lines.get((address, by))
        new = old is None or old.reason != reason
        times = 1 if old is None or new else old.times + 1
        self._lines[address, by] = _Line(reason, now, times)
        if new:
            self._context.note(Refused(address, by, reason))

    def shown(self, now: float) -> tuple[Refusal, ...]:
        """Latest first; `now` is the node's clock."""
        return tuple(
            Refusal(address=address, by=by, reason=line.reason, ago_s=now - line.at, times=line.times)
            for (address, by), line in reversed(self._lines.items())
        )
