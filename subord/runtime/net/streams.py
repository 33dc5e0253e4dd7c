"""TCP streams between nodes: edges, whose end reveals the end of a process, and answers too long for a datagram.

A subordinate holds a stream to its leader. The kernel closes it when either process dies, so the other side learns of
a crash at once. Of two edges from one address the newer counts.

The first frame states the purpose: `edge` stays open, `ask` is answered by one document. With a key, TLS precedes the
first frame (security/tls.py). New key rings are documents of the carrier; peers of releases without it get them as
text, at first and at each change, and no ring is taken from such text. The number of streams is bounded, and
connections that have not sent their first frame have bounds of their own.
"""

from __future__ import annotations

import logging
import resource
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Annotated, Literal

import msgspec
import trio

from subord.core.carriage.exchange import FRAME_BYTES_MAX
from subord.core.pacing.token_bucket import TokenBucket
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, Sender, Stream, frame
from subord.runtime.net.answer_places import PLACE_S_MAX, Places
from subord.runtime.net.carrier import Carrier
from subord.runtime.net.peer_query import AskFailure, Question, TimeBudget, Words, is_topic, understood, unknown_topic
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.tls import TOO_SLOW, Tls, TlsError
from subord.sealing.keys import Keyring, KeyringError, text_of
from subord.wire.codec import UNREADABLE

logger = logging.getLogger("subord")

WARNING_S = 30.0
QUESTION_BYTES_MAX = 256
ANSWER_BYTES_MAX = 8 << 20  # a roster of 47,000 nodes, or of 38,000 that measure
STREAMS_MAX = 2200  # of the largest leader: 1024 home, 1024 guest, and some questions
PENDING_MAX = 256  # connections before their first frame; more only of peers whose datagrams have shown the key
PENDING_MIN = 8  # with few file descriptors PENDING_MAX is half of the streams, but at least this
PENDING_OF_ONE_MAX = 32  # of one address
HANDSHAKES_PER_S = 100.0  # with peers whose datagrams have not shown the key; each costs 1 ms of processor time
FILES_SPARE = 100  # file descriptors for all other uses
OPENING_S_MAX = 3.0
SPREAD_S = 1.0  # for the carrier to send a ring down before the edges under a removed key close
CARRIES_S_MAX = 5.0  # until a leader that sends no frame of the carrier is of an older release
KEEPALIVE_S = 120  # an edge carries no data, so without keepalive the end of a vanished host would go unnoticed


class Opening(msgspec.Struct, frozen=True):
    """First frame of every stream. Newer daemons may add fields and topics."""

    purpose: Literal["edge", "ask"]
    topic: Annotated[str, msgspec.Meta(max_length=32)] | None = None
    words: Words = ()
    budget_s: TimeBudget = 0.0
    carries: bool = False  # an edge: the sender takes frames of the carrier


_opening_decoder = msgspec.msgpack.Decoder(Opening)
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
        answer: Callable[[Question], Awaitable[bytes]],
        is_ours: Callable[[str], bool],
        edge_closed: Callable[[str], None],
        streams_max: int = STREAMS_MAX,
        key_ring: RunningKeyRing | None = None,
        tls: Tls | None = None,
        carrier: Carrier | None = None,
        is_known: Callable[[str], bool] = lambda _: False,
        leader_address: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`answer` answers questions of peers; `edge_closed` receives the address at the end of an incoming edge.

        `is_ours`: whether an address may connect. `key_ring` and `tls` are both given, or both None: no encryption.
        `is_known`: whether the datagrams of an address have shown the key.
        """
        self._address = address
        self._port = port
        self._user_timeout_s = user_timeout_s
        self._counters = counters
        self._answer = answer
        self._is_ours = is_ours
        self._edge_closed = edge_closed
        self._streams_max = streams_max
        self._pending_max = min(PENDING_MAX, max(PENDING_MIN, streams_max // 2))
        self._key_ring = key_ring
        self._tls = tls
        self._carrier = carrier
        self._is_known = is_known
        self._handshakes = TokenBucket(HANDSHAKES_PER_S, trio.current_time())
        self._warned_at = -inf
        self._open = 0
        self._pending: Counter[str] = Counter()
        self._edges: dict[str, trio.CancelScope] = {}  # the newest of each address
        self._ring_receivers: set[Sender] = set()  # edges, up and down, that receive new rings
        self._ring_changed = trio.Event()
        self._places = Places(leader_address)
        if key_ring is not None:
            key_ring.taken.append(self._on_ring)

    # -- incoming streams -------------------------------------------------------------------------------

    async def serve(self, listening: socket.socket) -> None:
        """Serve incoming streams until cancelled."""
        listening.setblocking(False)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        async with trio.open_nursery() as nursery:
            if self._key_ring is not None:
                nursery.start_soon(self._send_rings_forever, self._key_ring)
            await trio.serve_listeners(self._serve_counted, [listener])

    async def _serve_counted(self, stream: trio.SocketStream) -> None:
        """Serve one stream within the bound; `serve_listeners` closes it."""
        if self._open >= self._streams_max:
            self._counters.dropped["streams_full"] += 1
            return
        self._open += 1
        try:
            await self._serve_one(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the other side closed the stream
        finally:
            self._open -= 1

    async def _serve_one(self, raw: trio.SocketStream) -> None:
        try:
            peer: str = raw.socket.getpeername()[0]
            self._set_timeouts(raw.socket)
        except OSError:  # reset before it was accepted
            self._counters.dropped["stream_malformed"] += 1
            return
        if not self._is_ours(peer):
            self._counters.dropped["stream_outside_network"] += 1
            return
        opened = await self._opened(raw, peer)
        if opened is None:
            return
        stream, frames, opening = opened
        if opening.purpose == "edge":
            await self._hold_for(peer, stream, frames, carries=opening.carries)
        elif opening.topic is not None:
            with trio.move_on_after(min(OPENING_S_MAX + opening.budget_s, PLACE_S_MAX)) as scope:
                await self._answer_to(peer, stream, opening, opening.topic)
            if scope.cancelled_caught:
                self._counters.dropped["answer_too_slow"] += 1

    async def _answer_to(self, peer: str, stream: Stream, opening: Opening, topic: str) -> None:
        if not is_topic(topic):
            self._counters.dropped["stream_unknown_topic"] += 1
            await stream.send_all(frame(unknown_topic(topic)))
            return
        budget_s = min(opening.budget_s, PLACE_S_MAX - OPENING_S_MAX)
        async with self._places.taken(peer, topic):
            await stream.send_all(frame(await self._answer(Question(topic, opening.words, budget_s))))

    async def _opened(self, raw: trio.SocketStream, peer: str) -> tuple[Stream, Frames, Opening] | None:
        """The stream after the TLS handshake and the first frame; None: one of them failed, which is counted."""
        if not self._may_open(peer):
            self._counters.dropped["stream_strangers"] += 1
            return None
        self._pending[peer] += 1
        reason = "stream_malformed"
        try:
            with trio.move_on_after(OPENING_S_MAX):
                stream = raw if self._tls is None else await self._tls.as_server(raw, peer)
                frames = Frames(stream)
                opening = await _read_opening(frames)
                if opening is not None:
                    return stream, frames, opening
        except TlsError as error:
            reason = str(error)
            if not error.has_hung_up:  # else the other side reports the reason
                self._counters.problems.note("stream", reason, peer)
            self._warn(peer, reason)
        finally:
            self._pending[peer] -= 1
            if not self._pending[peer]:
                del self._pending[peer]
        self._counters.dropped[reason] += 1
        return None

    def _warn(self, peer: str, reason: str) -> None:
        """Log a failed handshake, at most once in WARNING_S."""
        if trio.current_time() - self._warned_at >= WARNING_S:
            self._warned_at = trio.current_time()
            words = "no TLS with %(peer)s: %(reason)s (subord_input_dropped_total counts them)"
            logger.warning(words, {"peer": peer, "reason": reason})

    def _may_open(self, peer: str) -> bool:
        """Whether to begin a handshake. Peers without the key cannot exclude peers whose datagrams have shown it."""
        if self._pending[peer] >= PENDING_OF_ONE_MAX:
            return False
        if self._is_known(peer):
            return True
        has_room = self._pending.total() < self._pending_max
        return has_room and (self._tls is None or self._handshakes.admit(trio.current_time()))

    async def _hold_for(self, peer: str, stream: Stream, frames: Frames, *, carries: bool) -> None:
        """Hold an incoming edge and report its end, unless a newer edge of the same address replaced it."""
        if peer in self._edges:
            self._edges[peer].cancel()
        with trio.CancelScope() as scope:
            self._edges[peer] = scope
            await self._hold(peer, stream, frames, carries=carries)
        if self._edges.get(peer) is scope:
            del self._edges[peer]
            self._edge_closed(peer)

    # -- both sides of an edge ----------------------------------------------------------------------------

    async def _hold(self, peer: str, stream: Stream, frames: Frames, *, carries: bool | None) -> None:
        """Return when the other side closes, or sends an invalid frame. `carries`: the other side takes frames of the
        carrier; None: it says so by sending one, as a leader does to a subordinate that takes them."""
        sender, carrier, begun = Sender(stream, peer), self._carrier, trio.Event()
        async with trio.open_nursery() as nursery:
            if carries and carrier is not None:
                begun.set()
                carrier.begin(sender, nursery)
            elif self._key_ring is not None:
                wait_s = CARRIES_S_MAX if carries is None and carrier is not None else 0.0
                nursery.start_soon(self._begin_rings, sender, self._key_ring, begun, wait_s)
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while (received := await frames.next(FRAME_BYTES_MAX)) is not None:
                    if carrier is None or not carrier.is_frame(received):
                        if not self._read_ring(received):
                            break
                        continue
                    if not begun.is_set():
                        begun.set()
                        self._ring_receivers.discard(sender)
                        carrier.begin(sender, nursery)
                    if not await carrier.receive(sender, received):
                        self._counters.dropped["carrier_malformed"] += 1
                        break
            self._ring_receivers.discard(sender)
            nursery.cancel_scope.cancel()

    async def _begin_rings(
        self, sender: Sender, key_ring: RunningKeyRing, carries: trio.Event, wait_s: float
    ) -> None:
        """Send the ring, unless the other side carries; from then on `sender` gets each new one."""
        with trio.move_on_after(wait_s):
            await carries.wait()
            return
        sent = None
        while sent is not key_ring.ring:  # it may change during the send
            sent = key_ring.ring
            await self._send_ring(sender, sent)
        if not carries.is_set():
            self._ring_receivers.add(sender)

    def _read_ring(self, received: bytes) -> bool:
        """Count another key ring of the other side; False: it is invalid. Without a key there are none."""
        if self._key_ring is None:
            return True
        try:
            if self._key_ring.is_another(received.decode("ascii")):
                self._counters.dropped["ring_unsigned"] += 1
        except (KeyringError, UnicodeDecodeError):
            self._counters.dropped["key_ring_malformed"] += 1
            return False
        return True

    def _on_ring(self, _: Keyring) -> None:
        self._ring_changed.set()

    async def _send_rings_forever(self, key_ring: RunningKeyRing) -> None:
        """Send each new ring to peers of older releases. If a key was removed, close the incoming edges, so that
        their peers connect again with a valid key.

        Outgoing edges stay open: their leaders close them. The caller notices the end of an edge after this node, so
        its next beat proves that it lives.
        """
        known = key_ring.ring.keys.keys()
        while True:
            await self._ring_changed.wait()
            self._ring_changed = trio.Event()
            ring, receivers, incoming = key_ring.ring, tuple(self._ring_receivers), tuple(self._edges.values())
            async with trio.open_nursery() as nursery:
                for stream in receivers:
                    nursery.start_soon(self._send_ring, stream, ring)
            if known - ring.keys.keys():
                await trio.sleep(SPREAD_S)
                for scope in incoming:
                    scope.cancel()
            known = ring.keys.keys()

    async def _send_ring(self, sender: Sender, ring: Keyring) -> None:
        await sender.send(text_of(ring).encode())

    # -- outgoing streams ---------------------------------------------------------------------------------

    async def hold_edge(self, leader: str) -> bool:
        """Hold a stream to `leader` until it closes; False: it could not be opened."""
        async with self._connected(leader, OPENING_S_MAX) as stream:
            if stream is None:
                return False
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_all(frame(_encoder.encode(Opening("edge", carries=self._carrier is not None))))
                await self._hold(leader, stream, Frames(stream), carries=None)
        return True

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:
        """Ask another node for one document. Addresses may come from peers: those outside the network are refused."""
        if not self._is_ours(address):
            return AskFailure("is not an address of the network")
        with trio.move_on_after(timeout_s):
            async with self._connected(address, timeout_s) as stream:
                if stream is None:
                    return AskFailure("does not answer")
                try:
                    opening = Opening("ask", question.topic, question.words, question.budget_s)
                    await stream.send_all(frame(_encoder.encode(opening)))
                    answer = await Frames(stream).next(ANSWER_BYTES_MAX)
                except trio.BrokenResourceError:
                    answer = None
            return understood(question, answer)
        return AskFailure(f"does not answer within {timeout_s:g} s")

    @asynccontextmanager
    async def _connected(self, address: str, timeout_s: float) -> AsyncIterator[Stream | None]:
        """A connected and authenticated stream; None: not possible. Tries one key after the other."""
        for name in await self._names(address):
            raw = await self._connect(address, timeout_s)
            if raw is None:
                break
            async with raw:
                try:
                    stream = raw if self._tls is None else await self._tls.as_client(raw, address, name)
                except TlsError as error:
                    self._note_refusal(address, error)
                    if str(error) == TOO_SLOW:  # with other keys as well
                        break
                    continue
                yield stream
                return
        yield None

    async def _names(self, address: str) -> list[str]:
        """The names of the keys to try with `address`; none: this node has no certificates now, which is counted."""
        try:
            return [""] if self._tls is None else await self._tls.names()
        except TlsError as error:
            self._note_refusal(address, error)
            return []

    def _note_refusal(self, address: str, error: TlsError) -> None:
        self._counters.dropped[str(error)] += 1
        if not error.has_hung_up:
            self._counters.problems.note("stream", str(error), address)
        self._warn(address, str(error))

    async def _connect(self, address: str, timeout_s: float) -> trio.SocketStream | None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            sock = trio.socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # no file descriptor left
            return None
        try:
            self._set_timeouts(sock)
            # From the node's own address: peers identify nodes by address.
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

    def _set_timeouts(self, sock: trio.socket.SocketType) -> None:
        """End a stream with unacknowledged data after the user timeout (RFC 5482), not the system's 15 minutes.

        Raises OSError.
        """
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._user_timeout_s * 1000))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        # The stream ends at the second unanswered keepalive, because the user timeout has passed by then (tcp(7)).
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, int(self._user_timeout_s) + 1)


def streams_allowed() -> int:
    """Raise the limit of open files as far as STREAMS_MAX needs it, and return the number of streams it permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = STREAMS_MAX + FILES_SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return STREAMS_MAX if soft == resource.RLIM_INFINITY else max(1, min(STREAMS_MAX, soft - FILES_SPARE))


async def _read_opening(frames: Frames) -> Opening | None:
    try:
        content = await frames.next(QUESTION_BYTES_MAX)
        return None if content is None else _opening_decoder.decode(content)
    except (trio.BrokenResourceError, *UNREADABLE):
        return None
