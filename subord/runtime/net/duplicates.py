"""Detects two daemons with one address from datagrams of an older incarnation.

After a restart, datagrams of the former incarnation arrive for a few seconds at most, also if the clock was set back.
Two daemons with one address both continue. A replay of recorded datagrams for several seconds looks the same. Pure.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from subord.core.tables import BoundedMap

STALE_MIN: Final = 3
STALE_S_MIN: Final = 5.0
"""Datagrams of an older incarnation, and their time span, before they count as another daemon."""
APART_S_MAX: Final = 60.0
"""A longer gap between two of them starts the count again."""
ADDRESSES_MAX: Final = 64


class _Case(msgspec.Struct):
    first_at: float
    last_at: float
    times: int = 0
    text: str = ""


class Duplicates:
    """The observations of one node by address."""

    def __init__(self) -> None:
        self._cases: BoundedMap[str, _Case] = BoundedMap(ADDRESSES_MAX)

    def __len__(self) -> int:
        return len(self._cases)

    def heard(self, address: str, lives: tuple[int, int], now: float) -> tuple[str, bool]:
        """Count a datagram of an older incarnation; (the problem or "", whether it is new).

        `lives`: both incarnations, in milliseconds since 1970 by the clock of each daemon when it started.
        """
        case = self._cases.get(address)
        if case is None or now - case.last_at > APART_S_MAX:
            case = _Case(now, now)
        self._cases[address] = case
        case.last_at, case.times = now, case.times + 1
        is_new = not case.text and case.times >= STALE_MIN and now - case.first_at >= STALE_S_MIN
        if is_new:
            one, other = sorted(lives)
            case.text = f"duplicate address: two daemons use it, started {_utc_text(one)} and {_utc_text(other)}"
        return case.text, is_new


def _utc_text(incarnation: int) -> str:
    """The start time by the clock of that daemon; later than true if both daemons took higher numbers in turn."""
    return f"{datetime.fromtimestamp(incarnation / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
