"""The number of an incarnation: milliseconds since 1970 at its start, within bounds.

Input are the clock and the lowest allowed numbers; output is a number higher than those before. A number far ahead,
from disk, a wrong clock or a neighbour, must not be taken: the range ends, and no higher number would be left. So a
number is at most LEAP_MS_MAX ahead of the clock, and an impossible clock counts as one that was never set.
"""

from __future__ import annotations

from typing import Final

LIFE_MAX: Final = 1 << 42  # until 2109
LEAP_MS_MAX: Final = 10 * 366 * 86_400_000
CLOCK_MS_MIN: Final = 1_735_689_600_000  # 2025-01-01, before this release
CLOCK_MS_MAX: Final = LIFE_MAX - 1 - LEAP_MS_MAX  # 2099


def highest(clock_ms: int) -> int:
    """The highest number of an incarnation that starts at `clock_ms`."""
    return _plausible(clock_ms) + LEAP_MS_MAX


def next_life(clock_ms: int, *lowest: int) -> int:
    """The number of an incarnation that starts now: at least each of `lowest`, but no leap."""
    begun = clock_ms if clock_ms < CLOCK_MS_MAX else CLOCK_MS_MIN
    return min(max((begun, *lowest)), highest(clock_ms))


def _plausible(clock_ms: int) -> int:
    return clock_ms if CLOCK_MS_MIN <= clock_ms < CLOCK_MS_MAX else CLOCK_MS_MIN
