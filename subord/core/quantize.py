"""Measured quantities as small integer classes with hysteresis (docs/protocol.md, section 7).

Two classes are a factor of two. A class is left when the quantity is STAY classes, a factor of 1.71, away from its
middle; a quantity that varies by 30 % around a fixed value of the class stays in it.
"""

from __future__ import annotations

from math import log2
from typing import Final

UNKNOWN: Final = 0
CLASS_MAX: Final = 255
MIDDLE: Final = 128  # the class of 1.0
PER_DOUBLING: Final = 2
STAY: Final = 1.55  # half a class, plus the distance of 0.7 from 1.0: 2 * log2(1 / 0.7) = 1.03


def class_of(quantity: float) -> int:
    """1 to CLASS_MAX for a quantity above 0 (infinity is the highest); UNKNOWN for anything else."""
    if not quantity > 0:
        return UNKNOWN
    return round(min(max(_exact(quantity), 1), CLASS_MAX))


def quantity_of(number: int) -> float | None:
    """The middle of a class; None for UNKNOWN."""
    return None if number == UNKNOWN else float(2 ** ((number - MIDDLE) / PER_DOUBLING))


def steady_class(quantity: float, present: int) -> int:
    """The class of a quantity whose last class was `present`."""
    fresh = class_of(quantity)
    if UNKNOWN in (fresh, present) or abs(min(max(_exact(quantity), 1), CLASS_MAX) - present) > STAY:
        return fresh
    return present


def _exact(quantity: float) -> float:
    return log2(min(quantity, 2.0**200)) * PER_DOUBLING + MIDDLE
