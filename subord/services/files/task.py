"""What an operator signs: the name of a bundle, and at which node it is.

The name is a hash of all that the bundle has: paths, modes, owners, contents and commands. Invariant: an agent does
nothing for a payload that it does not understand in full.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.blobs.bounds import NAME_BYTES
from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.core.decoding import UNREADABLE

_Blob = Annotated[bytes, msgspec.Meta(min_length=NAME_BYTES, max_length=NAME_BYTES)]


class Push(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="push"):
    """Bring the files of a bundle. `source`: a node that has it. `is_trial`: say what would change."""

    blob: _Blob
    source: Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
    is_trial: bool = False


Task = Push
_decoder: Final = msgspec.msgpack.Decoder(Task)
_encode = msgspec.msgpack.Encoder().encode


def encode(task: Task) -> bytes:
    """The payload of an order."""
    return _encode(task)


def decode(payload: bytes) -> Task | None:
    """None: it is of another release, or malformed."""
    try:
        return _decoder.decode(payload)
    except UNREADABLE:
        return None
