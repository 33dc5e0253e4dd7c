"""The daemon's side of the agent of this node: gives it orders over its Unix socket, and waits for the outcomes.

Inputs are an order with the time that is left, and renewals of its lease, or a document; output is its outcome, or
the connection over which a service follows a document. For how long the service acts stands in the signed part of the
order: a member on the way could shorten the time that is left, and the agent would act in vain. A frame is length and
MessagePack (runtime/frames.py); one connection serves one order, whose renewals follow it. The agent keeps the tags
on which it acts on its disk, so an order may be given again: the daemon does so when the connection breaks, and after
its own restart. Invariant: `no agent` means that the agent has not seen the order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Final

import msgspec
import trio

from subord.core.carriage.documents import Document
from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.acting.service_orders import run_s
from subord.core.carriage.engine.causes import (
    NO_AGENT,
    OUTCOME_UNKNOWN,
    WORD_CHARS_MAX,
    sentence,
)
from subord.core.carriage.engine.frames import LEASE_MS, Order, Tag
from subord.core.carriage.engine.interface import Acted, Outcome
from subord.core.carriage.engine.ranges import Ranges
from subord.core.decoding import UNREADABLE
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, frame

logger = logging.getLogger("subord")

GIVEN_BYTES_MAX: Final = 98_304
DONE_BYTES_MAX: Final = 49_152
PRINCIPAL_CHARS_MAX: Final = 128
ADDRESS_CHARS_MAX: Final = 64
PAUSES_S: Final = (0.0, 0.1, 0.5, 2.0)
"""Before each attempt: systemd starts an agent again that has died."""
GRACE_S: Final = 10.0
"""Beyond the time of the order, for the agent to start, and to say that the time has run out."""


SOURCES_MAX: Final = 16
Lease = Annotated[int, msgspec.Meta(ge=0, le=bounds.LEASE_MS_MAX)]


class Given(msgspec.Struct, frozen=True, array_like=True):
    """What the daemon sends. `revoked`: the signed list of revoked operators, which the agent checks itself.
    `source`: the address of a node that asked over a stream of its own; "": the order came along the tree, or of a
    command here. `lease_ms`: for how long a leased service may act without a Renewal."""

    order: Order
    revoked: Document | None = None
    source: Annotated[str, msgspec.Meta(max_length=ADDRESS_CHARS_MAX)] = ""
    lease_ms: Lease = LEASE_MS


class Handed(msgspec.Struct, frozen=True, array_like=True, tag="document"):
    """A document, in place of an order. `sources`: positions of nodes that may have its content."""

    document: Document
    revoked: Document | None = None
    sources: Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(max_length=SOURCES_MAX)] = ()


class Renewal(msgspec.Struct, frozen=True, array_like=True):
    """What follows on the same connection: an issuer still waits, so a leased service may act for `lease_ms` from now
    on; 0: the order is cancelled."""

    lease_ms: Lease


class Done(msgspec.Struct, frozen=True, array_like=True):
    """What the agent answers. `principal`: the operator as the agent's file names it; "": unknown. `refused`: the
    agent has not begun."""

    cause: Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)] = ""
    result: Annotated[bytes, msgspec.Meta(max_length=bounds.RESULT_BYTES_MAX)] = b""
    principal: Annotated[str, msgspec.Meta(max_length=PRINCIPAL_CHARS_MAX)] = ""
    refused: bool = False


_given = msgspec.msgpack.Decoder(Given)
_handed = msgspec.msgpack.Decoder(Handed)
_renewal = msgspec.msgpack.Decoder(Renewal)
_done = msgspec.msgpack.Decoder(Done)
_encode = msgspec.msgpack.Encoder().encode


def encode(message: Given | Handed | Renewal | Done) -> bytes:
    """A whole frame."""
    return frame(_encode(message))


def decode_given(data: bytes) -> Given | None:
    """None: it cannot be read."""
    try:
        given = _given.decode(data)
        if given.order.flat_targets is not None:
            Ranges.unflat(given.order.flat_targets)
    except UNREADABLE:
        return None
    return given


def decode_handed(data: bytes) -> Handed | None:
    """None: it is an order, or cannot be read."""
    try:
        return _handed.decode(data)
    except UNREADABLE:
        return None


def decode_renewal(data: bytes) -> Renewal | None:
    """None: it cannot be read."""
    try:
        return _renewal.decode(data)
    except UNREADABLE:
        return None


def decode_done(data: bytes) -> Done | None:
    """None: it cannot be read."""
    try:
        return _done.decode(data)
    except UNREADABLE:
        return None


class _Waiting:
    """An order that the agent has, or is going to get; and what it is to be told next of its lease."""

    def __init__(self, lease_s: float) -> None:
        self._until = trio.current_time() + lease_s
        self.is_stopped = False
        self.changed = trio.Event()

    @property
    def lease_ms(self) -> int:
        return max(1, int((self._until - trio.current_time()) * 1000))

    def renew(self, lease_s: float) -> None:
        self._until = max(self._until, trio.current_time() + lease_s)
        self.changed.set()

    def stop(self) -> None:
        self.is_stopped = True
        self.changed.set()


class Agent:
    """The agent behind a socket. `revoked`: the list of revoked operators as this node holds it."""

    def __init__(self, path: str, counters: Counters, revoked: Callable[[], Document | None] = lambda: None) -> None:
        self._path = path
        self._counters = counters
        self._revoked = revoked
        self._waiting: dict[Tag, _Waiting] = {}

    def renew(self, tag: Tag, lease_s: float) -> None:
        """An issuer still waits for the order."""
        if tag in self._waiting:
            self._waiting[tag].renew(lease_s)

    def stop(self, tag: Tag) -> None:
        """The order is cancelled."""
        if tag in self._waiting:
            self._waiting[tag].stop()

    def expect(self, tag: Tag, lease_s: float = bounds.LEASE_S) -> None:
        """`act` follows: what `renew` and `stop` say until then counts, too."""
        self._waiting[tag] = _Waiting(lease_s)

    async def act(self, order: Order, left_s: float, source: str = "") -> Acted:
        """`_act` of an expected order, while `renew` and `stop` reach the agent."""
        waiting = self._waiting[order.tag]
        try:
            return await self._act(order, left_s, source, waiting)
        finally:
            if self._waiting.get(order.tag) is waiting:
                del self._waiting[order.tag]

    async def _act(self, order: Order, left_s: float, source: str, waiting: _Waiting) -> Acted:
        """Have the agent carry out an order, within `left_s`, or the time that the service may act, and GRACE_S.
        One that it has refused may come again: a member on the way may have altered it."""
        done: Done | None = None
        is_given = False
        with trio.move_on_after(max(left_s, run_s(order)) + GRACE_S):
            for pause_s in PAUSES_S:
                await trio.sleep(pause_s)
                stream = await self._connected()
                if stream is not None:
                    is_given = True
                    done = await self._asked(stream, order, source, waiting)
                if done is not None or not is_given:
                    break
        if done is None:
            return Acted(order.tag, Outcome(cause=OUTCOME_UNKNOWN if is_given else NO_AGENT), begun=is_given)
        self._count(order, done)
        return Acted(order.tag, Outcome(done.result, done.cause), begun=not done.refused)

    async def hand(self, document: Document, sources: tuple[int, ...]) -> Done | None:
        """Have the agent carry out a document; what it answers when it has done so, or has failed. None: there is no
        agent, or it has ended meanwhile."""
        stream = await self._connected()
        if stream is None:
            return None
        data = None
        async with stream:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_all(self._handed(document, sources))
                data = await Frames(stream).next(DONE_BYTES_MAX)
        return None if data is None else decode_done(data)

    async def attend(self, document: Document) -> trio.SocketStream | None:
        """Hand a document over that needs the daemon as long as it counts; the connection, for frames of the service
        and at last Done. None: there is no agent."""
        stream = await self._connected()
        if stream is None:
            return None
        try:
            await stream.send_all(self._handed(document, ()))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(stream)
            return None
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream

    def _handed(self, document: Document, sources: tuple[int, ...]) -> bytes:
        return encode(Handed(document, self._revoked(), sources[:SOURCES_MAX]))

    async def _connected(self) -> trio.SocketStream | None:
        try:
            return await trio.open_unix_socket(self._path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except (OSError, RuntimeError) as error:
            logger.warning("the agent at %s cannot be reached: %s", self._path, error)
            return None

    async def _asked(self, stream: trio.SocketStream, order: Order, source: str, waiting: _Waiting) -> Done | None:
        """The answer; None: the connection broke."""
        given = Given(order, self._revoked(), source, waiting.lease_ms)
        data = None
        async with stream, trio.open_nursery() as nursery:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_all(encode(given))
                nursery.start_soon(self._renew_while_open, stream, waiting)
                data = await Frames(stream).next(DONE_BYTES_MAX)
            nursery.cancel_scope.cancel()
        return None if data is None else decode_done(data)

    @staticmethod
    async def _renew_while_open(stream: trio.SocketStream, waiting: _Waiting) -> None:
        """Send each change of the lease, until the order is cancelled."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            is_stopped = False
            while not is_stopped:
                if not waiting.is_stopped:
                    await waiting.changed.wait()
                    waiting.changed = trio.Event()
                is_stopped = waiting.is_stopped
                await stream.send_all(encode(Renewal(0 if is_stopped else waiting.lease_ms)))

    def _count(self, order: Order, done: Done) -> None:
        """Count and show what the agent has refused, as for orders without an agent (runtime/security/gate.py)."""
        if not done.refused:
            self._counters.orders_accepted[order.service] += 1
            return
        self._counters.orders_refused[done.cause.replace(" ", "_")] += 1
        who = done.principal or "an unknown operator"
        text = f"order {order.service} of {who} is refused by the agent: {sentence(done.cause)}"
        self._counters.problems.note("order", text)
