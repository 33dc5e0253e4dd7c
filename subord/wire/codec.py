"""The codec: messages to datagrams and back.

 byte 0    0x73, the letter s: the mark of subord
 byte 1    version of the wire: 1, written and read by CODECS
 rest      of version 1: MessagePack, [type, field, field, ...] in the order of core/messages.py

The first two bytes keep their meaning in every version; 2 is a sealed datagram (sealing/header.py), so the next
version of messages is 3. A datagram of an unknown version is answered with `Versions`, written as in version 1;
anything else that cannot be read is counted and dropped. Fields are only appended, with defaults, so releases of one
version may differ. wire/versions.py chooses the version for each peer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from subord.core.decoding import UNREADABLE
from subord.core.messages import Message, Versions, written

MAGIC: Final = 0x73
VERSION: Final = 1
DATAGRAM_BYTES_MAX: Final = 1176  # sealed 1232, which every IPv6 path carries whole (RFC 8200, section 5)
HEADER = bytes((MAGIC, VERSION))

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Fault(enum.Enum):
    """Why a datagram was not decoded. It has no effect."""

    EMPTY = "too_short"
    OVERSIZED = "oversized"
    FOREIGN = "not_subord"
    VERSION = "unknown_version"
    MALFORMED = "malformed"


class Codec(NamedTuple):
    """Encoder and decoder of one version, without the header; `decode` raises only what is in UNREADABLE."""

    encode: Callable[[Message], bytes]
    decode: Callable[[bytes], Message]


def _write(message: Message) -> bytes:
    """Fields of an identity cost nothing where there is none."""
    return _encoder.encode(written(message))


CODECS: Final[Mapping[int, Codec]] = {VERSION: Codec(_write, _decoder.decode)}
"""Every version that this release speaks."""


class Wire:
    """The codecs of one node. Tests use a second one that stands for a later release."""

    def __init__(self, codecs: Mapping[int, Codec]) -> None:
        self.spoken = tuple(sorted(codecs))
        self.versions_datagram = HEADER + _encoder.encode(Versions(self.spoken))
        """The versions of this node; a receiver of any version reads it."""
        self._writers = {version: (bytes((MAGIC, version)), codecs[version].encode) for version in codecs}
        self._readers = {version: codecs[version].decode for version in codecs}

    def encode(self, message: Message, version: int = VERSION) -> bytes:
        """The datagram of `message`, at most DATAGRAM_BYTES_MAX bytes, which the bounds of own messages ensure."""
        header, write = self._writers[version]
        data = header + write(message)
        assert len(data) <= DATAGRAM_BYTES_MAX, f"the own {type(message).__name__} takes {len(data)} bytes"
        return data

    def decode(self, data: bytes) -> Message | Fault:
        """The message of a datagram, or the fault. Never raises.

        The version of a message is `data[1]`, except of a `Versions`.
        """
        if len(data) > DATAGRAM_BYTES_MAX:
            return Fault.OVERSIZED
        if len(data) < len(HEADER) + 1:
            return Fault.EMPTY
        if data[0] != MAGIC:
            return Fault.FOREIGN
        read = self._readers.get(data[1])
        if read is None:
            return _versions_in(data) or Fault.VERSION
        try:
            return read(data[len(HEADER) :])
        except UNREADABLE:
            return Fault.MALFORMED  # or out of the bounds in core/messages.py


def _versions_in(data: bytes) -> Versions | None:
    """`Versions` is read in any version and never answered, so two nodes cannot answer each other without end."""
    try:
        message = _decoder.decode(data[len(HEADER) :])
    except UNREADABLE:
        return None
    return message if isinstance(message, Versions) else None


WIRE: Final = Wire(CODECS)
VERSIONS_DATAGRAM = WIRE.versions_datagram
encode = WIRE.encode
decode = WIRE.decode
