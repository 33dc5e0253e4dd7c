"""Whole tickets for a node, from the shares of its row.

Input is a row of percents; output are integers, one for each class, whose sum is the number of tickets of a node.
Invariants: the sum is exact, each class has at least one ticket, and equal rows give equal tickets on all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TICKETS: Final = 100
"""Of a node ("there are exactly 100 tickets on each node")."""
TICKETS_OF_MANY: Final = 1000
CLASSES_OF_TICKETS: Final = 50
"""With more classes a node has more tickets: else one ticket for each class leaves too few to divide."""
TICKETS_MIN: Final = 1
"""Of a class."""


def tickets_for(classes: int) -> int:
    """The number of tickets of a node."""
    return TICKETS if classes <= CLASSES_OF_TICKETS else TICKETS_OF_MANY


def whole(row: Sequence[float]) -> list[int]:
    """The largest remainders are rounded up, those of earlier classes first. Raises ValueError for no such row."""
    total, count = sum(row), tickets_for(len(row))
    if not (total > 0 and min(row) >= 0 and total < float("inf")):
        raise ValueError("a row needs shares of at least 0, and one above it")
    exact = [each * count / total for each in row]
    found = [max(TICKETS_MIN, int(each)) for each in exact]
    missing = count - sum(found)

    def excess(place: int) -> float:
        return found[place] - exact[place]

    if missing > 0:
        for place in sorted(range(len(row)), key=excess)[:missing]:
            found[place] += 1
    for _ in range(-missing):  # small shares have got one ticket each: from those that are rounded up most
        found[max((place for place in range(len(row)) if found[place] > TICKETS_MIN), key=excess)] -= 1
    return found
