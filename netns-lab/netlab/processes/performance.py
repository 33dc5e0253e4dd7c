"""How fast the nodes of a lab are, where they are told instead of measuring it.

The logarithm is drawn evenly, so that there are as many nodes in each factor of two; the fastest and the slowest are
always there. The same seed draws the same performances.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

SPREAD = 16.0  # the highest performance, in multiples of the lowest
SPREAD_MAX = 1e6
LOWEST_JOBS_PER_HOUR = 100.0
JOBS_PER_HOUR_MAX = 1e9  # that a daemon takes


def drawn(mapping: str, addresses: Sequence[str], spread: float, seed: int) -> dict[str, float]:
    """Jobs an hour of each address; {} for other mappings than `performance`, or with a spread of 0."""
    if mapping != "performance" or not spread:
        return {}
    chance = random.Random(f"performances/{seed}")
    exponents = [0.0, 1.0, *(chance.random() for _ in range(len(addresses) - 2))][: len(addresses)]
    chance.shuffle(exponents)
    return {
        address: LOWEST_JOBS_PER_HOUR * spread**exponent
        for address, exponent in zip(addresses, exponents, strict=True)
    }
