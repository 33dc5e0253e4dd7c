"""A pretended later release of the wire: besides version 1 it has a version 3, which 1 cannot read at all.

Decided here: how a daemon of that release writes and reads. Version 2 is the seal's (sealing/header.py), so 3 is what
the next one will be called. The bytes of version 3 are those of version 1 from behind to the front.
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
"""Of the release after that, which has forgotten version 1."""
