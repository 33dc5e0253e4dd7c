"""What a node answers when it is asked for the class of its value of one metric.

Input is the payload of an order of `metrics` with a metric and at most THRESHOLDS_MAX thresholds; output is the
number of thresholds that the node's last value exceeds, so equal answers travel as one, and the answer of a cluster
is some ranges of nodes for each class. Invariants: a value that is not finite, or older than LAST_S_MAX, is no value;
a payload that is no such question is answered with nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from math import isfinite, nan
from typing import Annotated, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import trio

from subord.api.node_api import NodeApi
from subord.core.decoding import UNREADABLE
from subord.services.metrics.kernel import Samples

THRESHOLDS_MAX: Final = 15
NAME_CHARS_MAX: Final = 64
"""Of a field of a report."""
LAST_S_MAX: Final = 30.0
"""Three intervals, after which a report is stale, too."""
NOT_READ: Final = b""


class ClassQuestion(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The payload of the order. The tag is no other question's of `metrics`."""

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
_decoder: Final = msgspec.msgpack.Decoder(ClassQuestion)


def keep(node: NodeApi, samples: Samples) -> None:
    """What this node publishes now."""
    _last[node] = Last(samples, trio.current_time())


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The class of the last value of this node; NOT_READ: it is another question."""
    await trio.lowlevel.checkpoint()
    try:
        question = _decoder.decode(payload)
    except UNREADABLE:
        return NOT_READ
    last = _last.get(node)
    if last is None or trio.current_time() - last.at > LAST_S_MAX:
        return class_in({}, question)
    return class_in(last.samples, question)


def class_in(samples: Samples, question: ClassQuestion) -> bytes:
    """The number of thresholds that the value exceeds; None: there is no value."""
    value = samples.get(question.name, nan)
    return msgspec.msgpack.encode(bisect_left(question.thresholds, value) if isfinite(value) else None)
