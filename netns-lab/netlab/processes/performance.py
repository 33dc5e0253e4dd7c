"""How fast the nodes of a lab are, when nobody counts jobs there.

Intuition: a school class on the first day, where the strengths are dealt by lot. From one half to the next there are
as many who are twice as strong, so the logarithm is drawn evenly; the strongest and the weakest are always there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

SPREAD = 16.0  # the highest performance, in multiples of the lowest
SPREAD_MAX = 1e6
LOWEST_JOBS_PER_HOUR = 100.0
JOBS_PER_HOUR_MAX = 1e9  # that a daemon takes


def drawn(count: int, spread: float, seed: int) -> list[float]:
    """So many performances in jobs an hour, in random order; the highest is `spread` times the lowest."""
    chance = random.Random(f"performances/{seed}")
    exponents = [0.0, 1.0, *(chance.random() for _ in range(count - 2))][:count]
    chance.shuffle(exponents)
    return [LOWEST_JOBS_PER_HOUR * spread**exponent for exponent in exponents]


def dealt(mapping: str, addresses: Sequence[str], spread: float, seed: int) -> dict[str, float]:
    """Of each address. Nobody has one where ranks do not go by it, or with a spread of 0."""
    if mapping != "performance" or not spread:
        return {}
    return dict(zip(addresses, drawn(len(addresses), spread, seed), strict=True))
