"""The values of single nodes as classes, by which the page colours the nodes: one small order for a whole cluster.

Inputs are a metric and at most THRESHOLDS_MAX thresholds, which the asking node takes from the quantiles of the fold.
A node answers with the number of thresholds that its last value exceeds, so equal answers travel as one, and the
answer of a cluster is some ranges of nodes for each class. Invariants: each node that was asked is in one class, or
missing with a cause; a value that is not finite, or older than LAST_S_MAX, is no value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from math import isfinite, nan
from typing import Annotated, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import trio

from subord.api.models import nodes
from subord.api.models.coverage import MissingDocument
from subord.api.models.metrics import ClassDocument, ClassesDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import NAMED_MAX, Answered
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.carriage.reports.spread import Spread
from subord.core.decoding import UNREADABLE
from subord.services.metrics.kernel import Samples

THRESHOLDS_MAX: Final = 15
NAME_CHARS_MAX: Final = 64
"""Of a field of a report."""
SHARES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Quantiles that are thresholds: whatever the values are, most nodes are in the classes of the middle, and those with
extreme values in others."""
LAST_S_MAX: Final = 30.0
"""Three intervals, after which a report is stale, too."""
NO_VALUE: Final = "no value"
NOT_TOLD: Final = "no class"
SENTENCES: Final = {
    NO_VALUE: "the node has no value of this metric",
    NOT_TOLD: "the node runs a release of subord that does not tell values of its own, or one that this cannot read",
}


class ClassQuestion(msgspec.Struct, frozen=True, array_like=True, tag="classes"):
    """The payload of the order."""

    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
    thresholds: Annotated[tuple[float, ...], msgspec.Meta(max_length=THRESHOLDS_MAX)]

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not all(map(isfinite, self.thresholds)) or any(low >= high for low, high in pairwise(self.thresholds)):
            raise ValueError("the thresholds are no ascending numbers")


class Last(NamedTuple):
    """What a node has published last."""

    samples: Samples
    at: float


_last: Final[WeakKeyDictionary[NodeApi, Last]] = WeakKeyDictionary()
_Class = Annotated[int, msgspec.Meta(ge=0, le=THRESHOLDS_MAX)]
_decoder: Final = msgspec.msgpack.Decoder(_Class | None)

# -- the node that answers ------------------------------------------------------------------------------------


def keep(node: NodeApi, samples: Samples) -> None:
    """What this node publishes now."""
    _last[node] = Last(samples, trio.current_time())


def answer(node: NodeApi, question: ClassQuestion) -> bytes:
    """The class of the last value of this node."""
    last = _last.get(node)
    if last is None or trio.current_time() - last.at > LAST_S_MAX:
        return class_in({}, question)
    return class_in(last.samples, question)


def class_in(samples: Samples, question: ClassQuestion) -> bytes:
    """The number of thresholds that the value exceeds; None: there is no value."""
    value = samples.get(question.name, nan)
    return msgspec.msgpack.encode(bisect_left(question.thresholds, value) if isfinite(value) else None)


# -- the node that asks ---------------------------------------------------------------------------------------


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
