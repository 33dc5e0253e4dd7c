"""A part of a blob in one piece: chunks one after the other, each after its length (4 bytes).

The daemon gives it to the agent. Inputs are chunks, output are bytes, and back. Invariant: a part has at most
PART_CHUNKS_MAX chunks of the blob, and before the first ones the list of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PART_CHUNKS_MAX: Final = 4
"""A daemon holds so many for each answer: 1 MiB."""
_LENGTH_BYTES: Final = 4


def joined(chunks: Iterable[bytes]) -> bytes:
    """One piece."""
    return b"".join(piece for each in chunks for piece in (len(each).to_bytes(_LENGTH_BYTES, "big"), each))


def split(data: bytearray) -> list[bytes]:
    """The chunks. Raises ValueError."""
    found, at = list[bytes](), 0
    with memoryview(data) as view:
        while at < len(view):
            begin = at + _LENGTH_BYTES
            end = begin + int.from_bytes(view[at:begin], "big")
            if end > len(view):
                raise ValueError("a chunk ends early")
            found.append(bytes(view[begin:end]))
            at = end
    return found
