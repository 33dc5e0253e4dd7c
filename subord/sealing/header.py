"""The clear part of a sealed datagram: what the receiver must know to find the key.

Intuition: the outside of an envelope. Anybody can read it, nobody can change it: it is sealed with the letter.

    byte  0      0x73, the letter s
    byte  1      2: a sealed datagram
    byte  2      what for: 0 message, 1 challenge, 2 newer
    byte  3      1: the content begins with a ticket for the receiver; else 0
    bytes 4-7    which key of the ring
    bytes 8-15   boot: the life of the sender, by when it began (42 bits) and chance (22); a later one is higher
    bytes 16-23  number of this datagram in that life, from 1 on: the nonce
    bytes 24-31  ticket that the receiver gave to the sender, or zeros: proof that this was made for its present life
    rest         AES-256-GCM: the content, and 16 bytes of tag

All numbers are big endian. Associated data: the header, then the sender's address and port and the receiver's
(18 bytes each, IPv4 as ::ffff:a.b.c.d); so nothing can be sent back, or to somebody else.
"""

from __future__ import annotations

import enum
import ipaddress
import struct
from functools import lru_cache
from typing import Final, NamedTuple

from subord.wire.codec import DATAGRAM_BYTES_MAX, MAGIC

SEALED_VERSION: Final = 2
TICKET_BYTES: Final = 8
TAG_BYTES: Final = 16
NO_TICKET = bytes(TICKET_BYTES)
_LAYOUT = struct.Struct(">BBBB4sQQ8s")
HEADER_BYTES: Final = _LAYOUT.size
OVERHEAD_BYTES: Final = HEADER_BYTES + TAG_BYTES
SEALED_BYTES_MAX: Final = OVERHEAD_BYTES + TICKET_BYTES + DATAGRAM_BYTES_MAX


class What(enum.IntEnum):
    """What a datagram is for."""

    MESSAGE = 0
    CHALLENGE = 1  # "who are you now? say that again with this ticket"
    NEWER = 2  # "a later life of yours was here: take a higher number than this"


class Header(NamedTuple):
    what: What
    tells: bool  # a ticket
    key_id: bytes
    boot: int
    number: int
    ticket: bytes


def pack(header: Header) -> bytes:
    return _LAYOUT.pack(
        MAGIC, SEALED_VERSION, header.what, header.tells, header.key_id, header.boot, header.number, header.ticket
    )


def unpack(data: bytes) -> Header | None:
    """None: not a sealed datagram of this version. `data` has at least HEADER_BYTES."""
    magic, version, what, tells, key_id, boot, number, ticket = _LAYOUT.unpack_from(data)
    if (magic, version) != (MAGIC, SEALED_VERSION) or what > What.NEWER or tells > 1:
        return None
    return Header(What(what), bool(tells), key_id, boot, number, ticket)


@lru_cache(maxsize=4096)
def endpoint(address: str, port: int) -> bytes:
    """Address and port as they are sealed. `address` is numeric."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    packed = ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
    return packed + port.to_bytes(2, "big")
