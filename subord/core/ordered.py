"""Positions in ascending order, for sets that change one by one.

The positions lie in blocks of bounded length, so that adding, removing and finding one take nearly the same time for
ten positions and for a hundred thousand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from subord.core.view import Position

BLOCK_MAX = 512


class Ordered:
    """A set of positions."""

    def __init__(self) -> None:
        self._blocks: list[list[Position]] = []  # none is empty
        self._firsts: list[Position] = []  # of each block
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Position]:
        for block in self._blocks:
            yield from block

    def _block_of(self, position: Position) -> int:
        """The block that holds the position, or would."""
        return max(0, bisect_right(self._firsts, position) - 1)

    def add(self, position: Position) -> None:
        if not self._blocks:
            self._blocks, self._firsts, self._length = [[position]], [position], 1
            return
        n = self._block_of(position)
        block = self._blocks[n]
        at = bisect_left(block, position)
        if at < len(block) and block[at] == position:
            return
        block.insert(at, position)
        self._firsts[n] = block[0]
        self._length += 1
        if len(block) > BLOCK_MAX:
            self._blocks[n : n + 1] = block[: BLOCK_MAX // 2], block[BLOCK_MAX // 2 :]
            self._firsts.insert(n + 1, block[BLOCK_MAX // 2])

    def discard(self, position: Position) -> None:
        if not self._blocks:
            return
        n = self._block_of(position)
        block = self._blocks[n]
        at = bisect_left(block, position)
        if at == len(block) or block[at] != position:
            return
        del block[at]
        self._length -= 1
        if block:
            self._firsts[n] = block[0]
        else:
            del self._blocks[n], self._firsts[n]

    def below(self, position: Position) -> int:
        """How many are lower."""
        if not self._blocks:
            return 0
        n = self._block_of(position)
        return sum(map(len, self._blocks[:n])) + bisect_left(self._blocks[n], position)

    def __getitem__(self, index: int) -> Position:
        for block in self._blocks:
            if index < len(block):
                return block[index]
            index -= len(block)
        raise IndexError(index)

    def ascending(self, position: Position) -> Iterator[Position]:
        """The position, if it is there, and all that are higher."""
        if self._blocks:
            n = self._block_of(position)
            yield from self._blocks[n][bisect_left(self._blocks[n], position) :]
            for block in self._blocks[n + 1 :]:
                yield from block

    def descending(self, position: Position) -> Iterator[Position]:
        """All that are lower, the highest first."""
        if self._blocks:
            n = self._block_of(position)
            yield from reversed(self._blocks[n][: bisect_left(self._blocks[n], position)])
            for block in reversed(self._blocks[:n]):
                yield from reversed(block)
