"""How the values of one field are spread over nodes: count, sum, least, greatest, quantiles, and the largest ones.

Inputs are values with their nodes; output is one value of the algebra. The TOP_MAX largest values stand with their
nodes, all others as a number, a sum, the least one, and a sketch (sketch.py). So one node takes a dozen bytes, a
small branch is exact, and a large one has a bound. Invariant: merging is commutative and associative: the largest of
a union are among the largest of its parts, and what has no place among them is counted once, as all others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, isfinite
from typing import Annotated

import msgspec

from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.core.carriage.reports.algebra import TOP_MAX, Quantiles, Sum
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.core.carriage.reports.sketch import ordered
from subord.core.view import Position

_Number = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Position = Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
Entry = tuple[float, _Position]


class Others(msgspec.Struct, frozen=True, array_like=True):
    """The values without a place among the largest."""

    count: _Number = 0
    total: Sum = Sum()
    least: float = inf
    sketch: Quantiles = Quantiles()

    def __post_init__(self) -> None:
        if self.count and not isfinite(self.least):
            raise ValueError("the least one is not a number")


NO_OTHERS = Others()


class Spread(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """`top`: the largest values with their nodes, the largest first, of equal ones that of the lower position. A node
    that has moved may stand twice for a moment; the coverage says so."""

    top: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=TOP_MAX)] = ()
    others: Others | None = None

    def __post_init__(self) -> None:
        if list(self.top) != sorted(self.top, key=_rank) or not all(isfinite(value) for value, _ in self.top):
            raise ValueError("not in order, or not a number")
        if self.others is not None and (len(self.top) < TOP_MAX or not self.others.count):
            raise ValueError("there are others, though the largest have room, or there are none")

    @staticmethod
    def of(value: float, position: Position) -> Spread:
        """Of one node. Raises ValueError when it is no number."""
        return Spread(((float(value), position),))

    @staticmethod
    def merge(values: Iterable[Spread]) -> Spread:
        found = list(values)
        entries = sorted((entry for each in found for entry in each.top), key=_rank)
        top, rest = entries[:TOP_MAX], [value for value, _ in entries[TOP_MAX:]]
        others = [each.others for each in found if each.others is not None]
        if not (rest or others):
            return Spread(tuple(top))
        return Spread(tuple(top), _joined(others, rest))

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def _rest(self) -> Others:
        return self.others or NO_OTHERS

    @property
    def count(self) -> int:
        return min(len(self.top) + self._rest.count, COUNT_MAX)

    @property
    def sum(self) -> float:
        """Exact to a millionth for each node."""
        return Sum.merge([self._rest.total, *(Sum.of(value) for value, _ in self.top)]).value

    @property
    def least(self) -> float:
        """Infinity: of none."""
        return min((value for value, _ in self.top), default=inf) if self.others is None else self.others.least

    @property
    def greatest(self) -> float:
        """Minus infinity: of none."""
        return self.top[0][0] if self.top else -inf

    def at(self, share: float) -> float | None:
        """The value that this share of all values does not exceed; None: there are none."""
        rank = share * (self.count - 1)
        for value, times in self._ascending():
            rank -= times
            if rank < 0:
                return min(max(value, self.least), self.greatest)
        return None

    def _ascending(self) -> Iterator[tuple[float, int]]:
        sketch = self._rest.sketch
        yield from ordered(sketch.zeros, sketch.above, sketch.below)
        for value, _ in reversed(self.top):
            yield value, 1


def _joined(others: list[Others], rest: list[float]) -> Others:
    return Others(
        min(sum(each.count for each in others) + len(rest), COUNT_MAX),
        Sum.merge([*(each.total for each in others), *map(Sum.of, rest)]),
        min([*(each.least for each in others), *rest]),
        Quantiles.merge([*(each.sketch for each in others), Quantiles.of(*rest)]),
    )


def _rank(entry: Entry) -> Entry:
    return -entry[0], entry[1]
