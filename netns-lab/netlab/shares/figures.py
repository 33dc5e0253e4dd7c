"""What classes have got, from what all nodes have served or used. Pure.

Inputs are samples: a time, and for each node an amount of each class since the start. Outputs are shares in percent
of what all classes have got together; their means, and deviations over windows. A round is away from the wanted
shares when the mean of the last AVERAGED rounds is: a single one may be by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean, pstdev
from typing import Any, Final, NamedTuple

Row = Sequence[float]
WITHIN: Final = 3.0
"""Shares are back when each is as close to the wanted one: three times the spread of the first class on 100 nodes, as
in the simulator (experiments.py)."""
AVERAGED: Final = 3


class Sample(NamedTuple):
    """`of`: by position."""

    at: float
    of: Mapping[int, Row]


def shares(before: Sample, after: Sample, positions: Collection[int] | None = None) -> list[float]:
    """In percent of what all classes of these nodes have got in between; zeros: nothing."""
    chosen = before.of.keys() if positions is None else positions
    grown = [[b - a for a, b in zip(before.of[each], after.of[each], strict=True)] for each in chosen]
    sums = [sum(column) for column in zip(*grown, strict=True)]
    total = sum(sums)
    return [100 * each / total if total else 0.0 for each in sums]


def rounds(samples: Sequence[Sample], positions: Collection[int] | None = None) -> list[list[float]]:
    """The shares between neighbours."""
    return [shares(before, after, positions) for before, after in pairwise(samples)]


def of_classes(samples: Sequence[Sample], classes: Sequence[str]) -> dict[str, Any]:
    """By class the mean over the whole time, and the deviation between neighbouring samples."""
    whole = shares(samples[0], samples[-1])
    columns = zip(*rounds(samples), strict=True)
    return {
        name: {"mean": round(mean, 2), "std": round(pstdev(column), 2)}
        for name, mean, column in zip(classes, whole, columns, strict=True)
    }


def within_of(nodes: int) -> float:
    """How close so many nodes are to the wanted shares when they are back: what is by chance falls with the root."""
    return WITHIN * max(1.0, sqrt(100 / nodes))


def away(row: Row, wanted: Row) -> float:
    """By how many points the worst class is off."""
    return max(abs(each - share) for each, share in zip(row, wanted, strict=True))


def back_in(rows: Sequence[Row], wanted: Row, within: float) -> int | None:
    """The first round with the wanted shares, counted from 1; None: there is none."""
    return next((number for number, row in enumerate(rows, 1) if away(row, wanted) <= within), None)


class Course(NamedTuple):
    """`worst`: points. `last_away`: the end of the last round that was away; None: none was. `ends_away`: the last
    one is."""

    worst: float
    last_away: float | None
    ends_away: bool


def course(samples: Sequence[Sample], wanted: Row, positions: Collection[int]) -> Course:
    """How the shares of these nodes went."""
    rows = rounds(samples, positions)
    found = []
    for number in range(AVERAGED, len(rows) + 1):
        mean = [fmean(column) for column in zip(*rows[number - AVERAGED : number], strict=True)]
        found.append((samples[number].at, away(mean, wanted)))
    within = within_of(len(positions))
    bad = [at for at, points in found if points > within]
    worst = max((points for _, points in found), default=0.0)
    return Course(round(worst, 2), bad[-1] if bad else None, bool(bad) and bad[-1] == found[-1][0])


def seconds_after(at: float | None, since: float) -> float:
    """So long after a moment something was over; 0: before it, or it never was."""
    return 0.0 if at is None else round(max(0.0, at - since), 2)
