"""One stream that carries orders: what waits for it, by lane, and the credit that each end owes the other.

Inputs are frames to send and frames that came; outputs are bytes on the stream, and what the engine gets. At first
each end sends a greeting, an empty credit, which names its incarnation; a link counts as open when it has come.
Invariant: the engine gets no frame before the greeting.
"""

from __future__ import annotations

import socket
from typing import Final

import trio

from subord.core.carriage.engine.frames import Unreadable, is_frame
from subord.core.carriage.engine.interface import Lane, Link, Role
from subord.core.carriage.engine.lanes import (
    CREDIT_FIRST_BYTE,
    Credit,
    Incoming,
    Outgoing,
    decode_credit,
    encode_credit,
)
from subord.core.view import Incarnation, Position
from subord.runtime.frames import Sender, Stream

TURNS: Final = 2
"""Of the loop, before frames are sent: a node that acknowledges an order and answers at once does so in one record,
which halves what a leaf sends for a ping."""
RECORD_BYTES: Final = 16_384
"""Frames that are sent together; then a more urgent lane has its turn."""
TCP_INFO_BYTES: Final = 104
ROUND_TRIP_AT: Final = 68  # struct tcp_info of Linux: tcpi_rtt, microseconds


def is_of_orders(data: bytes) -> bool:
    """Whether a frame of a stream is for an order link."""
    return is_frame(data) or is_credit(data)


def is_credit(data: bytes) -> bool:
    return data[:1] == bytes([CREDIT_FIRST_BYTE])


class OrderLink:
    """One end of a link. `incarnation`: of this node. `name`: as the engine calls it; None: this object."""

    def __init__(
        self, sender: Sender, peer: Position, role: Role, incarnation: Incarnation, *, name: Link | None = None
    ) -> None:
        self.name: Link = self if name is None else name
        self.peer = peer
        self.role = role
        self.peer_incarnation = 0
        """0: its greeting has not come."""
        self._sender = sender
        self._incarnation = incarnation
        self._outgoing = Outgoing()
        self._incoming = Incoming()
        self._wake = trio.Event()
        self._is_finished = False
        self._control(0)

    @property
    def round_trip_s(self) -> float:
        """As the kernel measures it; 0: unknown."""
        return round_trip_s(self._sender.stream)

    def offer(self, lane: Lane, data: bytes) -> bool:
        """Add a frame; False: its lane is full, and the frame is dropped."""
        has_room = self._outgoing.offer(lane, data)
        self._wake.set()
        return has_room

    async def send_until_finished(self) -> None:
        """Send what waits, until cancelled; after `finish` what may still be sent."""
        while True:
            self._wake = trio.Event()
            while frames := self._next():
                await self._sender.send(*frames)
            if self._is_finished:
                return
            await self._wake.wait()
            for _ in range(TURNS):
                await trio.lowlevel.checkpoint()

    def _next(self) -> list[bytes]:
        """The frames of the next record."""
        frames, size = list[bytes](), 0
        while size < RECORD_BYTES and (found := self._outgoing.next()) is not None:
            frames.append(found[1])
            size += len(found[1])
        return frames

    def finish(self) -> None:
        """Nothing more is offered."""
        self._is_finished = True
        self._wake.set()

    def take_credit(self, data: bytes) -> bool | None:
        """Take a credit; None: it is malformed; True: it is the greeting."""
        try:
            credit = decode_credit(data)
        except Unreadable:
            return None
        if credit.lane is not Lane.CONTROL:
            self._wake.set()
            return False if self._outgoing.returned(credit.lane, credit.size) else None
        if self.peer_incarnation:
            return None
        self.peer_incarnation = credit.sender
        return True

    def took(self, lane: Lane, size: int) -> None:
        """The engine has a frame: its credit goes back, when enough of it is due."""
        owed = self._incoming.took(lane, size)
        if owed:
            self._control(owed, lane)

    def _control(self, size: int, lane: Lane = Lane.CONTROL) -> None:
        self.offer(Lane.CONTROL, encode_credit(Credit(self._incarnation, self.peer_incarnation, lane, size)))


def round_trip_s(stream: Stream) -> float:
    """Of a TCP stream, as the kernel measures it; 0: unknown."""
    raw = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    try:
        info = raw.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    except (OSError, ValueError):
        return 0.0
    return int.from_bytes(info[ROUND_TRIP_AT : ROUND_TRIP_AT + 4], "little") / 1e6
