"""Two daemons on one address: when datagrams of an older life go on, that life is not over.

A restart leaves a few datagrams of the former life on the way, and a node whose clock was set back is told a higher
number at once; both are over within seconds. Two machines with one address both go on. Recorded datagrams of a former
life that are repeated for seconds look the same. Pure: time comes in.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from subord.core.tables import BoundedMap

STALE_MIN: Final = 3
STALE_S_MIN: Final = 5.0
"""An older life is heard so often and for so long before it counts as another daemon."""
APART_S_MAX: Final = 60.0
"""After such a pause it begins anew."""
ADDRESSES_MAX: Final = 64


class _Case(msgspec.Struct):
    first_at: float
    last_at: float
    times: int = 0
    text: str = ""


class Duplicates:
    """One per node."""

    def __init__(self) -> None:
        self._cases: BoundedMap[str, _Case] = BoundedMap(ADDRESSES_MAX)

    def __len__(self) -> int:
        return len(self._cases)

    def heard(self, address: str, lives: tuple[int, int], now: float) -> tuple[str, bool]:
        """An older life spoke after a newer one: what is wrong ("": nothing yet), and whether that is new.

        `lives` are their numbers, in milliseconds since 1970 by the clock of each when it began.
        """
        case = self._cases.get(address)
        if case is None or now - case.last_at > APART_S_MAX:
            case = _Case(now, now)
        self._cases[address] = case
        case.last_at, case.times = now, case.times + 1
        is_new = not case.text and case.times >= STALE_MIN and now - case.first_at >= STALE_S_MIN
        if is_new:
            one, other = sorted(lives)
            case.text = f"duplicate address: two daemons use it, started {_text_of(one)} and {_text_of(other)}"
        return case.text, is_new


def _text_of(life: int) -> str:
    """By the clock of that daemon; a few seconds or minutes later when both took higher numbers in turn."""
    return f"{datetime.fromtimestamp(life / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
