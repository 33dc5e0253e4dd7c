"""How much, roughly? Measured quantities as small whole numbers that do not tremble (protocol section 7).

Intuition: shoe sizes. Nobody's foot is exactly a 42, but whoever wears 42 does not change to 43 in the afternoon,
when feet are a little larger; only when the shoe really hurts are the feet measured anew.

Two classes are a factor of two. A class is left when the quantity has gone STAY classes, a factor of 1.71, away from
the middle of it: that is more than a quantity can go which trembles by 30 % around any fixed value of that class.
"""

from __future__ import annotations

from math import log2
from typing import Final

UNKNOWN: Final = 0
CLASS_MAX: Final = 255
MIDDLE: Final = 128  # the class of 1.0
PER_DOUBLING: Final = 2
STAY: Final = 1.55  # half a class, and what 0.7 is away from 1.0: 2 * log2(1 / 0.7) = 1.03


def class_of(quantity: float) -> int:
    """1 to CLASS_MAX for a quantity above 0 (infinity is the highest); UNKNOWN for anything else."""
    if not quantity > 0:
        return UNKNOWN
    return round(min(max(_exact(quantity), 1), CLASS_MAX))


def quantity_of(number: int) -> float | None:
    """The middle of a class; None for UNKNOWN."""
    return None if number == UNKNOWN else float(2 ** ((number - MIDDLE) / PER_DOUBLING))


def steady_class(quantity: float, present: int) -> int:
    """The class of a quantity that was in class `present` until now."""
    fresh = class_of(quantity)
    if UNKNOWN in (fresh, present) or abs(min(max(_exact(quantity), 1), CLASS_MAX) - present) > STAY:
        return fresh
    return present


def _exact(quantity: float) -> float:
    return log2(min(quantity, 2.0**200)) * PER_DOUBLING + MIDDLE
