"""The body of a report on the wire, from a subordinate to its leader; its numbers are 16 to 31 (lanes.PART_BODIES).

The fields travel deflated: names of metrics have much in common. Invariants: no time of day, ages and intervals are
durations; what is inflated has a bound.
"""

from __future__ import annotations

import zlib
from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.bounds import SERVICE_CHARS_MAX
from subord.core.carriage.engine.frames import Unreadable, decode_with
from subord.core.carriage.reports import bounds
from subord.core.carriage.reports.coverage import Missing
from subord.core.carriage.reports.records import deflated
from subord.core.decoding import UNREADABLE

_Count = Annotated[int, msgspec.Meta(ge=0, le=bounds.COUNT_MAX)]


INFLATED_BYTES_MAX: Final = bounds.RECORD_BYTES_MAX + 1_024
_Fields = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=bounds.NAME_CHARS_MAX)], msgspec.Raw],
    msgspec.Meta(max_length=bounds.FIELDS_MAX),
]
_Service = Annotated[str, msgspec.Meta(min_length=1, max_length=SERVICE_CHARS_MAX)]
_Interval = Annotated[int, msgspec.Meta(ge=int(bounds.INTERVAL_S_MIN * 1000), le=int(bounds.INTERVAL_S_MAX * 1000))]
_Missing = Annotated[tuple[Missing, ...], msgspec.Meta(max_length=bounds.CAUSES_MAX)]


class Report(msgspec.Struct, frozen=True):
    """The fold of the sender's branch; it replaces the last one. `told` 0: there is none any more.

    `told`: nodes in the record. `left_out`: at least so many fields of nodes are not in it.
    """

    service: str
    interval_ms: int
    told: int
    missing: tuple[Missing, ...]
    age_ms: int
    left_out: int
    fields: dict[str, msgspec.Raw]


class Packed(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """A report on the wire."""

    service: _Service
    interval_ms: _Interval
    told: _Count
    missing: _Missing
    age_ms: _Count
    left_out: _Count
    deflated: Annotated[bytes, msgspec.Meta(max_length=INFLATED_BYTES_MAX)]


_decoder = msgspec.msgpack.Decoder(Packed)
_fields: msgspec.msgpack.Decoder[dict[str, msgspec.Raw]] = msgspec.msgpack.Decoder(_Fields)


def packed(report: Report, fields: bytes = b"") -> Packed:
    """As it is sent. `fields`: those of the report, if they are deflated already."""
    head = report.service, report.interval_ms, report.told, report.missing, report.age_ms, report.left_out
    return Packed(*head, fields or deflated(report.fields))


def decode_report(body: msgspec.Raw) -> Report:
    """Raises Unreadable."""
    found = decode_with(_decoder, body)
    head = found.service, found.interval_ms, found.told, found.missing, found.age_ms, found.left_out
    try:
        return Report(*head, _fields.decode(_inflated(found.deflated)))
    except (*UNREADABLE, zlib.error) as error:
        raise Unreadable(str(error)) from None


def _inflated(deflated: bytes) -> bytes:
    """Raises ValueError, zlib.error."""
    inflating = zlib.decompressobj()
    data = inflating.decompress(deflated, INFLATED_BYTES_MAX)
    if not inflating.eof or inflating.unused_data:
        raise ValueError("more than a record, or less")
    return data
