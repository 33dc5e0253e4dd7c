"""TCP streams between nodes: edges, whose end reveals the end of a process, and answers too long for a datagram.

A subordinate holds a stream to its leader. The kernel closes it when either process dies, so the other side learns of
a crash at once. Of two edges from one address the newer counts.

The first frame states the purpose: `edge` stays open, `ask` is answered by one document. With a key, TLS precedes the
first frame (security/tls.py). edge_ends.py has what an edge carries. The number of streams is bounded, and
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

import msgspec
import trio

from subord.core.decoding import UNREADABLE
from subord.core.pacing.token_bucket import TokenBucket
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, Stream, frame
from subord.runtime.net.answer_places import PLACE_S_MAX, Places
from subord.runtime.net.carrier import Carrier
from subord.runtime.net.edge_ends import EdgeEnds, Opening
from subord.runtime.net.listening import Listener
from subord.runtime.net.peer_query import AskFailure, Question, is_topic, understood, unknown_topic
from subord.runtime.orders.driver import OrderDriver
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.tls import TOO_SLOW, Tls, TlsError

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
ORDERS = "orders"
"""The topic of a stream for orders (runtime/orders)."""
OPENING_S_MAX = 3.0
KEEPALIVE_S = 120  # an edge carries no data, so without keepalive the end of a vanished host would go unnoticed


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
        orders: OrderDriver | None = None,
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
        self._tls = tls
        self._orders = orders
        self._ends = EdgeEnds(counters, key_ring, carrier, orders)
        if orders is not None:
            orders.called = self.called
        self._is_known = is_known
        self._handshakes = TokenBucket(HANDSHAKES_PER_S, trio.current_time())
        self._warned_at = -inf
        self._open = 0
        self._pending: Counter[str] = Counter()
        self._edges: dict[str, trio.CancelScope] = {}  # the newest of each address
        self._places = Places(leader_address)

    # -- incoming streams -------------------------------------------------------------------------------

    async def serve(self, listening: socket.socket) -> None:
        """Serve incoming streams until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ends.send_rings_forever, self._edges)
            await trio.serve_listeners(self._serve_counted, [Listener(listening)])

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
            await self._hold_for(peer, stream, frames, opening)
        elif opening.topic == ORDERS and self._orders is not None:
            await self._orders.hold_call(peer, stream, frames)
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

    async def _hold_for(self, peer: str, stream: Stream, frames: Frames, opening: Opening) -> None:
        """Hold an incoming edge and report its end, unless a newer edge of the same address replaced it."""
        if peer in self._edges:
            self._edges[peer].cancel()
        with trio.CancelScope() as scope:
            self._edges[peer] = scope
            await self._ends.hold(peer, stream, frames, opening)
        if self._edges.get(peer) is scope:
            del self._edges[peer]
            self._edge_closed(peer)

    # -- outgoing streams ---------------------------------------------------------------------------------

    async def hold_edge(self, leader: str) -> bool:
        """Hold a stream to `leader` until it closes; False: it could not be opened."""
        async with self._connected(leader, OPENING_S_MAX) as stream:
            if stream is None:
                return False
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_all(frame(_encoder.encode(self._ends.opening)))
                await self._ends.hold(leader, stream, Frames(stream), None)
        return True

    @asynccontextmanager
    async def called(self, address: str) -> AsyncIterator[Stream | None]:
        """A stream of its own for orders; None: not possible. A release without orders answers `UnknownTopic`."""
        async with self._connected(address, OPENING_S_MAX) as stream:
            if stream is not None:
                await stream.send_all(frame(_encoder.encode(Opening("ask", ORDERS))))
            yield stream

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
