"""TCP between nodes: the line that is cut when a process dies, and answers too long for a datagram.

Intuition: two children with tin cans and a string. They need not talk: when one lets go, the other feels
it. A subordinate holds such a string to its leader; the kernel lets go of it when the process dies, so a crash
is known at once and costs next to nothing while all is well. Of two strings from the same child the newer counts.

The first frame says what the stream is for: `edge` holds it open, `ask` wants one document and ends.
Frame: 4 bytes length, big endian, then MessagePack. TLS will wrap the stream below this file.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec
import trio

from subord.runtime.asking import AskFailure, Topic
from subord.runtime.counters import Counters
from subord.wire import UNREADABLE

QUESTION_BYTES_MAX = 64
ANSWER_BYTES_MAX = 8 << 20  # a roster of 50,000 nodes
STREAMS_MAX = 2200  # of the largest leader: 1024 home, 1024 guest, and some questions
ANSWERS_AT_ONCE_MAX = 8  # each may hold ANSWER_BYTES_MAX of memory; more wait for OPENING_S_MAX
FILES_SPARE = 100  # file descriptors for everything else
OPENING_S_MAX = 3.0
KEEPALIVE_S = 120  # an edge carries nothing, so without this a host that vanished would stay connected for ever
READ_BYTES = 65536
LENGTH_BYTES = 4


class Opening(msgspec.Struct, frozen=True):
    """First frame of every stream."""

    purpose: Literal["edge", "ask"]
    topic: Topic | None = None


_openings = msgspec.msgpack.Decoder(Opening)
_encoder = msgspec.msgpack.Encoder()


class Streams:
    """The TCP side of one node."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        user_timeout_s: float,
        counters: Counters,
        answer: Callable[[Topic], bytes],
        is_ours: Callable[[str], bool],
        edge_closed: Callable[[str], None],
        streams_max: int = STREAMS_MAX,
    ) -> None:
        """`is_ours` says which addresses may speak to us; `edge_closed` hears of the end of edges held to us."""
        self._address = address
        self._port = port
        self._user_timeout_s = user_timeout_s
        self._counters = counters
        self._answer = answer
        self._is_ours = is_ours
        self._edge_closed = edge_closed
        self._streams_max = streams_max
        self._open = 0
        self._edges: dict[str, trio.CancelScope] = {}  # the last one of each address
        self._answers = trio.Semaphore(ANSWERS_AT_ONCE_MAX)

    # -- the side that is called ------------------------------------------------------------------------

    async def serve(self, listening: socket.socket) -> None:
        """Attend to streams until cancelled."""
        listening.setblocking(False)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        await trio.serve_listeners(self._attend, [listener])

    async def _attend(self, stream: trio.SocketStream) -> None:
        """One stream from its opening to its end; `serve_listeners` closes it. Whatever the caller does, we go on."""
        if self._open >= self._streams_max:
            self._counters.dropped["streams_full"] += 1
            return
        self._open += 1
        try:
            await self._serve_one(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the other side went away: for an edge that was the news
        finally:
            self._open -= 1

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        try:
            peer: str = stream.socket.getpeername()[0]
            self._guard(stream.socket)
        except OSError:  # reset before we came to it
            self._counters.dropped["stream_malformed"] += 1
            return
        if not self._is_ours(peer):
            self._counters.dropped["stream_outside_network"] += 1
            return
        opening: Opening | None = None
        with trio.move_on_after(OPENING_S_MAX):
            opening = await _read_opening(stream)
        if opening is None:
            self._counters.dropped["stream_malformed"] += 1
        elif opening.purpose == "edge":
            await self._hold_for(peer, stream)
        elif opening.topic is not None:
            with trio.move_on_after(OPENING_S_MAX):
                async with self._answers:
                    await stream.send_all(_frame(self._answer(opening.topic)))

    async def _hold_for(self, peer: str, stream: trio.SocketStream) -> None:
        """Report the end of an edge, unless a newer one took its place: then its end means nothing."""
        if peer in self._edges:
            self._edges[peer].cancel()
        with trio.CancelScope() as scope:
            self._edges[peer] = scope
            with suppress(trio.BrokenResourceError):
                await _hold(stream)
        if self._edges.get(peer) is scope:
            del self._edges[peer]
            self._edge_closed(peer)

    # -- the side that calls ------------------------------------------------------------------------------

    async def hold_edge(self, leader: str) -> bool:
        """Hold a stream to `leader` until it closes; False when it could not be opened."""
        stream = await self._connect(leader, OPENING_S_MAX)
        if stream is None:
            return False
        async with stream:
            try:
                await stream.send_all(_frame(_encoder.encode(Opening("edge"))))
                await _hold(stream)
            except trio.BrokenResourceError:
                pass  # the other side went away: that is the news
        return True

    async def ask(self, address: str, topic: Topic, timeout_s: float) -> bytes | AskFailure:
        """One document of another node. Addresses come from peers: none outside the network is spoken to."""
        if not self._is_ours(address):
            return AskFailure("is no address of our network")
        with trio.move_on_after(timeout_s):
            stream = await self._connect(address, timeout_s)
            if stream is None:
                return AskFailure("does not answer")
            async with stream:
                try:
                    await stream.send_all(_frame(_encoder.encode(Opening("ask", topic))))
                    answer = await _read_frame(stream, ANSWER_BYTES_MAX)
                except trio.BrokenResourceError:
                    answer = None
            return AskFailure("broke off its answer") if answer is None else answer
        return AskFailure(f"does not answer within {timeout_s:g} s")

    async def _connect(self, address: str, timeout_s: float) -> trio.SocketStream | None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            sock = trio.socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # no file descriptor left
            return None
        try:
            self._guard(sock)
            # From our node's address: the other side knows its neighbours by address.
            await sock.bind((self._address, 0))
            with trio.fail_after(timeout_s):
                await sock.connect((address, self._port))
        except (OSError, trio.TooSlowError):
            sock.close()
            return None
        except trio.Cancelled:
            sock.close()
            raise
        return trio.SocketStream(sock)

    def _guard(self, sock: trio.socket.SocketType) -> None:
        """Unacknowledged data must not wait for the system's 15 minutes, at either end (RFC 5482). Raises OSError."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._user_timeout_s * 1000))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        # An unanswered probe is given up at the next one, because the user timeout has passed by then (tcp(7)).
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, int(self._user_timeout_s) + 1)


def streams_allowed() -> int:
    """Raise our limit of open files as far as STREAMS_MAX needs it; how many streams there may be then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = STREAMS_MAX + FILES_SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return STREAMS_MAX if soft == resource.RLIM_INFINITY else max(1, min(STREAMS_MAX, soft - FILES_SPARE))


async def _hold(stream: trio.SocketStream) -> None:
    """Until the other side closes. What it says meanwhile is not for this version: thrown away."""
    while await stream.receive_some(READ_BYTES):
        pass


async def _read_opening(stream: trio.SocketStream) -> Opening | None:
    try:
        frame = await _read_frame(stream, QUESTION_BYTES_MAX)
        return None if frame is None else _openings.decode(frame)
    except (trio.BrokenResourceError, *UNREADABLE):
        return None


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


async def _read_frame(stream: trio.SocketStream, bytes_max: int) -> bytes | None:
    """One frame; None when it is too long or cut short."""
    buffer = bytearray()
    while len(buffer) < LENGTH_BYTES or len(buffer) < LENGTH_BYTES + int.from_bytes(buffer[:LENGTH_BYTES], "big"):
        if len(buffer) >= LENGTH_BYTES and int.from_bytes(buffer[:LENGTH_BYTES], "big") > bytes_max:
            return None
        chunk = await stream.receive_some(READ_BYTES)
        if not chunk:
            return None
        buffer += chunk
        if len(buffer) > LENGTH_BYTES + bytes_max:
            return None
    return bytes(buffer[LENGTH_BYTES : LENGTH_BYTES + int.from_bytes(buffer[:LENGTH_BYTES], "big")])
