"""The samples of a node as fields of a report, and the fold of a report as figures of the cluster.

Inputs are samples with the position of their node, or a fold; outputs are fields of the kind Spread, or for each name
count, sum, least, greatest, quantiles and the nodes with the largest values. Invariant: a field that is no spread is
no figure: a member of another release may send anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from subord.api.models.metrics import BusyDocument, MetricDocument
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.spread import Spread
from subord.core.view import Position
from subord.services.metrics.kernel import Samples

SHARES: Final = {"0.05": 0.05, "0.5": 0.5, "0.95": 0.95, "0.99": 0.99}


def record_of(samples: Samples, position: Position) -> Record:
    """What a node publishes."""
    return {name: Spread.of(value, position) for name, value in samples.items()}


def figures(record: Record, address: Callable[[Position], str | None]) -> list[MetricDocument]:
    """By name. `address`: of a position; None: the network has no such node."""
    found = sorted((name, each) for name, each in record.items() if isinstance(each, Spread) and each.count)
    return [_figure(name, each, address) for name, each in found]


def _figure(name: str, spread: Spread, address: Callable[[Position], str | None]) -> MetricDocument:
    quantiles = {text: value for text, share in SHARES.items() if (value := spread.at(share)) is not None}
    busiest = ((address(position), value) for value, position in spread.top)
    return MetricDocument(
        name=name,
        count=spread.count,
        sum=spread.sum,
        min=spread.least,
        max=spread.greatest,
        quantiles=quantiles,
        top=tuple(BusyDocument(address=each, value=value) for each, value in busiest if each is not None),
    )
