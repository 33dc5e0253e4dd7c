"""A fictitious later release: besides wire version 1 it has a version 3, which version 1 cannot read.

Version 2 is the seal's (sealing/header.py), so 3 is the number of the next one. The bytes of version 3 are those of
version 1 in reverse order.
"""

from __future__ import annotations

from subord.core.messages import Message
from subord.wire.codec import CODECS, Codec, Wire

LATER = 3
_plain = CODECS[1]


def _backwards(message: Message) -> bytes:
    return _plain.encode(message)[::-1]


def _forwards(data: bytes) -> Message:
    return _plain.decode(data[::-1])


BOTH = Wire({1: _plain, LATER: Codec(_backwards, _forwards)})
ONLY_LATER = Wire({LATER: Codec(_backwards, _forwards)})
"""The release after that, without version 1."""
