"""How well a tree is ordered by performance, and how well it could be.

Levels count edges from the top, so the rank correlation of a good order is near -1. A level holds nodes of many
performances, so even a perfect order does not reach -1: the best that levels allow stands beside it.

Pure. Source: C. Spearman, "The proof and measurement of association between two things", 1904; ties have the average
of their ranks.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from netlab.eventlog.tree import Leaders, level

CLASSES_APART = 2  # a factor of two: no node may stand above one that is so much faster


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
    try:
        return statistics.correlation(ranks(one), ranks(other))
    except statistics.StatisticsError:
        return None


def levels(leaders: Leaders) -> dict[str, int]:
    return {node: level(leaders, node) for node in leaders}


def levels_in_order(count: int, fanout: int) -> list[int]:
    """The levels of a complete tree, from the top: those of the best node, the second best, ..."""
    found: list[int] = []
    depth, room = 0, 1
    while len(found) < count:
        found += [depth] * min(room, count - len(found))
        depth, room = depth + 1, room * fanout
    return found


def order(quantities: Mapping[str, float], standing: Mapping[str, int]) -> float | None:
    """Spearman of a quantity of the nodes, and of the level on which they stand."""
    nodes = sorted(quantities)
    return spearman([quantities[node] for node in nodes], [standing[node] for node in nodes])


def best_order(quantities: Mapping[str, float], fanout: int) -> float | None:
    """The same for the complete tree in which they stand in order."""
    return spearman(sorted(quantities.values(), reverse=True), levels_in_order(len(quantities), fanout))


def below_slower(leaders: Leaders, classes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """(node above, node somewhere below it that is CLASSES_APART classes faster)."""
    for node in leaders:
        above, steps = leaders[node], 0
        while above is not None and above in leaders and steps < len(leaders):
            if classes[node] - classes[above] >= CLASSES_APART:
                yield above, node
            above, steps = leaders[above], steps + 1


def on_levels(standing: Mapping[str, int]) -> list[int]:
    counts = Counter(standing.values())
    return [counts[each] for each in range(max(counts, default=-1) + 1)]
