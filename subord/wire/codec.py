"""Bytes <-> messages. The only file that knows the format of a datagram.

    byte 0    0x73, the letter s: whose datagram is this?
    byte 1    version of the wire: 1, written and read by CODECS
    rest      of version 1: MessagePack, [type, field, field, ...] in the order of core/messages.py

The first two bytes keep their meaning in every version; 2 is what is sealed (sealing/header.py), so the next version
of messages is 3. A datagram of a version that we do not speak gets one short answer that says which versions we speak
(`Versions`, always as version 1 writes it); everything else that is not understood is counted and dropped. Fields are
only ever appended, with defaults, so that neighbours of one version may differ. In which version we speak to whom:
wire/versions.py.

The seal goes around all this (sealing/, runtime/net/transport.py); nothing else needs to know of it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

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


class Codec(NamedTuple):
    """How one version writes a message behind the header, and reads it; `decode` may raise what is in UNREADABLE."""

    encode: Callable[[Message], bytes]
    decode: Callable[[bytes], Message]


CODECS: Final[Mapping[int, Codec]] = {VERSION: Codec(_encoder.encode, _decoder.decode)}
"""Every version that we speak."""


class Wire:
    """What one node writes and reads. There is a second one only in tests, which pretend to be of a later release."""

    def __init__(self, codecs: Mapping[int, Codec]) -> None:
        self.spoken = tuple(sorted(codecs))
        self.versions_datagram = HEADER + _encoder.encode(Versions(self.spoken))
        """In which versions we can be spoken to; read by whoever speaks any version."""
        self._writers = {version: (bytes((MAGIC, version)), codecs[version].encode) for version in codecs}
        self._readers = {version: codecs[version].decode for version in codecs}

    def encode(self, message: Message, version: int = VERSION) -> bytes:
        """The datagram of `message`, at most DATAGRAM_BYTES_MAX bytes: our own are bounded by construction."""
        header, write = self._writers[version]
        data = header + write(message)
        assert len(data) <= DATAGRAM_BYTES_MAX, f"our own {type(message).__name__} takes {len(data)} bytes"
        return data

    def decode(self, data: bytes) -> Message | Fault:
        """The message of a datagram, or why there is none. Never raises, whatever comes in.

        Its version is `data[1]`, unless it is a `Versions`.
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
            return Fault.MALFORMED  # also what is out of bounds: core/messages.py sets them


def _versions_in(data: bytes) -> Versions | None:
    """A `Versions` datagram is read in any version, and never answered: two strangers must not chat for ever."""
    try:
        message = _decoder.decode(data[len(HEADER) :])
    except UNREADABLE:
        return None
    return message if isinstance(message, Versions) else None


WIRE: Final = Wire(CODECS)
VERSIONS_DATAGRAM = WIRE.versions_datagram
encode = WIRE.encode
decode = WIRE.decode
