"""Bytes <-> messages. The only file that knows the format of a datagram.

    byte 0    0x73, the letter s: whose datagram is this?
    byte 1    version of the wire, 1
    rest      MessagePack: [type, field, field, ...] in the order of core/messages.py

The first two bytes keep their meaning in every version. A datagram of a version that we do not speak gets
one short answer that says which versions we speak; everything else that is not understood is counted
and dropped. Fields are only ever appended, with defaults, so that neighbours of one version may differ.

Sealing will go between `encode` and the socket; nothing else needs to know of it.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from subord.core.messages import (
    ALTERNATES_MAX,
    CHANGES_MAX,
    HINTS_MAX,
    PATH_POSITIONS_MAX,
    Accept,
    Advice,
    Beat,
    Echo,
    Goodbye,
    Guidance,
    Guide,
    Message,
    Refuse,
    Versions,
)

MAGIC: Final = 0x73
VERSION: Final = 1
DATAGRAM_BYTES_MAX: Final = 1200
HEADER = bytes((MAGIC, VERSION))
NUMBER_MAX: Final = (1 << 64) - 1

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


class Fault(enum.Enum):
    """Why a datagram was not understood. Nothing was changed by it."""

    EMPTY = "too_short"
    OVERSIZED = "oversized"
    FOREIGN = "not_subord"
    VERSION = "unknown_version"
    MALFORMED = "malformed"
    OUT_OF_BOUNDS = "out_of_bounds"


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
        message = _decoder.decode(data[len(HEADER) :])
    except (msgspec.DecodeError, RecursionError, ValueError, OverflowError):
        return Fault.MALFORMED
    return message if _within_bounds(message) else Fault.OUT_OF_BOUNDS


def _is_versions(data: bytes) -> bool:
    """A `Versions` datagram is read in any version, and never answered: two strangers must not chat for ever."""
    try:
        return isinstance(_decoder.decode(data[len(HEADER) :]), Versions)
    except (msgspec.DecodeError, RecursionError, ValueError, OverflowError):
        return False


def _within_bounds(message: Message) -> bool:  # noqa: PLR0911 - one return a shape reads best
    """Numbers are natural and lists short, so that nobody's words can grow our memory."""
    if isinstance(message, Beat):
        return (
            _natural(message.number, message.next_ms, message.incarnation, message.leader_incarnation)
            and len(message.changes) <= CHANGES_MAX
            and len(message.gone) <= CHANGES_MAX
            and _natural(*message.gone)
            and all(
                _natural(c.leader, c.incarnation, c.moves, c.age_s) and c.position > 0 and 0 <= c.place <= 2
                for c in message.changes
            )
        )
    if isinstance(message, Versions):
        return len(message.spoken) <= HINTS_MAX
    if not _natural(message.incarnation):
        return False
    if isinstance(message, Echo | Accept | Guide):
        return message.guidance is None or _guidance_within_bounds(message.guidance)
    if isinstance(message, Refuse | Advice):
        return len(message.hints) <= HINTS_MAX and _natural(*message.hints, message.highest_guest)
    if isinstance(message, Goodbye):
        return len(message.alternates) <= ALTERNATES_MAX and _natural(*message.alternates)
    return True


def _guidance_within_bounds(guidance: Guidance) -> bool:
    return (
        len(guidance.path) <= PATH_POSITIONS_MAX
        and len(guidance.alternates) <= ALTERNATES_MAX
        and len(guidance.siblings) <= ALTERNATES_MAX
        and _natural(guidance.version, *guidance.path, *guidance.alternates, *guidance.siblings)
    )


def _natural(*numbers: int) -> bool:
    return all(0 <= number <= NUMBER_MAX for number in numbers)
