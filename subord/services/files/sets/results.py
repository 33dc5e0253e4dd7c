"""The results of all orders of `subord files`, as agents tell them."""

from __future__ import annotations

import msgspec

from subord.services.decoding import Reader, reader
from subord.services.files.outcome import Pushed
from subord.services.files.sets.words import Collected, Differing, Looked

Result = Pushed | Looked | Differing | Collected
"""`how` is a word for each."""
decode: Reader[Result] = reader(Result)
_encode = msgspec.msgpack.Encoder().encode


def encode(result: Result) -> bytes:
    """The result of an order."""
    return _encode(result)
