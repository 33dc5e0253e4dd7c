"""Sets of positions as ranges: what an order is for, and what an answer covers.

Inputs are positions and (first, last) pairs; outputs are immutable sets. Invariant: the ranges of a set ascend,
do not overlap, and do not touch, so equal sets are equal values. On the wire a set is a flat list of small numbers:
the gap before each range, then its length minus one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from subord.core.view import Position

Pair = tuple[Position, Position]
POSITION_MAX: Final = (1 << 63) - 1


class Ranges:
    """A set of positions. Immutable."""

    __slots__ = ("_firsts", "pairs")

    def __init__(self, pairs: tuple[Pair, ...] = ()) -> None:
        """`pairs` keep the invariant already; others go through `of_pairs`."""
        self.pairs = pairs
        self._firsts: list[Position] | None = None

    @classmethod
    def of(cls, positions: Iterable[Position]) -> Ranges:
        """The set of these positions, in any order."""
        return cls.of_pairs((each, each) for each in positions)

    @classmethod
    def of_pairs(cls, pairs: Iterable[Pair]) -> Ranges:
        """The union of these ranges, in any order."""
        merged: list[Pair] = []
        for first, last in sorted(pairs):
            if merged and first <= merged[-1][1] + 1:
                if last > merged[-1][1]:
                    merged[-1] = (merged[-1][0], last)
            elif first <= last:
                merged.append((first, last))
        return cls(tuple(merged))

    # -- reading ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of positions."""
        return sum(last - first + 1 for first, last in self.pairs)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def __iter__(self) -> Iterator[Position]:
        for first, last in self.pairs:
            yield from range(first, last + 1)

    def __contains__(self, position: Position) -> bool:
        if self._firsts is None:
            self._firsts = [first for first, _ in self.pairs]
        at = bisect_right(self._firsts, position) - 1
        return at >= 0 and position <= self.pairs[at][1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Ranges({self})"

    def __str__(self) -> str:
        """`1-3,7`."""
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.pairs)

    # -- algebra ------------------------------------------------------------------------------------------

    def __or__(self, other: Ranges) -> Ranges:
        if not other.pairs:
            return self
        return Ranges.of_pairs((*self.pairs, *other.pairs)) if self.pairs else other

    def __and__(self, other: Ranges) -> Ranges:
        found: list[Pair] = []
        mine, theirs, i, j = self.pairs, other.pairs, 0, 0
        while i < len(mine) and j < len(theirs):
            first, last = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if first <= last:
                found.append((first, last))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return Ranges(tuple(found))

    def __sub__(self, other: Ranges) -> Ranges:
        if not other.pairs or not self.pairs:
            return self
        found: list[Pair] = []
        theirs, j = other.pairs, 0
        for start, last in self.pairs:
            first = start
            while j < len(theirs) and theirs[j][1] < first:
                j += 1
            k = j
            while k < len(theirs) and theirs[k][0] <= last:
                if first < theirs[k][0]:
                    found.append((first, theirs[k][0] - 1))
                first = max(first, theirs[k][1] + 1)
                k += 1
            if first <= last:
                found.append((first, last))
        return Ranges(tuple(found))

    # -- the wire -----------------------------------------------------------------------------------------

    def flat(self) -> tuple[int, ...]:
        """As small numbers."""
        numbers: list[int] = []
        end = 0
        for first, last in self.pairs:
            numbers += (first - end - 1, last - first)
            end = last
        return tuple(numbers)

    @classmethod
    def unflat(cls, numbers: tuple[int, ...]) -> Ranges:
        """The set of `flat`. Raises ValueError."""
        if len(numbers) % 2:
            raise ValueError("a range has no end")
        pairs: list[Pair] = []
        end = 0
        for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
            if gap < 0 or length < 0 or (pairs and not gap):
                raise ValueError("ranges do not ascend, or touch")
            first = end + gap + 1
            end = first + length
            pairs.append((first, end))
        if end > POSITION_MAX:
            raise ValueError("no such position")
        return cls(tuple(pairs))

    def chunks(self, bytes_max: int) -> Iterator[Ranges]:
        """Parts that take at most `bytes_max` on the wire each; none for the empty set."""
        taken: list[Pair] = []
        size, end = 0, 0
        for pair in self.pairs:
            added = _bytes_of(pair[0] - end - 1) + _bytes_of(pair[1] - pair[0])
            if taken and size + added > bytes_max:
                yield Ranges(tuple(taken))
                taken, size, added = [], 0, _bytes_of(pair[0] - 1) + _bytes_of(pair[1] - pair[0])
            taken.append(pair)
            size, end = size + added, pair[1]
        if taken:
            yield Ranges(tuple(taken))

    @property
    def wire_bytes(self) -> int:
        """On the wire, without the length in front."""
        end, size = 0, 0
        for first, last in self.pairs:
            size += _bytes_of(first - end - 1) + _bytes_of(last - first)
            end = last
        return size


NONE: Final = Ranges()


def _bytes_of(number: int) -> int:
    """A number in MessagePack."""
    if number < 1 << 7:
        return 1
    if number < 1 << 8:
        return 2
    if number < 1 << 16:
        return 3
    return 5 if number < 1 << 32 else 9
