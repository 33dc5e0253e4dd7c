"""Bytes <-> messages. The only file that knows the format of a datagram.

    byte 0    0x73, the letter s: whose datagram is this?
    byte 1    version of the wire, 1
    rest      MessagePack: [type, field, field, ...] in the order of core/messages.py

The first two bytes keep their meaning in every version. A datagram of a version that we do not speak gets
one short answer that says which versions we speak; everything else that is not understood is counted
and dropped. Fields are only ever appended, with defaults, so that neighbours of one version may differ.

The seal goes around all this (sealing/, runtime/mail.py); nothing else needs to know of it.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from subord.core.messages import Message, Versions

MAGIC: Final = 0x73
VERSION: Final = 1
DATAGRAM_BYTES_MAX: Final = 1176  # sealed 1232, which every IPv6 path carries whole (RFC 8200, section 5)
HEADER = bytes((MAGIC, VERSION))

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError)
"""What decoders raise for what peers say: besides their own errors those of bad UTF-8, depth and large numbers."""


class Fault(enum.Enum):
    """Why a datagram was not understood. Nothing was changed by it."""

    EMPTY = "too_short"
    OVERSIZED = "oversized"
    FOREIGN = "not_subord"
    VERSION = "unknown_version"
    MALFORMED = "malformed"


VERSIONS_DATAGRAM = HEADER + _encoder.encode(Versions((VERSION,)))


def encode(message: Message) -> bytes:
    """The datagram of `message`, at most DATAGRAM_BYTES_MAX bytes: our own are bounded by construction."""
    data = HEADER + _encoder.encode(message)
    assert len(data) <= DATAGRAM_BYTES_MAX, f"our own {type(message).__name__} takes {len(data)} bytes"
    return data


def decode(data: bytes) -> Message | Fault:
    """The message of a datagram, or why there is none. Never raises, whatever comes in."""
    if len(data) > DATAGRAM_BYTES_MAX:
        return Fault.OVERSIZED
    if len(data) < len(HEADER) + 1:
        return Fault.EMPTY
    if data[0] != MAGIC:
        return Fault.FOREIGN
    if data[1] != VERSION and not _is_versions(data):
        return Fault.VERSION
    try:
        return _decoder.decode(data[len(HEADER) :])
    except UNREADABLE:
        return Fault.MALFORMED  # also what is out of bounds: core/messages.py sets them


def _is_versions(data: bytes) -> bool:
    """A `Versions` datagram is read in any version, and never answered: two strangers must not chat for ever."""
    try:
        return isinstance(_decoder.decode(data[len(HEADER) :]), Versions)
    except UNREADABLE:
        return False
