"""Which positions of a network are taken, for every layout that has a name.

Intuition: where people sit down in a theatre. From the first seat on, in five parties, in the last rows, on every
third seat, or wherever each of them likes.

Pure: numbers go in, ascending positions come out; the same seed draws the same seats.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from netlab.errors import LabError

BLOCKS = 5

Draw = Callable[[int, int, random.Random], list[int]]


def positions(layout: str, nodes: int, size: int, seed: int) -> list[int]:
    """So many positions, ascending, of a network with `size` positions. Raises LabError when there are too few."""
    needed = 3 * nodes if layout == "thirds" else nodes
    if needed > size:
        raise LabError(
            f"--layout {layout} with --nodes {nodes} needs {needed} positions, the network has {size}."
            " Nothing was started. Give fewer nodes or a larger --network."
        )
    return sorted(DRAWN[layout](nodes, size, random.Random(seed)))


def _random(nodes: int, size: int, chance: random.Random) -> list[int]:
    found: set[int] = set()
    while len(found) < nodes:  # a /64 is too long for random.sample
        found.add(chance.randint(1, size))
    return list(found)


def _blocks(nodes: int, size: int, chance: random.Random) -> list[int]:
    """Five blocks that do not overlap; the free positions are dealt out before, between and behind them."""
    lengths = [nodes // BLOCKS + (number < nodes % BLOCKS) for number in range(BLOCKS)]
    free_before = sorted(chance.randint(0, size - nodes) for _ in lengths)
    found: list[int] = []
    for free, length in zip(free_before, lengths, strict=True):
        first = free + len(found) + 1
        found += range(first, first + length)
    return found


DRAWN: dict[str, Draw] = {
    "dense": lambda nodes, _size, _chance: list(range(1, nodes + 1)),
    "six": lambda nodes, _size, _chance: list(range(1, nodes + 1)),
    "random": _random,
    "blocks": _blocks,
    "end": lambda nodes, size, _chance: list(range(size - nodes + 1, size + 1)),
    "thirds": lambda nodes, _size, _chance: list(range(3, 3 * nodes + 1, 3)),
}
