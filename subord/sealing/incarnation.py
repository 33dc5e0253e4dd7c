"""The number of a life: milliseconds since 1970 when it began, and how far ahead of the clock it may be.

A life must have a higher number than the one before it. A number that is far ahead must not be taken over for good,
be it from the disk, from a clock that was once wrong, or from a neighbour: the range ends, and who stands at its end
has no higher number to take. So the number of a life is at most LEAP_MS_MAX ahead of the clock, and a clock outside
the time in which this release can run counts as one that was never set.
"""

from __future__ import annotations

from typing import Final

LIFE_MAX: Final = 1 << 42  # until 2109
LEAP_MS_MAX: Final = 10 * 366 * 86_400_000
CLOCK_MS_MIN: Final = 1_735_689_600_000  # 2025-01-01: this release is younger
CLOCK_MS_MAX: Final = LIFE_MAX - 1 - LEAP_MS_MAX  # 2099


def highest(clock_ms: int) -> int:
    """The highest number that a life may take, which by the clock begins now."""
    return _trusted(clock_ms) + LEAP_MS_MAX


def next_life(clock_ms: int, *lowest: int) -> int:
    """The number of a life that begins now: at least each of `lowest`, as far as that is no leap."""
    begun = clock_ms if clock_ms < CLOCK_MS_MAX else CLOCK_MS_MIN
    return min(max((begun, *lowest)), highest(clock_ms))


def _trusted(clock_ms: int) -> int:
    return clock_ms if CLOCK_MS_MIN <= clock_ms < CLOCK_MS_MAX else CLOCK_MS_MIN
