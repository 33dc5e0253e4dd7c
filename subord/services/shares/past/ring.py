"""A bounded ring of what a node has decided: for each class the share that it wanted, and what its branch got and
used, at the moments of the last half hour.

Inputs are moments by the clock of this process; outputs are series. Invariants: the ring has at most SLOTS moments,
none older than KEPT_S, and all are of the same classes; a moment at which no node counted has no figures.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from subord.api.models.shares import Figures
from subord.core.carriage.shares.interface import Row

KEPT_S: Final = 1800.0
EVERY_S: Final = 5.0
"""Between two moments at least."""
SLOTS: Final = round(KEPT_S / EVERY_S)
UNKNOWN: Final = 0xFFFF
_HUNDREDTHS_MAX: Final = UNKNOWN - 1
_WIDTH: Final = 3
"""Wanted, got and used."""


class Series(NamedTuple):
    """One class, in hundredths of a percent of a node, or UNKNOWN."""

    wanted: array[int]
    got: array[int]
    used: array[int]


class Ring:
    """The moments of one branch, all of the same classes."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self.classes = classes
        self._at = array("d")
        self._told = array("Q")
        self._asked = array("Q")
        self._values = array("H")  # _WIDTH numbers for each class, moment after moment

    def __len__(self) -> int:
        return len(self._at)

    @property
    def last_at(self) -> float | None:
        """The last moment; None: there is none."""
        return self._at[-1] if self._at else None

    def add(self, at: float, told: int, asked: int, wanted: Row, figures: Figures | None) -> None:
        """One more moment."""
        self._at.append(at)
        self._told.append(told)
        self._asked.append(asked)
        unknown = (UNKNOWN,) * len(self.classes)
        got = unknown if figures is None else [hundredths(each) for each in figures.got]
        used = unknown if figures is None else [hundredths(each) for each in figures.used]
        for three in zip(map(hundredths, wanted), got, used, strict=True):
            self._values.extend(three)
        self._forget(at)

    def _forget(self, now: float) -> None:
        """What is too much, or too old."""
        over = max(0, len(self._at) - SLOTS)
        while self._at[over] < now - KEPT_S:
            over += 1
        if over:
            del self._at[:over], self._told[:over], self._asked[:over]
            del self._values[: over * self._row]

    @property
    def _row(self) -> int:
        return _WIDTH * len(self.classes)

    def ages_s(self, now: float) -> Iterator[float]:
        """Of the moments, the oldest first."""
        return (max(0.0, now - at) for at in self._at)

    @property
    def told(self) -> Sequence[int]:
        """Nodes in the decisions, by moment."""
        return self._told

    @property
    def asked(self) -> Sequence[int]:
        """Nodes of the branch, by moment."""
        return self._asked

    def series(self, number: int) -> Series:
        """Of the class with this number."""
        return Series(*(self._values[_WIDTH * number + which :: self._row] for which in range(_WIDTH)))


def hundredths(percent: float) -> int:
    """A number of the ring."""
    return min(_HUNDREDTHS_MAX, max(0, round(100 * percent)))


def percent(number: int) -> float | None:
    """None: it is not known."""
    return None if number == UNKNOWN else number / 100
