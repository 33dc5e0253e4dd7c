"""The clear header of a sealed datagram, by which the receiver finds the key.

 byte  0      0x73, the letter s
 byte  1      2: a sealed datagram
 byte  2      purpose: 0 message, 1 challenge, 2 newer
 byte  3      1: the content begins with a ticket for the receiver; else 0
 bytes 4-7    identity of the key
 bytes 8-15   boot: the sender's incarnation, by its start (42 bits) and a random part (22); a later one is higher
 bytes 16-23  number of this datagram in that incarnation, from 1 on: the nonce
 bytes 24-31  ticket that the receiver gave to the sender, or zeros: proof that this is for its present incarnation
 rest         AES-256-GCM: the content, and 16 bytes of tag

All numbers are big endian. Associated data: the header, then address and port of the sender and of the receiver (18
bytes each, IPv4 as ::ffff:a.b.c.d), so no datagram can be reflected or redirected.
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
    """The purpose of a datagram."""

    MESSAGE = 0
    CHALLENGE = 1  # repeat that datagram, with this ticket
    NEWER = 2  # a later incarnation of the receiver is known: take a higher number


class Header(NamedTuple):
    what: What
    tells: bool  # whether the content begins with a ticket
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
    """Address and port as sealed, 18 bytes. `address` is numeric."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    packed = ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
    return packed + port.to_bytes(2, "big")
