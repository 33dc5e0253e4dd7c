"""A bounded ring of the figures of a branch: what each metric was at the last moments.

Inputs are moments by the clock of this process, with the figures of a fold; outputs are series. Invariants: the ring
has at most SLOTS moments and METRICS_MAX metrics; a moment without a metric has no value of it; a metric that no
moment has takes no memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import Final, NamedTuple

from subord.core.carriage.reports.algebra import WHOLE_MAX
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.spread import Spread
from subord.services.metrics.questions.words import FIGURES, SLOTS
from subord.services.metrics.texts import NAME

METRICS_MAX: Final = 128
FLOAT_MAX: Final = 3.4e38
"""Of four bytes."""
_WIDTH: Final = len(FIGURES)
_NONE: Final = (nan,) * _WIDTH
Figures = Mapping[str, tuple[float, ...]]


class Series(NamedTuple):
    """Moments, the oldest first. `known_s`: how long ago the ring begins."""

    known_s: float
    ages_s: tuple[float, ...]
    told: tuple[int, ...]
    asked: tuple[int, ...]
    values: dict[str, array[float]]


def figures_of(record: Record) -> Figures:
    """Each of FIGURES, by name; of what a node sends that is no figure, none."""
    return {
        name: _figures(each)
        for name, each in record.items()
        if isinstance(each, Spread) and each.count and name.isprintable() and NAME.fullmatch(name)
    }


def _figures(spread: Spread) -> tuple[float, ...]:
    mean = spread.sum / spread.count if abs(spread.sum) < WHOLE_MAX else None  # a greater sum is not known
    found = mean, spread.least, spread.at(0.5), spread.greatest
    return tuple(each if each is not None and _fits(each) else nan for each in found)


def _fits(value: float) -> bool:
    return isfinite(value) and abs(value) < FLOAT_MAX


class Ring:
    """The moments of one branch."""

    def __init__(self) -> None:
        self._taken = 0
        self._at = array("d", bytes(8 * SLOTS))
        self._told = array("Q", bytes(8 * SLOTS))
        self._asked = array("Q", bytes(8 * SLOTS))
        self._values: dict[str, array[float]] = {}
        self._last: dict[str, int] = {}  # the moment that had the metric last

    def __len__(self) -> int:
        return min(self._taken, SLOTS)

    @property
    def metrics(self) -> int:
        return len(self._values)

    @property
    def bytes(self) -> int:
        """Of all numbers."""
        head = sum(len(each) * each.itemsize for each in (self._at, self._told, self._asked))
        return head + sum(len(each) * each.itemsize for each in self._values.values())

    def add(self, at: float, told: int, asked: int, figures: Figures) -> None:
        """One more moment; beyond SLOTS it takes the place of the oldest."""
        slot = self._taken % SLOTS
        self._at[slot], self._told[slot], self._asked[slot] = at, told, asked
        for name in [name for name, last in self._last.items() if self._taken - last >= SLOTS]:
            del self._values[name], self._last[name]
        for name, values in self._values.items():
            self._write(values, slot, figures.get(name, _NONE))
        for name in sorted(figures.keys() - self._values.keys())[: METRICS_MAX - len(self._values)]:
            self._values[name] = array("f", _NONE) * SLOTS
            self._write(self._values[name], slot, figures[name])
        self._last.update(dict.fromkeys(figures.keys() & self._values.keys(), self._taken))
        self._taken += 1

    @staticmethod
    def _write(values: array[float], slot: int, found: tuple[float, ...]) -> None:
        values[slot * _WIDTH : (slot + 1) * _WIDTH] = array("f", found)

    def read(self, now: float, seconds: float, figure: str, wants: Callable[[str], bool]) -> Series:
        """One figure over the last seconds."""
        slots = [each % SLOTS for each in range(max(0, self._taken - SLOTS), self._taken)]
        known_s = now - self._at[slots[0]] if slots else 0.0
        slots = [slot for slot in slots if now - self._at[slot] <= seconds]
        column = FIGURES.index(figure)
        return Series(
            known_s,
            tuple(now - self._at[slot] for slot in slots),
            tuple(self._told[slot] for slot in slots),
            tuple(self._asked[slot] for slot in slots),
            {
                name: array("f", (values[slot * _WIDTH + column] for slot in slots))
                for name, values in sorted(self._values.items())
                if wants(name)
            },
        )
