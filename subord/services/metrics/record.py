"""The samples of a node as fields of a report, and the fold of a report as figures of the cluster.

Inputs are samples with the position of their node, or a fold; outputs are fields of the kind Spread, or for each name
count, sum, least, greatest, quantiles and the nodes with the largest values. Invariants: a node publishes no field
that others cannot read or add up; a field that is no spread of finite numbers, or whose name is none of a metric, is
no figure: another member may send anything.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Final

from subord.api.models.metrics import BusyDocument, MetricDocument
from subord.core.carriage.reports.bounds import NAME_CHARS_MAX
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.spread import Spread
from subord.core.view import Position
from subord.services.metrics.kernel import Samples
from subord.services.metrics.rates import VALUE_MAX
from subord.services.metrics.texts import NAME

SHARES: Final = {"0.05": 0.05, "0.5": 0.5, "0.95": 0.95, "0.99": 0.99}


def record_of(samples: Samples, position: Position) -> Record:
    """What a node publishes."""
    return {
        name: Spread.of(value, position)
        for name, value in samples.items()
        if len(name) <= NAME_CHARS_MAX and name.isprintable() and abs(value) <= VALUE_MAX
    }


def figures(record: Record, address: Callable[[Position], str | None]) -> list[MetricDocument]:
    """By name. `address`: of a position; None: the network has no such node."""
    found = (
        _figure(name, each, address)
        for name, each in sorted(record.items())
        if isinstance(each, Spread) and each.count and name.isprintable() and NAME.fullmatch(name)
    )
    return [each for each in found if each is not None]


def _figure(name: str, spread: Spread, address: Callable[[Position], str | None]) -> MetricDocument | None:
    quantiles = {text: value for text, share in SHARES.items() if (value := spread.at(share)) is not None}
    busiest = ((address(position), value) for value, position in spread.top)
    try:
        total = spread.sum
    except OverflowError:  # a value near the end of the numbers
        return None
    if not all(map(isfinite, (spread.least, spread.greatest, *quantiles.values()))):
        return None
    return MetricDocument(
        name=name,
        count=spread.count,
        sum=total,
        min=spread.least,
        max=spread.greatest,
        quantiles=quantiles,
        top=tuple(BusyDocument(address=each, value=value) for each, value in busiest if each is not None),
    )
