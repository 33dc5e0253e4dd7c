"""A series of numbers as one line of characters, the oldest first."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
BARS_ASCII = ".:-=+*#@"
UNKNOWN = " "


def sparkline(values: Sequence[float | None], bars: str = BARS) -> str:
    """One character for each value: the lowest for the least, the highest for the greatest; one in the middle when
    all are equal, and a space where nothing is known."""
    known = [each for each in values if each is not None]
    if not known:
        return UNKNOWN * len(values)
    least, steps = min(known), len(bars) - 1
    span = max(known) - least
    return "".join(
        UNKNOWN if each is None else bars[round((each - least) / span * steps) if span > 0 else steps // 2]
        for each in values
    )


def in_columns(
    values: Sequence[float | None], ages_s: Sequence[float], period_s: float, count: int
) -> list[float | None]:
    """The mean of the values in each of `count` equal parts of the period; None: none is known of that part."""
    parts = [list[float]() for _ in range(count)]
    for value, age_s in zip(values, ages_s, strict=True):
        if value is not None and 0 <= age_s < period_s:
            parts[count - 1 - int(age_s / period_s * count)].append(value)
    return [sum(each) / len(each) if each else None for each in parts]
