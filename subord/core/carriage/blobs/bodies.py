"""The bodies of blobs on the wire, 48 to 51. `decode` checks every bound; no body is longer than a frame."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.blobs import bounds
from subord.core.carriage.engine.frames import decode_with
from subord.core.carriage.engine.ranges import POSITION_MAX

NUMBERS: Final = range(48, 64)
_Name = Annotated[bytes, msgspec.Meta(min_length=bounds.NAME_BYTES, max_length=bounds.NAME_BYTES)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=bounds.CHUNK_BYTES_MAX)]


class Want(msgspec.Struct, frozen=True, array_like=True, tag=48):
    """Asks for a chunk from `offset` on. `source`: a node that has all of the blob. `again`: it was asked on this
    link, and nothing came for some time."""

    name: _Name
    source: Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
    offset: _Offset = 0
    again: bool = False


class Piece(msgspec.Struct, frozen=True, array_like=True, tag=49):
    """A part of a chunk, which has `size` bytes in all."""

    name: _Name
    offset: _Offset
    size: _Offset
    data: Annotated[bytes, msgspec.Meta(max_length=bounds.PIECE_BYTES_MAX)]


class Lacks(msgspec.Struct, frozen=True, array_like=True, tag=50):
    """The sender does not get the chunk."""

    name: _Name


class Waits(msgspec.Struct, frozen=True, array_like=True, tag=51):
    """The sender is at it: it sends the chunk when it has it."""

    name: _Name


Body = Want | Piece | Lacks | Waits
_decoder: msgspec.msgpack.Decoder[Body] = msgspec.msgpack.Decoder(Body)


def decode(body: msgspec.Raw) -> Body:
    """A body within all bounds. Raises Unreadable."""
    return decode_with(_decoder, body)


def pieces(name: bytes, chunk: bytes, offset: int) -> list[Piece]:
    """A chunk from `offset` on; an empty one is one piece."""
    starts = range(offset, len(chunk), bounds.PIECE_BYTES_MAX) or (offset,)
    return [Piece(name, at, len(chunk), chunk[at : at + bounds.PIECE_BYTES_MAX]) for at in starts]
