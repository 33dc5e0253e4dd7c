"""What each node answers to each order: arithmetic of the checkers, which the engine does not know."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from subord.core.view import Position

LIE: Final = b"a lie"
READ: Final = "read"
WRITE: Final = "write"
LEASED: Final = "linger"
"""A leased service, which the agents of the simulator carry out."""
ABSENT: Final = "absent"
"""A service that no node offers."""
KINDS: Final = 3  # of different results


def result_of(tag: bytes, position: Position) -> bytes:
    """The result of a node for an order: equal for a third of all nodes."""
    return b"result %d" % (crc32(tag + b"%d" % position) % KINDS)
