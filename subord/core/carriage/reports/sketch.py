"""Buckets of a sketch of quantiles: each holds the values within RELATIVE_ERROR of its middle (DDSketch).

Inputs are amounts greater than zero, or buckets in a flat tuple (first bucket, its count, then for each further one
its distance and its count); outputs are such tuples. Invariant: the buckets span at most SPAN; those below are
counted in the lowest one that is kept. SPAN is measured from the highest bucket, so every order of merging keeps the
same ones. The error holds for amounts down to a 7 * 10^8th of the largest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, log
from typing import Final

from subord.core.carriage.reports.bounds import COUNT_MAX

RELATIVE_ERROR: Final = 0.01
SPAN: Final = 1_024
_RATIO: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_RATIO: Final = log(_RATIO)
AMOUNT_MIN, AMOUNT_MAX = 1e-300, 1e300
BUCKET_MAX: Final = ceil(log(AMOUNT_MAX) / _LOG_RATIO) + 1
Flat = tuple[int, ...]


def bucket_of(amount: float) -> int | None:
    """The bucket of an amount; None: it is zero."""
    if amount < AMOUNT_MIN:
        return None
    return ceil(log(min(amount, AMOUNT_MAX)) / _LOG_RATIO)


def middle_of(bucket: int) -> float:
    """What stands for the amounts of a bucket."""
    return float(2 * _RATIO**bucket / (_RATIO + 1))


def flat(buckets: Mapping[int, int]) -> Flat:
    """Buckets with their counts as numbers, within SPAN."""
    lowest = max(buckets, default=0) - SPAN + 1
    kept = defaultdict[int, int](int)
    for bucket, times in buckets.items():
        kept[max(bucket, lowest)] += times
    numbers: list[int] = []
    end = 0
    for bucket in sorted(kept):
        numbers += (bucket - end, min(kept[bucket], COUNT_MAX))
        end = bucket
    return tuple(numbers)


def unflat(numbers: Flat) -> dict[int, int]:
    """The buckets of `flat`. Raises ValueError."""
    if len(numbers) % 2:
        raise ValueError("a bucket has no count")
    buckets: dict[int, int] = {}
    end = 0
    for gap, times in zip(numbers[::2], numbers[1::2], strict=True):
        if (buckets and gap < 1) or not 0 < times <= COUNT_MAX:
            raise ValueError("buckets do not ascend, or are empty")
        end += gap
        buckets[end] = times
    if buckets and (max(-min(buckets), end) > BUCKET_MAX or end - min(buckets) >= SPAN):
        raise ValueError("buckets out of bounds")
    return buckets


def fold(many: Iterable[Flat]) -> Flat:
    """The buckets of many as one."""
    buckets = defaultdict[int, int](int)
    for numbers in many:
        end = 0
        for gap, times in zip(numbers[::2], numbers[1::2], strict=True):
            end += gap
            buckets[end] += times
    return flat(buckets)


def ordered(zeros: int, above: Flat, below: Flat) -> Iterator[tuple[float, int]]:
    """All values in ascending order, each with how often it stands."""
    for bucket, times in sorted(unflat(below).items(), reverse=True):
        yield -middle_of(bucket), times
    if zeros:
        yield 0.0, zeros
    for bucket, times in unflat(above).items():
        yield middle_of(bucket), times
