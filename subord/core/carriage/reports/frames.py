"""The body of a report on the wire, from a subordinate to its leader; its numbers are 16 to 31 (lanes.PART_BODIES).

Invariant: no time of day; ages and intervals are durations.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from subord.core.carriage.engine.bounds import SERVICE_CHARS_MAX
from subord.core.carriage.engine.frames import decode_with
from subord.core.carriage.reports import bounds
from subord.core.carriage.reports.coverage import Missing

_Count = Annotated[int, msgspec.Meta(ge=0, le=bounds.COUNT_MAX)]


class Report(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The fold of the sender's branch; it replaces the last one. `told` 0: there is none any more.

    `told`: nodes in the record. `left_out`: at least so many fields of nodes are not in it.
    """

    service: Annotated[str, msgspec.Meta(min_length=1, max_length=SERVICE_CHARS_MAX)]
    interval_ms: Annotated[
        int, msgspec.Meta(ge=int(bounds.INTERVAL_S_MIN * 1000), le=int(bounds.INTERVAL_S_MAX * 1000))
    ]
    told: _Count
    missing: Annotated[tuple[Missing, ...], msgspec.Meta(max_length=bounds.CAUSES_MAX)]
    age_ms: _Count
    left_out: _Count
    fields: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=bounds.NAME_CHARS_MAX)], msgspec.Raw],
        msgspec.Meta(max_length=bounds.FIELDS_MAX),
    ]


_decoder = msgspec.msgpack.Decoder(Report)


def decode_report(body: msgspec.Raw) -> Report:
    """Raises Unreadable."""
    return decode_with(_decoder, body)
