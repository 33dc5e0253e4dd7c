"""TCP between nodes: the line that is cut when a process dies, and answers too long for a datagram.

Intuition: two children with tin cans and a string. They need not talk: when one lets go, the other feels
it. A subordinate holds such a string to its leader; the kernel lets go of it when the process dies, so a crash
is known at once and costs next to nothing while all is well. Of two strings from the same child the newer counts.

The first frame says what the stream is for: `edge` holds it open, `ask` wants one document and ends. Where there is a
key, TLS comes before the first frame (security/tls.py), and on edges both sides tell each other their key ring: at
first, and whenever it changes.
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

from subord.core.pacing.token_bucket import TokenBucket
from subord.runtime.counters import Counters
from subord.runtime.net.answer_places import PLACE_S_MAX, Places
from subord.runtime.net.frames import READ_BYTES, Frames, Stream, frame
from subord.runtime.net.peer_query import AskFailure, Budget, Question, Words, is_topic, understood, unknown_topic
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.tls import TOO_SLOW, Tls, TlsError
from subord.sealing.keys import Keyring, KeyringError, text_of
from subord.wire.codec import UNREADABLE

logger = logging.getLogger("subord")

COMPLAINT_S = 30.0
QUESTION_BYTES_MAX = 256
RING_BYTES_MAX = 4096
ANSWER_BYTES_MAX = 8 << 20  # a roster of 47,000 nodes, of 38,000 where they measure
STREAMS_MAX = 2200  # of the largest leader: 1024 home, 1024 guest, and some questions
STRANGERS_MAX = 256  # connections that have not said what they are for: more only of those who have shown the key
STRANGERS_LEAST = 8  # where files are few half of the streams, but not fewer
STRANGERS_OF_ONE_MAX = 32  # of one address
GREETINGS_PER_S = 100.0  # handshakes with those whose datagrams have not shown the key: 1 ms of processor time each
FILES_SPARE = 100  # file descriptors for everything else
OPENING_S_MAX = 3.0
TELL_S_MAX = 3.0
KEEPALIVE_S = 120  # an edge carries nothing, so without this a host that vanished would stay connected for ever


class Opening(msgspec.Struct, frozen=True):
    """First frame of every stream. Newer daemons may add fields, and ask for topics that we do not know."""

    purpose: Literal["edge", "ask"]
    topic: Annotated[str, msgspec.Meta(max_length=32)] | None = None
    words: Words = ()
    budget_s: Budget = 0.0


_vacancies = msgspec.msgpack.Decoder(Opening)
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
        keeping: RunningKeyRing | None = None,
        tls: Tls | None = None,
        is_known: Callable[[str], bool] = lambda _: False,
        leader_address: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`is_ours` says which addresses may speak to us; `edge_closed` hears of the end of edges held to us.

        `keeping` and `tls` are both given or both None: then everything is in the clear. `is_known` says whose
        datagrams have shown the key.
        """
        self._address = address
        self._port = port
        self._user_timeout_s = user_timeout_s
        self._counters = counters
        self._answer = answer
        self._is_ours = is_ours
        self._edge_closed = edge_closed
        self._streams_max = streams_max
        self._strangers_max = min(STRANGERS_MAX, max(STRANGERS_LEAST, streams_max // 2))
        self._keeping = keeping
        self._tls = tls
        self._is_known = is_known
        self._greetings = TokenBucket(GREETINGS_PER_S, trio.current_time())
        self._complained_at = -inf
        self._open = 0
        self._strangers: Counter[str] = Counter()
        self._edges: dict[str, trio.CancelScope] = {}  # the last one of each address
        self._told: set[Stream] = set()  # edges, up and down, whose other end wants to hear of new rings
        self._news = trio.Event()
        self._places = Places(leader_address)
        if keeping is not None:
            keeping.taken.append(self._on_ring)

    # -- the side that is called ------------------------------------------------------------------------

    async def serve(self, listening: socket.socket) -> None:
        """Attend to streams until cancelled."""
        listening.setblocking(False)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        async with trio.open_nursery() as nursery:
            if self._keeping is not None:
                nursery.start_soon(self._tell_forever, self._keeping)
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

    async def _serve_one(self, raw: trio.SocketStream) -> None:
        try:
            peer: str = raw.socket.getpeername()[0]
            self._guard(raw.socket)
        except OSError:  # reset before we came to it
            self._counters.dropped["stream_malformed"] += 1
            return
        if not self._is_ours(peer):
            self._counters.dropped["stream_outside_network"] += 1
            return
        met = await self._meet(raw, peer)
        if met is None:
            return
        stream, frames, opening = met
        if opening.purpose == "edge":
            await self._hold_for(peer, stream, frames)
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

    async def _meet(self, raw: trio.SocketStream, peer: str) -> tuple[Stream, Frames, Opening] | None:
        """Until we know who it is, and what it wants; None: it did not say, and that is counted."""
        if not self._may_greet(peer):
            self._counters.dropped["stream_strangers"] += 1
            return None
        self._strangers[peer] += 1
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
            if not error.has_hung_up:  # else the other side knows better
                self._counters.lately.note("stream", reason, peer)
            self._complain(peer, reason)
        finally:
            self._strangers[peer] -= 1
            if not self._strangers[peer]:
                del self._strangers[peer]
        self._counters.dropped[reason] += 1
        return None

    def _complain(self, peer: str, reason: str) -> None:
        """One line in COMPLAINT_S: whose papers have expired, or who goes by another key."""
        if trio.current_time() - self._complained_at >= COMPLAINT_S:
            self._complained_at = trio.current_time()
            words = "no TLS with %(peer)s: %(reason)s (subord_input_dropped_total counts them)"
            logger.warning(words, {"peer": peer, "reason": reason})

    def _may_greet(self, peer: str) -> bool:
        """A crowd of those who have not shown the key keeps nobody out who has: a thousand may come back at once."""
        if self._strangers[peer] >= STRANGERS_OF_ONE_MAX:
            return False
        if self._is_known(peer):
            return True
        few = self._strangers.total() < self._strangers_max
        return few and (self._tls is None or self._greetings.admit(trio.current_time()))

    async def _hold_for(self, peer: str, stream: Stream, frames: Frames) -> None:
        """Report the end of an edge, unless a newer one took its place: then its end means nothing."""
        if peer in self._edges:
            self._edges[peer].cancel()
        with trio.CancelScope() as scope:
            self._edges[peer] = scope
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._hold(stream, frames)
        if self._edges.get(peer) is scope:
            del self._edges[peer]
            self._edge_closed(peer)

    # -- both sides of an edge ----------------------------------------------------------------------------

    async def _hold(self, stream: Stream, frames: Frames) -> None:
        """Until the other side closes."""
        if self._keeping is None:
            while await stream.receive_some(READ_BYTES):
                pass  # in the clear nothing is said on edges
            return
        try:
            await self._talk(stream, frames, self._keeping)
        finally:
            self._told.discard(stream)

    async def _talk(self, stream: Stream, frames: Frames, keeping: RunningKeyRing) -> None:
        """Until the other side closes, or says what is no key ring."""
        told = None
        while told is not keeping.ring:  # it may change while we tell it
            told = keeping.ring
            await self._tell(stream, told)
        self._told.add(stream)
        while (said := await frames.next(RING_BYTES_MAX)) is not None:
            try:
                keeping.offer(said.decode("ascii"))
            except (KeyringError, UnicodeDecodeError):
                self._counters.dropped["key_ring_malformed"] += 1
                return

    def _on_ring(self, _: Keyring) -> None:
        self._news.set()

    async def _tell_forever(self, keeping: RunningKeyRing) -> None:
        """A new ring goes to all at the other end of an edge; who came in by a key that is gone knocks again.

        Only those who called us are hung up on: they notice after we do, so their next beat tells us that they live.
        """
        known = keeping.ring.keys.keys()
        while True:
            await self._news.wait()
            self._news = trio.Event()
            ring, told, callers = keeping.ring, tuple(self._told), tuple(self._edges.values())
            async with trio.open_nursery() as nursery:
                for stream in told:
                    nursery.start_soon(self._tell, stream, ring)
            if known - ring.keys.keys():
                for scope in callers:
                    scope.cancel()
            known = ring.keys.keys()

    async def _tell(self, stream: Stream, ring: Keyring) -> None:
        """Who does not take it in time is left: half a sentence cannot be gone on with."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            with trio.move_on_after(TELL_S_MAX):
                await stream.send_all(frame(text_of(ring).encode()))
                return
        await trio.aclose_forcefully(stream)

    # -- the side that calls ------------------------------------------------------------------------------

    async def hold_edge(self, leader: str) -> bool:
        """Hold a stream to `leader` until it closes; False when it could not be opened."""
        async with self._calling(leader, OPENING_S_MAX) as stream:
            if stream is None:
                return False
            # The other side went away: that is the news.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_all(frame(_encoder.encode(Opening("edge"))))
                await self._hold(stream, Frames(stream))
        return True

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:
        """One document of another node. Addresses come from peers: none outside the network is spoken to."""
        if not self._is_ours(address):
            return AskFailure("is no address of our network")
        with trio.move_on_after(timeout_s):
            async with self._calling(address, timeout_s) as stream:
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
    async def _calling(self, address: str, timeout_s: float) -> AsyncIterator[Stream | None]:
        """Connected, and known to be who it should be; None: not."""
        names = [""] if self._tls is None else self._tls.names
        for name in names:  # by another of our keys, when it does not have the first
            raw = await self._connect(address, timeout_s)
            if raw is None:
                break
            async with raw:
                try:
                    stream = raw if self._tls is None else await self._tls.as_client(raw, address, name)
                except TlsError as error:
                    self._counters.dropped[str(error)] += 1
                    if not error.has_hung_up:
                        self._counters.lately.note("stream", str(error), address)
                    self._complain(address, str(error))
                    if str(error) == TOO_SLOW:  # it would be with every key
                        break
                    continue
                yield stream
                return
        yield None

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


async def _read_opening(frames: Frames) -> Opening | None:
    try:
        said = await frames.next(QUESTION_BYTES_MAX)
        return None if said is None else _vacancies.decode(said)
    except (trio.BrokenResourceError, *UNREADABLE):
        return None
