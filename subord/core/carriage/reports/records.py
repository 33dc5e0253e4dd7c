"""Records of named values: their fold, and how they stand on the wire.

Inputs are records, or fields of a frame; outputs are records, and fields within the bounds. A field of a later
release is folded like any other when its kind is known, else it is left out and counted. Invariant: the fields of a
frame are at most FIELDS_MAX and RECORD_BYTES_MAX; the same fields stay, whatever their order. What a node publishes
itself stays before what others say, so strange fields of one node below do not take the place of its own.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from operator import is_
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from subord.core.carriage.reports import bounds
from subord.core.carriage.reports.kinds import KINDS, Value, folded
from subord.core.decoding import UNREADABLE

Record = Mapping[str, Value]
Fields = dict[str, msgspec.Raw]
NO_FIELDS: Final[Record] = MappingProxyType({})

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Value] = msgspec.msgpack.Decoder(Value)
ARRAY_BYTES = range(0x91, 0xA0)
HEAD_BYTES = 3  # of a name and a value


class Fitted(NamedTuple):
    """`left_out`: fields without room."""

    fields: Fields
    left_out: int


def fold(records: Iterable[Record], own: Record = NO_FIELDS) -> Record:
    """All records as one. `own`: the one of this node, whose kinds stay."""
    found = defaultdict[str, list[Value]](list)
    for record in records:
        for name, value in record.items():
            found[name].append(value)
    return {name: folded(values, type(own[name]) if name in own else None) for name, values in found.items()}


def strange(record: Record, folded_record: Record) -> int:
    """How many fields of a record are of another kind than in the fold, so that they are not in it."""
    return sum(type(value) is not type(folded_record[name]) for name, value in record.items())


def fitted(record: Record, first: Container[str] = ()) -> Fitted:
    """The fields that a frame carries: those named `first`, and then others, each in the order of their names."""
    fields: Fields = {}
    room = bounds.RECORD_BYTES_MAX
    for name in sorted(record, key=lambda each: (each not in first, each)):
        if len(name) > bounds.NAME_CHARS_MAX:
            continue  # with it the leader could read none
        data = _encode(record[name])
        room -= len(name.encode()) + len(data) + HEAD_BYTES
        if len(fields) == bounds.FIELDS_MAX or room < 0:
            break
        fields[name] = msgspec.Raw(data)
    return Fitted(fields, len(record) - len(fields))


def deflated(fields: Fields) -> bytes:
    """Fields as they travel: names of metrics have much in common."""
    return zlib.compress(_encode(fields))


class Folded:
    """The fold of these records, the own one first if there is one."""

    def __init__(self, own: Record | None, records: Sequence[Record]) -> None:
        self._own = own
        self._records = records
        self.first = NO_FIELDS if own is None else own
        self.record = fold(records, self.first)
        self.strange = [strange(each, self.record) for each in records]
        """Of each record."""

    def is_of(self, own: Record | None, records: Sequence[Record]) -> bool:
        """Whether it is the fold of the very same records, which nobody changes."""
        return own is self._own and len(records) == len(self._records) and all(map(is_, records, self._records))

    @cached_property
    def fitted(self) -> Fitted:
        """The fields that a frame carries."""
        return fitted(self.record, self.first)

    @cached_property
    def deflated(self) -> bytes:
        """These fields as they travel."""
        return deflated(self.fitted.fields)


def read(fields: Fields, dropped: Counter[str]) -> Record:
    """A record of a frame."""
    record: dict[str, Value] = {}
    for name, data in fields.items():
        head = bytes(memoryview(data)[:2])
        if len(head) == 2 and head[0] in ARRAY_BYTES and len(KINDS) < head[1] < 0x80:
            dropped["report field of a later release"] += 1
            continue
        try:
            record[name] = _decoder.decode(data)
        except UNREADABLE:
            dropped["report field malformed"] += 1
    return record


def size_of(fields: Fields) -> int:
    """Bytes of the fields on the wire."""
    return sum(len(name) + len(bytes(data)) + HEAD_BYTES for name, data in fields.items())
