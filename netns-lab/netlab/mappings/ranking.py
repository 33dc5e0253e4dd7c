"""How well a tree is ordered by performance, and how well it could be.

Intuition: a parade by height. One number says how far the order of the rows follows the heights; and because
a row holds people of many heights, even a perfect parade does not reach 1: the best that rows can do stands beside.

Pure. Levels count edges from the top, so the number of a good order is near -1. Source of the number: C. Spearman,
"The proof and measurement of association between two things", 1904; ties have the average of their ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from netlab.topology.sites import Leaders

CLASSES_APART = 2  # a factor of two: nobody stands above somebody who is so much faster


def ranks(values: Sequence[float]) -> list[float]:
    """From 1, lowest first; equal values share the average of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for each in order[begin:end]:
            found[each] = (begin + 1 + end) / 2
        begin = end
    return found


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Of pairs; None where all values of a side are the same."""
    a, b = ranks(one), ranks(other)
    middle = (len(a) + 1) / 2
    together = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    alone = sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)
    return together / sqrt(alone) if alone else None


def levels(leaders: Leaders) -> dict[str, int]:
    """Edges on the way up of each node. A leader that is gone, or a way in a circle, ends the way."""
    found = {}
    for node in leaders:
        edges, leader = 0, leaders[node]
        while leader in leaders and edges < len(leaders):
            assert leader is not None
            edges, leader = edges + 1, leaders[leader]
        found[node] = edges
    return found


def rows_in_order(count: int, fanout: int) -> list[int]:
    """The levels of a complete tree, from the top: where the best, the second best, ... would stand."""
    found: list[int] = []
    level, room = 0, 1
    while len(found) < count:
        found += [level] * min(room, count - len(found))
        level, room = level + 1, room * fanout
    return found


def order(quantities: Mapping[str, float], standing: Mapping[str, int]) -> float | None:
    """Spearman of what the nodes have, and of the level on which they stand."""
    nodes = sorted(quantities)
    return spearman([quantities[node] for node in nodes], [standing[node] for node in nodes])


def best_order(quantities: Mapping[str, float], fanout: int) -> float | None:
    """The same for the complete tree in which they stand in order."""
    return spearman(sorted(quantities.values(), reverse=True), rows_in_order(len(quantities), fanout))


def below_slower(leaders: Leaders, classes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """(who stands above, who stands below and is CLASSES_APART classes faster), however far below."""
    for node in leaders:
        above, steps = leaders[node], 0
        while above in leaders and steps < len(leaders):
            assert above is not None
            if classes[node] - classes[above] >= CLASSES_APART:
                yield above, node
            above, steps = leaders[above], steps + 1


def on_levels(standing: Mapping[str, int]) -> list[int]:
    """How many nodes are on each level, from the top."""
    counts = Counter(standing.values())
    return [counts[level] for level in range(max(counts, default=-1) + 1)]
