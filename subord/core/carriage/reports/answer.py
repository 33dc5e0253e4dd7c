"""A fold as the result of an order: what a node answers when it is asked for its branch.

Invariant: the bytes fit a result of an order (RESULT_BYTES_MAX); an age is a duration.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec

from subord.core.carriage.engine.frames import Unreadable
from subord.core.carriage.reports import bounds
from subord.core.carriage.reports.coverage import Coverage
from subord.core.carriage.reports.records import fitted, read
from subord.core.carriage.reports.reports import Fold
from subord.core.decoding import UNREADABLE

_Count = Annotated[int, msgspec.Meta(ge=0, le=bounds.COUNT_MAX)]


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    coverage: Coverage
    oldest_ms: _Count
    left_out: _Count
    fields: Annotated[dict[str, msgspec.Raw], msgspec.Meta(max_length=bounds.FIELDS_MAX)]
    is_root: bool = False
    is_young: bool = False


_decoder = msgspec.msgpack.Decoder(_Answer)


def encode_fold(fold: Fold) -> bytes:
    """A fold in MessagePack."""
    fields, left_out = fitted(fold.record, fold.first)
    left_out = max(left_out, fold.left_out)
    answer = _Answer(fold.coverage, bounds.to_ms(fold.oldest_s), left_out, fields, fold.is_root, fold.is_young)
    return msgspec.msgpack.encode(answer)


def decode_fold(data: bytes) -> Fold:
    """A fold of another node, without the fields that this release does not know. Raises Unreadable."""
    try:
        found = _decoder.decode(data)
    except UNREADABLE as reason:
        raise Unreadable(str(reason)) from None
    dropped = Counter[str]()
    record = read(found.fields, dropped)
    return Fold(
        record,
        found.coverage,
        found.oldest_ms / 1000,
        found.left_out + dropped.total(),
        found.is_root,
        is_young=found.is_young,
    )
