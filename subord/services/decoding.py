"""Reads what other nodes, agents and commands have sent, and takes as much as has room in an answer.

Inputs are bytes in MessagePack; output is what they say, or None: they are of another release, or malformed. Nothing
is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from subord.core.decoding import UNREADABLE

Form = TypeVar("Form")
Item = TypeVar("Item")
Reader = Callable[[bytes], Form | None]
_encode = msgspec.msgpack.Encoder().encode


def reader(form: Any) -> Reader[Any]:
    """`form`: a type, or a union of tagged ones."""
    decoder = msgspec.msgpack.Decoder(form)

    def read(data: bytes) -> Any:
        try:
            return decoder.decode(data)
        except UNREADABLE:
            return None

    return read


def fitting(items: Sequence[Item], room: int) -> tuple[Item, ...]:
    """The first ones, in at most `room` bytes of MessagePack."""
    sizes = accumulate(len(_encode(each)) for each in items)
    return tuple(each for each, size in zip(items, sizes, strict=True) if size <= room)
