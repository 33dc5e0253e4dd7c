"""Datagrams that no daemon sends: malformed, oversized, of another version, or with other settings."""

from __future__ import annotations

from random import Random
from typing import Literal

from subord.core.messages import Propose
from subord.wire.codec import DATAGRAM_BYTES_MAX, HEADER, MAGIC, VERSION, Fault, decode, encode

What = Literal["malformed", "oversized", "version", "terms"]
BYTES_MAX = 60_000  # of a UDP datagram


def datagram(what: What, misfit: Propose, chance: Random) -> bytes:
    """One datagram; `misfit` is a well-formed proposal with settings other than the target's."""
    if what == "terms":
        return encode(misfit)
    if what == "version":
        return bytes((MAGIC, VERSION + chance.randrange(1, 200))) + chance.randbytes(chance.randrange(1, 100))
    if what == "oversized":
        return HEADER + bytes(chance.randrange(DATAGRAM_BYTES_MAX, BYTES_MAX))
    return malformed(misfit, chance)


def malformed(real: Propose, chance: Random) -> bytes:
    """An undecodable datagram: a real one truncated or with bytes replaced, or random bytes."""
    data = bytearray(encode(real))
    if chance.random() < 0.5:
        del data[chance.randrange(3, len(data)) :]
    for _ in range(chance.randrange(1, 9)):
        data[chance.randrange(2, len(data))] = chance.randrange(256)
    if isinstance(decode(bytes(data)), Fault):
        return bytes(data)
    return HEADER + b"\xc1" + chance.randbytes(chance.randrange(64))  # 0xc1 is never used in MessagePack
