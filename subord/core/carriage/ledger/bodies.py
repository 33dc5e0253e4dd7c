"""The bodies of the ledger on the wire, 32 to 34: batches climb, acknowledgements come down, sinks are told.

`decode` checks every bound. Invariant: none names a time of day, and none is longer than a frame.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.frames import decode_with
from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.core.carriage.ledger import bounds

NUMBERS: Final = range(32, 48)
_Position = Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
_Sequence = Annotated[int, msgspec.Meta(ge=1, le=(1 << 53) - 1)]
_Hops = Annotated[int, msgspec.Meta(ge=0, le=bounds.HOPS_MAX)]


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What a writer gives. `kind` says what the body means."""

    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=bounds.KIND_CHARS_MAX, pattern=bounds.KIND_PATTERN)]
    body: Annotated[bytes, msgspec.Meta(max_length=bounds.RECORD_BYTES_MAX)]

    @property
    def cost_bytes(self) -> int:
        """What it counts in a spool and in a batch."""
        return bounds.RECORD_COST_BYTES + len(self.kind.encode()) + len(self.body)


_Records = Annotated[tuple[Record, ...], msgspec.Meta(min_length=1, max_length=bounds.BATCH_RECORDS_MAX)]


class Key(msgspec.Struct, frozen=True, array_like=True):
    """Names the records of a batch: those of the life `life` of the node `origin`, from the sequence `first` on."""

    origin: _Position
    life: _Number
    first: _Sequence
    count: Annotated[int, msgspec.Meta(ge=1, le=bounds.BATCH_RECORDS_MAX)]


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """Records for a sink."""

    sink: _Position
    origin: _Position
    life: _Number
    first: _Sequence
    records: _Records
    hops: _Hops = 0

    @property
    def key(self) -> Key:
        return Key(self.origin, self.life, self.first, len(self.records))


class Stored(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """A sink has the records on its disk."""

    key: Key
    hops: _Hops = 0


class Sinks(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """The sinks that the receiver reaches through the sender."""

    positions: Annotated[tuple[_Position, ...], msgspec.Meta(max_length=bounds.SINKS_MAX)]


Body = Batch | Stored | Sinks
_decoder: msgspec.msgpack.Decoder[Body] = msgspec.msgpack.Decoder(Body)


def decode(body: msgspec.Raw) -> Body:
    """A body within all bounds. Raises Unreadable."""
    return decode_with(_decoder, body)
