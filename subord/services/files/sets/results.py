"""The results of all orders of `subord files`, as agents tell them."""

from __future__ import annotations

from typing import Final

import msgspec

from subord.core.decoding import UNREADABLE
from subord.services.files.outcome import Pushed
from subord.services.files.sets.words import Collected, Differing, Looked

Result = Pushed | Looked | Differing | Collected
"""`how` is a word for each."""
_decoder: Final[msgspec.msgpack.Decoder[Result]] = msgspec.msgpack.Decoder(Result)
_encode = msgspec.msgpack.Encoder().encode


def encode(result: Result) -> bytes:
    """The result of an order."""
    return _encode(result)


def decode(result: bytes) -> Result | None:
    """None: it is of another release, or malformed."""
    try:
        return _decoder.decode(result)
    except UNREADABLE:
        return None
