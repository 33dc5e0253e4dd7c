"""The nodes of the cluster by the class of their value of one metric.

Inputs are the spread of the metric, from which the thresholds come, and the answers of the nodes; output is the JSON
document. Invariant: each node that was asked is in one class, or missing with a cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Final

import msgspec

from subord.api.models import nodes
from subord.api.models.coverage import MissingDocument
from subord.api.models.metrics import ClassDocument, ClassesDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import NAMED_MAX, Answered
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.carriage.reports.spread import Spread
from subord.core.decoding import UNREADABLE
from subord.services.metrics.classes.answering import THRESHOLDS_MAX, ClassQuestion

SHARES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Quantiles that are thresholds: whatever the values are, most nodes are in the classes of the middle, and those with
extreme values in others."""
NO_VALUE: Final = "no value"
NOT_TOLD: Final = "no class"
SENTENCES: Final = {
    NO_VALUE: "the node has no value of this metric",
    NOT_TOLD: "the node runs a release of subord that does not tell values of its own, or one that this cannot read",
}
_Class = Annotated[int, msgspec.Meta(ge=0, le=THRESHOLDS_MAX)]
_decoder: Final = msgspec.msgpack.Decoder(_Class | None)


def thresholds_of(spread: Spread) -> tuple[float, ...]:
    """Quantiles with three digits, as they are shown; each has nodes below and above it."""
    shown = {_rounded(value) for share in SHARES if (value := spread.at(share)) is not None}
    return tuple(each for each in sorted(shown) if spread.least <= each < _rounded(spread.greatest))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def document(answered: Answered, question: ClassQuestion, spread: Spread) -> ClassesDocument:
    """Who is in which class. A node without class is missing, with its cause."""
    found: dict[int, Ranges] = {}
    without = {NO_VALUE: NONE, NOT_TOLD: answered.answer.others}
    for result, ranges in answered.answer.groups:
        told = _class_told(result, len(question.thresholds))
        if isinstance(told, str):
            without[told] |= ranges
        else:
            found[told] = found.get(told, NONE) | ranges
    missing = (*answered.coverage.missing, *_missing(answered.node, without))
    told_count = sum(map(len, found.values()))
    return ClassesDocument(
        asked=answered.coverage.asked,
        told=told_count,
        complete=answered.coverage.complete and told_count == answered.coverage.asked,
        missing=missing,
        oldest_ms=answered.coverage.oldest_ms,
        note=answered.coverage.note,
        name=question.name,
        thresholds=question.thresholds,
        least=spread.least,
        greatest=spread.greatest,
        classes=tuple(
            ClassDocument(number=number, nodes=len(ranges), positions=str(ranges))
            for number, ranges in sorted(found.items())
        ),
    )


def _class_told(result: bytes, count: int) -> int | str:
    """The class that a node has told, or why there is none."""
    try:
        told = _decoder.decode(result)
    except UNREADABLE:
        return NOT_TOLD
    if told is None:
        return NO_VALUE
    return told if told <= count else NOT_TOLD


def _missing(node: NodeApi, without: Mapping[str, Ranges]) -> Iterable[MissingDocument]:
    for cause, ranges in without.items():
        if ranges:
            named = nodes.addresses(node.settings, islice(ranges, NAMED_MAX))
            yield MissingDocument(cause=cause, text=SENTENCES[cause], count=len(ranges), addresses=named)
