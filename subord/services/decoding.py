"""Reads what other nodes, agents and commands have sent.

Inputs are bytes in MessagePack; output is what they say, or None: they are of another release, or malformed. Nothing
is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from subord.core.decoding import UNREADABLE

Form = TypeVar("Form")
Reader = Callable[[bytes], Form | None]


def reader(form: Any) -> Reader[Any]:
    """`form`: a type, or a union of tagged ones."""
    decoder = msgspec.msgpack.Decoder(form)

    def read(data: bytes) -> Any:
        try:
            return decoder.decode(data)
        except UNREADABLE:
            return None

    return read
