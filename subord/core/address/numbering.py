"""Level, offset and computed leader of a position: pure arithmetic, the same on every node.

- `complete`: levels of 1, p, p^2, ... positions. One root, and at most p computed subordinates of each node.
- `paper`: the paper's l(n) = floor(log_p n), o(n) = n - p^l(n), so levels of p-1, p(p-1), ... positions. Position 1
  leads the rest of level 0. For p = 2 both numberings are the same.

A level is a run of neighbouring positions, so position = first position of the level + offset. Invariant: the
computed leader of a position is lower than that position. The arithmetic is exact for integers of any size: no float,
no logarithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal


@dataclass(frozen=True, slots=True)
class Numbering(ABC):
    """Converts positions (from 1) to (level, offset), both from 0, and back. Raises `ValueError` below position 1."""

    fanout: int
    """The paper's p: computed subordinates of a node; at least 2."""

    def __post_init__(self) -> None:
        if self.fanout < 2:
            raise ValueError(f"the fan-out is {self.fanout}, a tree needs 2 or more: set a larger fan-out")

    def level_and_offset(self, position: int) -> tuple[int, int]:
        """The level of a position and its offset within that level (paper, section "node mapping")."""
        _check(position)
        level = self._level(position)
        return level, position - self._first(level)

    def position_at(self, level: int, offset: int) -> int:
        """The inverse of `level_and_offset`. Raises `ValueError` for a place that does not exist."""
        if not 0 <= offset < self.level_size(level):
            raise ValueError(f"level {level} has no offset {offset}: it holds {self.level_size(level)} positions")
        return self._first(level) + offset

    @abstractmethod
    def level_size(self, level: int) -> int:
        """The number of positions on a full level. Raises `ValueError` below level 0."""

    @abstractmethod
    def computed_leader(self, position: int) -> int | None:
        """The position at (level - 1, floor(offset / p)); None for position 1."""

    @abstractmethod
    def computed_subordinates(self, position: int, size: int) -> range:
        """All positions up to `size` whose computed leader is `position`; at most `home_slots`."""

    def depth(self, position: int) -> int:
        """The number of leaders above a position in the computed tree; with `complete` its level."""
        depth, above = 0, self.computed_leader(position)
        while above is not None:
            depth, above = depth + 1, self.computed_leader(above)
        return depth

    @abstractmethod
    def home_slots(self, position: int) -> int:
        """The number of computed subordinates of a position in a network without end."""

    @abstractmethod
    def _level(self, position: int) -> int:
        """The level of a position."""

    @abstractmethod
    def _first(self, level: int) -> int:
        """The position at offset 0 of a level."""


@dataclass(frozen=True, slots=True)
class Complete(Numbering):
    """Levels hold 1, p, p^2, ... positions: the complete p-ary tree in the order of its levels."""

    def level_size(self, level: int) -> int:
        return _power(self.fanout, level)

    def computed_leader(self, position: int) -> int | None:
        _check(position)
        return None if position == 1 else (position - 2) // self.fanout + 1

    def computed_subordinates(self, position: int, size: int) -> range:
        _check(position)
        first = self.fanout * (position - 1) + 2
        return range(first, min(first + self.fanout, size + 1))

    def home_slots(self, position: int) -> int:
        _check(position)
        return self.fanout

    def _level(self, position: int) -> int:
        # Level l begins after (p^l - 1) / (p - 1) positions; "less than n" is then p^l <= n (p - 1).
        return _floor_log(position * (self.fanout - 1), self.fanout)

    def _first(self, level: int) -> int:
        return (_power(self.fanout, level) - 1) // (self.fanout - 1) + 1


@dataclass(frozen=True, slots=True)
class Paper(Numbering):
    """Levels hold p-1, p (p-1), p^2 (p-1), ... positions: l(n) = floor(log_p n), o(n) = n - p^l(n)."""

    def level_size(self, level: int) -> int:
        return _power(self.fanout, level) * (self.fanout - 1)

    def computed_leader(self, position: int) -> int | None:
        _check(position)
        # p^(l-1) + floor((n - p^l) / p) is n / p rounded down; for the rest of level 0 that is 0.
        return None if position == 1 else max(1, position // self.fanout)

    def computed_subordinates(self, position: int, size: int) -> range:
        _check(position)
        # Position 1 leads the rest of its own level as well, which lies just before its part of level 1.
        first = 2 if position == 1 else self.fanout * position
        return range(first, min(self.fanout * (position + 1), size + 1))

    def home_slots(self, position: int) -> int:
        _check(position)
        return 2 * self.fanout - 2 if position == 1 else self.fanout

    def _level(self, position: int) -> int:
        return _floor_log(position, self.fanout)

    def _first(self, level: int) -> int:
        return _power(self.fanout, level)


@lru_cache(maxsize=64)
def numbering(name: Literal["complete", "paper"], fanout: int) -> Numbering:
    """The numbering of that name. Raises `ValueError` for a fan-out below 2 or an unknown name."""
    if name == "complete":
        return Complete(fanout)
    if name == "paper":
        return Paper(fanout)
    raise ValueError(f"there is no numbering {name!r}: choose complete or paper")


def _check(position: int) -> None:
    if position < 1:
        raise ValueError(f"there is no position {position}: positions begin with 1")


def _power(fanout: int, level: int) -> int:
    if level < 0:
        raise ValueError(f"there is no level {level}: levels begin with 0")
    power: int = fanout**level
    return power


def _floor_log(value: int, base: int) -> int:
    """The largest k with base^k <= value, for value >= 1."""
    exponent, power = 0, base
    while power <= value:
        exponent += 1
        power *= base
    return exponent
