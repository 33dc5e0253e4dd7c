"""What may be sent next on one link: frames of several lanes, the most urgent first, within credits.

Inputs are frames to send, and credits that the far end returns as it takes frames in; output is the next frame. Each
lane has a credit in bytes of its own, so a far end that is slow to take in one lane stops that lane alone. Control
frames need no credit: they are small, and carry the credits. A credit on the wire is an array of four in MessagePack:
the incarnations of sender and receiver, the lane, and the bytes. Invariant: what is sent and not yet returned of a
lane never exceeds its credit, and what waits in a lane never exceeds its bound.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.carriage.engine.bounds import FRAME_BYTES_MAX
from subord.core.carriage.engine.frames import Unreadable, number_of, open_envelope
from subord.core.carriage.engine.interface import Lane
from subord.core.decoding import UNREADABLE
from subord.core.view import Incarnation

CREDITS: Final = {Lane.ORDER: 4 * FRAME_BYTES_MAX, Lane.REPORT: 2 * FRAME_BYTES_MAX} | {
    Lane.LEDGER: 2 * FRAME_BYTES_MAX,
    Lane.BLOB: 8 * FRAME_BYTES_MAX,
}
"""Bytes that may be under way, by lane. One frame always fits."""
WAITING_MAX: Final = {Lane.CONTROL: 1 << 18, Lane.ORDER: 8 << 20, Lane.REPORT: 1 << 18} | {
    Lane.LEDGER: 1 << 20,
    Lane.BLOB: 1 << 20,
}
"""Bytes that may wait, by lane."""
RETURN_SHARE: Final = 4
"""Credit goes back when a RETURN_SHARE-th of it has been taken in: not with each frame."""


ORDER_BODIES: Final = (1, 5, 6, 7)  # questions, answers, and ends, which must not overtake their questions
PART_BODIES: Final = {Lane.REPORT: range(16, 32), Lane.LEDGER: range(32, 48), Lane.BLOB: range(48, 64)}
"""The numbers of bodies that each part has (parts.py)."""


def lane_of(data: bytes) -> Lane:
    """The lane of a frame, the same at both ends. What cannot be read needs no credit: the engine drops it."""
    try:
        number = number_of(open_envelope(data).body)
    except Unreadable:
        return Lane.CONTROL
    for lane, numbers in PART_BODIES.items():
        if number in numbers:
            return lane
    return Lane.ORDER if number in ORDER_BODIES else Lane.CONTROL


class Credit(NamedTuple):
    """The sender has taken in `size` bytes of a lane."""

    sender: Incarnation
    receiver: Incarnation
    lane: Lane
    size: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]


CREDIT_FIRST_BYTE: Final = 0x94
_decoder = msgspec.msgpack.Decoder(Credit)
_encode = msgspec.msgpack.Encoder().encode


def encode_credit(credit: Credit) -> bytes:
    """A credit in MessagePack."""
    return _encode(credit)


def decode_credit(data: bytes) -> Credit:
    """Raises Unreadable."""
    try:
        return _decoder.decode(data)
    except UNREADABLE as reason:
        raise Unreadable(str(reason)) from None


class Outgoing:
    """The frames that wait for one link. It ends with the link, so a dead far end holds no credit."""

    def __init__(self) -> None:
        self._waiting: dict[Lane, deque[bytes]] = {lane: deque() for lane in Lane}
        self._bytes = dict.fromkeys(Lane, 0)
        self._credits = dict(CREDITS)
        self.dropped: Counter[Lane] = Counter()
        """Frames that found their lane full."""

    def offer(self, lane: Lane, data: bytes) -> bool:
        """Add a frame; False: its lane is full, or it is longer than a frame; it is dropped and counted."""
        if len(data) > FRAME_BYTES_MAX or self._bytes[lane] + len(data) > WAITING_MAX[lane]:
            self.dropped[lane] += 1
            return False
        self._waiting[lane].append(data)
        self._bytes[lane] += len(data)
        return True

    def next(self) -> tuple[Lane, bytes] | None:
        """Take the next frame that may be sent now; None: there is none until credit comes or a frame is offered."""
        for lane in Lane:
            waiting = self._waiting[lane]
            if not waiting:
                continue
            size = len(waiting[0])
            if lane is not Lane.CONTROL:
                if size > self._credits[lane]:
                    continue
                self._credits[lane] -= size
            self._bytes[lane] -= size
            return lane, waiting.popleft()
        return None

    def returned(self, lane: Lane, size: int) -> bool:
        """The far end has taken so many bytes in; False: more than were under way, so it is malformed."""
        if lane is Lane.CONTROL or size < 0 or self._credits[lane] + size > CREDITS[lane]:
            return False
        self._credits[lane] += size
        return True

    def waiting_bytes(self, lane: Lane) -> int:
        return self._bytes[lane]

    def under_way_bytes(self, lane: Lane) -> int:
        """Sent, and not yet returned."""
        return CREDITS.get(lane, 0) - self._credits.get(lane, 0)


class Incoming:
    """The credit that this end owes the far end of one link."""

    def __init__(self) -> None:
        self._taken = dict.fromkeys(CREDITS, 0)

    def took(self, lane: Lane, size: int) -> int:
        """A frame has been handled; returns the credit to send back now, 0: none yet."""
        if lane is Lane.CONTROL:
            return 0
        self._taken[lane] += size
        if self._taken[lane] * RETURN_SHARE < CREDITS[lane]:
            return 0
        owed, self._taken[lane] = self._taken[lane], 0
        return owed
