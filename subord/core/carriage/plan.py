"""What the document `metrics/plan` says: which metrics the nodes of the cluster carry.

Input is the order of the document; output is patterns of names, in which `*` stands for any text. Invariant: what
`read` accepts has between one and PATTERNS_MAX patterns, each of printable characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from subord.core.carriage.documents import NEVER_MS, PLAN
from subord.core.carriage.orders import Order
from subord.core.decoding import UNREADABLE

PATTERNS_MAX: Final = 64
PATTERN_CHARS_MAX: Final = 60

_Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=PATTERN_CHARS_MAX)]
_decoder = msgspec.msgpack.Decoder(
    Annotated[tuple[_Pattern, ...], msgspec.Meta(min_length=1, max_length=PATTERNS_MAX)]
)


def order_of(version: int, at_ms: int, patterns: Sequence[str]) -> Order:
    """What an operator signs."""
    return Order(PLAN, version, at_ms, NEVER_MS, msgspec.msgpack.encode(tuple(patterns)))


def read(order: Order) -> tuple[str, ...] | None:
    """The patterns, those of the metrics that matter most first. None: it is another order, or cannot be read."""
    if order.name != PLAN:
        return None
    try:
        found = _decoder.decode(order.body)
    except UNREADABLE:
        return None
    return found if all(each.isprintable() for each in found) else None
