"""Streams with TLS: peers without the key are refused, and key rings travel along edges."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest
import trio
from conditions import WAIT_S_MAX, until
from fake_operators import CLUSTER, FakeVerifier, signed
from ports import free_port

from subord.core.address.network import Network
from subord.core.carriage.documents import Document
from subord.core.carriage.orders import Verdict
from subord.core.node import Node as Core
from subord.core.settings import Settings
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, frame
from subord.runtime.net import edge_ends
from subord.runtime.net import streams as module
from subord.runtime.net.carrier import Carrier
from subord.runtime.net.peer_query import AskFailure, Question
from subord.runtime.net.streams import Opening, Streams
from subord.runtime.security import tls
from subord.runtime.security.gate import Gate
from subord.runtime.security.identity import Identity
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.peer_identity import PeerIdentities
from subord.runtime.security.tls import Tls, certificates_of
from subord.runtime.state.memory import Memory
from subord.runtime.state.tracker import Tracker
from subord.sealing.identity import Ed25519Signer
from subord.sealing.keys import Key, Keyring, key_of, keyring_of, text_of
from subord.sealing.rotation import install, remove, ring_order, use

SETTINGS = Settings(network=Network.parse("127.0.0.0/24"))
STATUS = Question("status")
ONE, TWO, THREE = (key_of(bytes([number]) * 32) for number in (1, 2, 3))
A, B, C, ELSEWHERE = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.77"
NO_ANSWER = AskFailure("does not answer")
EDGE = frame(msgspec.msgpack.encode(Opening("edge")))


def ring(*keys: Key, revision: int = 0) -> Keyring:
    return keyring_of(keys[0], keys[1:], revision)


class Node:
    """One node with streams. `given` None: no key."""

    def __init__(
        self, address: str, port: int, given: Keyring | None, top: Path, certified: str, *, is_old: bool = False
    ) -> None:
        self.address = address
        self.port = port
        self.counters = Counters()
        self.closed: list[str] = []
        self.key_ring = self.tls = None
        if given is not None:
            file = top / address
            file.touch(mode=0o600)
            file.write_text(text_of(given))
            self.key_ring = key_ring = RunningKeyRing(str(file), "")
            self.tls = tls = Tls(lambda: certificates_of(key_ring.ring, certified))
            key_ring.taken.append(lambda _: tls.renew())
        memory = Memory("", SETTINGS)
        gate = Gate(FakeVerifier(), CLUSTER, memory.membership.revocations, self.counters)
        self.tracker = Tracker(Core(SETTINGS, 1, 1, Random(1), 0.0), memory, gate.judge)
        if self.key_ring is not None:
            self.tracker.on_documents.append(self.key_ring.follow)
        self.carrier = None if is_old else Carrier(self.tracker)
        self.streams = Streams(
            address,
            port,
            user_timeout_s=4.0,
            counters=self.counters,
            answer=self.answer,
            is_ours=lambda _: True,
            edge_closed=self.closed.append,
            key_ring=self.key_ring,
            tls=self.tls,
            carrier=self.carrier,
        )

    async def answer(self, question: Question) -> bytes:
        await trio.lowlevel.checkpoint()
        return f"{question.topic} of {self.address}".encode()

    async def ask(self, other: Node) -> bytes | AskFailure:
        with trio.fail_after(WAIT_S_MAX):
            return await self.streams.ask(other.address, STATUS, WAIT_S_MAX)

    @property
    def ring(self) -> Keyring:
        assert self.key_ring is not None
        return self.key_ring.ring

    def take(self, fresh: Keyring) -> None:
        """An operator has signed it."""
        document = signed(ring_order(fresh, self.tracker.wall_ms))
        self.tracker.take([(document, Verdict("", "ann", ""))])

    @property
    def carries(self) -> bool:
        """Whether an edge of the carrier is open."""
        return self.carrier is not None and bool(self.carrier._wakes)

    @property
    def dropped(self) -> dict[str, int]:
        return dict(+self.counters.dropped)


class Cluster:
    """Nodes on one port."""

    def __init__(self, stack: AsyncExitStack, nursery: trio.Nursery, top: Path) -> None:
        self.port = free_port(socket.SOCK_STREAM, A, B, C)
        self._stack = stack
        self._nursery = nursery
        self._top = top

    def open(self, address: str, given: Keyring | None, *, certified: str = "", is_old: bool = False) -> Node:
        node = Node(address, self.port, given, self._top, certified or address, is_old=is_old)
        self._nursery.start_soon(node.streams.serve, self.listener(address))
        return node

    def listener(self, address: str) -> socket.socket:
        """A listening socket that accepts only if the test does."""
        listening = self._stack.enter_context(socket.create_server((address, self.port)))
        listening.setblocking(False)
        return listening

    def hold(self, subordinate: Node, leader: Node) -> list[bool]:
        """An edge; its result is added to the list."""
        ended: list[bool] = []

        async def hold() -> None:
            ended.append(await subordinate.streams.hold_edge(leader.address))

        self._nursery.start_soon(hold)
        return ended

    async def edge(self, subordinate: Node, leader: Node) -> list[bool]:
        """An open edge that carries."""
        ended = self.hold(subordinate, leader)
        await until(lambda: subordinate.address in leader.streams._edges, "the edge is held")
        await until(lambda: leader.carries and subordinate.carries, "both carry")
        return ended


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        yield Cluster(stack, nursery, tmp_path)
        nursery.cancel_scope.cancel()


@contextmanager
def connected(node: Node, sources: Iterable[str]) -> Iterator[list[socket.socket]]:
    """Connections that send nothing."""
    callers = [socket.create_connection((node.address, node.port), WAIT_S_MAX, (each, 0)) for each in sources]
    try:
        yield callers
    finally:
        for each in callers:
            each.close()


@asynccontextmanager
async def known(node: Node, source: str, given: Keyring) -> AsyncIterator[tls.Secure]:
    """A stream to `node` from a peer with a key, for arbitrary data."""
    with connected(node, [source]) as (sock,):
        sock.setblocking(False)
        raw = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        yield await Tls(lambda: certificates_of(given, source)).as_client(raw, node.address, given.primary.name)


# -- questions ------------------------------------------------------------------------------------------------------


async def test_a_question_and_its_answer(cluster: Cluster) -> None:
    a, b = cluster.open(A, ring(ONE)), cluster.open(B, ring(ONE))
    for _ in range(3):
        assert await b.ask(a) == b"status of 127.0.0.1"
        assert await a.ask(b) == b"status of 127.0.0.2"
    assert (a.dropped, b.dropped) == ({}, {})


async def test_nothing_is_sent_before_the_peer_is_authenticated(cluster: Cluster) -> None:
    listening = cluster.listener(A)
    b = cluster.open(B, ring(ONE))
    heard = b""

    async def record() -> None:
        nonlocal heard
        await trio.lowlevel.wait_readable(listening)
        sock, _ = listening.accept()
        with sock:
            sock.setblocking(False)
            await trio.lowlevel.wait_readable(sock)
            heard = sock.recv(65536)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(record)
        assert await b.streams.ask(A, STATUS, WAIT_S_MAX) == NO_ANSWER
    assert heard[:2] == b"\x16\x03", "the TLS greeting"
    assert b"status" not in heard
    assert b.dropped.keys() <= {"tls_refused", "tls_broken"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ring(ONE), ring(TWO, ONE)),
        (ring(ONE, TWO), ring(TWO)),
        (ring(ONE, TWO), ring(TWO, ONE)),
        (ring(ONE, THREE), ring(TWO, THREE)),
    ],
)
async def test_a_common_key_is_enough_for_streams(cluster: Cluster, ours: Keyring, theirs: Keyring) -> None:
    a, b = cluster.open(A, ours), cluster.open(B, theirs)
    assert await b.ask(a) == b"status of 127.0.0.1"
    assert await a.ask(b) == b"status of 127.0.0.2"


async def test_a_peer_with_another_key_is_refused_and_counted(cluster: Cluster) -> None:
    a, b = cluster.open(A, ring(ONE)), cluster.open(B, ring(TWO, THREE))
    assert await b.ask(a) == NO_ANSWER
    assert not await b.streams.hold_edge(A)
    await until(lambda: a.dropped == b.dropped == {"tls_refused": 4}, "both have counted it")
    assert a.closed == []
    told = [each for node in (a, b) for each in node.counters.problems.shown()]
    assert {(each.kind, each.text) for each in told} == {("stream", "tls_refused")}


async def test_a_handshake_broken_off_is_counted_and_no_problem(cluster: Cluster) -> None:
    """A node that was stopped for a while finds connections of peers that gave it up."""
    a = cluster.open(A, ring(ONE))
    cluster.open(B, ring(ONE))
    caller = socket.create_connection((A, a.port), WAIT_S_MAX, (B, 0))
    caller.sendall(b"\x16\x03")
    caller.close()
    await until(lambda: sum(a.dropped.values()) == 1, "it is counted")
    assert list(a.counters.problems.shown()) == []


async def test_a_plain_caller_is_refused_and_counted(cluster: Cluster) -> None:
    a, plain = cluster.open(A, ring(ONE)), cluster.open(B, None)
    assert isinstance(await plain.ask(a), AskFailure)
    await until(lambda: a.dropped == {"tls_refused": 1}, "it is counted")


async def test_a_plain_server_is_refused(cluster: Cluster) -> None:
    plain, b = cluster.open(A, None), cluster.open(B, ring(ONE))
    assert await b.ask(plain) == NO_ANSWER
    assert not await b.streams.hold_edge(A)
    await until(lambda: plain.dropped == {"stream_malformed": 2}, "it is counted")
    assert b.counters.dropped.total() == 2


async def test_a_peer_certified_for_another_address_is_refused(cluster: Cluster) -> None:
    a, b = cluster.open(A, ring(ONE)), cluster.open(B, ring(ONE), certified=ELSEWHERE)
    assert isinstance(await b.ask(a), AskFailure)
    await until(lambda: a.dropped == {"tls_wrong_address": 1}, "it is counted")
    assert await a.ask(b) == NO_ANSWER
    await until(lambda: a.dropped == {"tls_wrong_address": 2}, "it is counted, too")


# -- silent connections ---------------------------------------------------------------------------------------------


async def test_silent_connections_of_one_address_do_not_block_others(cluster: Cluster) -> None:
    a, c = cluster.open(A, ring(ONE)), cluster.open(C, ring(ONE))
    with connected(a, [B] * 2 * module.PENDING_OF_ONE_MAX):
        await until(lambda: a.dropped == {"stream_strangers": module.PENDING_OF_ONE_MAX}, "the others are refused")
        assert await c.ask(a) == b"status of 127.0.0.1"
    await until(lambda: a.streams._open == 0, "all went away")
    assert not a.streams._pending


async def test_silent_connections_of_many_addresses_are_bounded_and_closed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PENDING_MAX", 8)
    monkeypatch.setattr(module, "OPENING_S_MAX", 0.5)
    a, c = cluster.open(A, ring(ONE)), cluster.open(C, ring(ONE))
    with connected(a, [f"127.0.1.{number}" for number in range(1, 11)]):
        await until(lambda: a.dropped.get("stream_strangers") == 2, "two are refused")
        await until(lambda: a.streams._open == 0, "the others are sent away")
        assert a.counters.dropped.total() == 10
        assert await c.ask(a) == b"status of 127.0.0.1"


async def test_unknown_callers_do_not_block_a_peer_that_has_shown_the_key(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PENDING_MAX", 8)
    monkeypatch.setattr(module, "OPENING_S_MAX", 10 * WAIT_S_MAX)
    a, b, c = cluster.open(A, ring(ONE)), cluster.open(B, ring(ONE)), cluster.open(C, ring(ONE))
    monkeypatch.setattr(a.streams, "_is_known", lambda address: address == C)
    with connected(a, [f"127.0.1.{number}" for number in range(1, 9)]):
        await until(lambda: a.streams._pending.total() == 8, "all wait")
        assert await b.ask(a) == NO_ANSWER
        assert await c.ask(a) == b"status of 127.0.0.1"
    assert a.dropped["stream_strangers"] == 1


async def test_a_silent_server_is_given_up(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_S_MAX", 0.2)
    cluster.listener(A)
    b = cluster.open(B, ring(ONE))
    with trio.fail_after(WAIT_S_MAX):
        assert not await b.streams.hold_edge(A)
    assert b.dropped == {"tls_too_slow": 1}


# -- key rings along edges ------------------------------------------------------------------------------------------


async def test_a_signed_ring_goes_up_and_down(cluster: Cluster) -> None:
    a, b, c = (cluster.open(address, ring(ONE)) for address in (A, B, C))
    ends = [*await cluster.edge(b, a), *await cluster.edge(c, b)]
    a.take(install(a.ring, TWO))
    await until(lambda: c.ring == a.ring, "it went down")
    c.take(use(c.ring, TWO.name))
    await until(lambda: a.ring == c.ring == b.ring, "it went up")
    assert a.ring.primary == TWO
    assert ends == []
    assert await c.ask(a) == b"status of 127.0.0.1"
    assert not a.streams._ends._ring_receivers, "no text to peers that carry"


async def test_a_peer_that_comes_later_gets_the_signed_ring(cluster: Cluster) -> None:
    a, b = cluster.open(A, ring(ONE)), cluster.open(B, ring(ONE))
    a.take(install(a.ring, TWO))
    await cluster.edge(b, a)
    await until(lambda: b.ring == a.ring, "it has the newer one")
    assert await b.ask(a) == b"status of 127.0.0.1"
    assert a.dropped == {}, "no text between peers that carry"


async def test_a_ring_without_a_signature_is_not_taken(cluster: Cluster) -> None:
    """A member that has the key sends a ring of its own: in 0.2.0 all nodes took it."""
    a, b = cluster.open(A, ring(ONE)), cluster.open(B, ring(ONE))
    await cluster.edge(b, a)
    for document in (
        Document(*ring_order(ring(THREE, revision=1 << 31), a.tracker.wall_ms), b"ann:x"),
        signed(ring_order(ring(THREE, revision=9), a.tracker.wall_ms), "mia"),
    ):
        b.tracker.take([(document, Verdict("", "ann", ""))])  # as if it had no gate
    await until(lambda: a.counters.orders_refused.total() > 0, "refused")
    assert a.ring == ring(ONE)
    assert not a.tracker.membership.documents.by_name


async def test_a_peer_with_a_removed_key_connects_again(cluster: Cluster) -> None:
    a, b = cluster.open(A, ring(TWO, ONE)), cluster.open(B, ring(TWO, ONE))
    ended = await cluster.edge(b, a)
    a.take(remove(a.ring, ONE.name))
    await until(lambda: ended == [True], "the edge has ended")
    await until(lambda: a.closed == [B], "and that is reported")
    assert b.ring == ring(TWO, revision=1)
    assert await cluster.edge(b, a) == []
    assert (a.dropped, b.dropped) == ({}, {})


async def test_peers_of_older_releases_get_rings_as_text(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_ends, "DOCUMENTS_S_MAX", 0.1)
    a, b, old = cluster.open(A, ring(ONE)), cluster.open(B, ring(ONE)), cluster.open(C, ring(ONE), is_old=True)
    cluster.hold(b, old)
    cluster.hold(old, a)
    await until(lambda: a.streams._ends._ring_receivers and b.streams._ends._ring_receivers, "up and down")
    b.take(install(b.ring, TWO))
    await until(lambda: old.dropped == {"ring_unsigned": 1}, "the older one has it, and would take it")
    assert (a.dropped, b.dropped) == ({}, {})


async def test_the_ring_of_an_older_release_is_counted_and_not_taken(cluster: Cluster) -> None:
    a = cluster.open(A, ring(ONE))
    async with known(a, B, ring(ONE)) as stream:
        await stream.send_all(EDGE + frame(text_of(ring(ONE)).encode()))
        await stream.send_all(frame(text_of(ring(THREE, revision=7)).encode()))
        await until(lambda: a.dropped == {"ring_unsigned": 1}, "it is counted")
        assert a.closed == []
    assert a.ring == ring(ONE)


async def test_the_end_of_an_edge_is_reported(cluster: Cluster) -> None:
    a = cluster.open(A, ring(ONE))
    async with known(a, B, ring(ONE)) as stream:
        await stream.send_all(EDGE)
        await until(lambda: B in a.streams._edges, "the edge is held")
        assert await Frames(stream).next(edge_ends.FRAME_BYTES_MAX) == text_of(ring(ONE)).encode()
        assert a.closed == []
    await until(lambda: a.closed == [B], "its end is reported")
    assert a.dropped == {}


@pytest.mark.parametrize("said", [b"", b"\x7f\xff", b"hello", text_of(ring(ONE)).encode()[:-20], b"primary x"])
async def test_a_malformed_ring_ends_the_edge_and_is_counted(cluster: Cluster, said: bytes) -> None:
    a = cluster.open(A, ring(ONE))
    async with known(a, B, ring(ONE)) as stream:
        await stream.send_all(EDGE + frame(said))
        await until(lambda: a.closed == [B], "the edge has ended")
        await until(lambda: a.dropped == {"key_ring_malformed": 1}, "it is counted")
    assert a.ring == ring(ONE)


async def test_a_frame_too_long_ends_the_edge(cluster: Cluster) -> None:
    a = cluster.open(A, ring(ONE))
    async with known(a, B, ring(ONE)) as stream:
        await stream.send_all(EDGE + frame(bytes(edge_ends.FRAME_BYTES_MAX + 1)))
        await until(lambda: a.closed == [B], "the edge has ended")
    assert a.ring == ring(ONE)


async def test_without_a_key_no_ring_is_sent(cluster: Cluster) -> None:
    a, b = cluster.open(A, None), cluster.open(B, None, is_old=True)
    ended = cluster.hold(b, a)
    await until(lambda: B in a.streams._edges, "the edge is held")
    assert ended == []
    assert not a.streams._ends._ring_receivers


# -- identities -----------------------------------------------------------------------------------------------------


def identify(node: Node, signer: Ed25519Signer, pins: dict[str, bytes]) -> PeerIdentities:
    """Give a node an identity; the keys that it remembers by address."""
    assert node.key_ring is not None
    ours, ring_of_ours, peers = Identity(signer, "", node.address, 0.0), node.key_ring, PeerIdentities()
    peers.pinned = lambda address: pins.get(address, b"")
    node.tls = Tls(lambda: certificates_of(ring_of_ours.ring, node.address, ours), judge=peers.judge)
    node.streams._tls = node.tls
    return peers


async def test_a_machine_that_takes_over_an_address_is_refused_and_named(cluster: Cluster) -> None:
    """It has the key of the cluster, as a compromised node has."""
    a, b, c = (cluster.open(address, ring(ONE)) for address in (A, B, C))
    keys = {node.address: Ed25519Signer(node.address.encode().ljust(32)) for node in (a, b, c)}
    pins = {address: signer.key for address, signer in keys.items()}
    known = identify(a, keys[A], pins)
    identify(b, keys[B], pins)
    identify(c, keys[A], {})  # neither its own key, nor that of A, which it cannot use at its own address
    assert await b.ask(a) == b"status of 127.0.0.1"
    assert known.key_of(B) == keys[B].key
    assert (a.dropped, b.dropped) == ({}, {})
    assert await a.ask(c) == NO_ANSWER
    assert isinstance(await c.ask(a), AskFailure)
    assert not await a.streams.hold_edge(C)
    await until(lambda: a.dropped == {"tls_foreign_key": 3}, "each is counted")
    assert {(each.kind, each.text, each.address) for each in a.counters.problems.shown()} == {
        ("stream", "tls_foreign_key", C)
    }
    assert C not in a.streams._edges


async def test_an_older_release_is_refused_where_an_identity_is_known(cluster: Cluster) -> None:
    a, b = cluster.open(A, ring(ONE)), cluster.open(B, ring(ONE))
    pins: dict[str, bytes] = {}
    identify(a, Ed25519Signer(bytes(32)), pins)
    assert await b.ask(a) == b"status of 127.0.0.1", "b is as of a release without identities"
    assert await a.ask(b) == b"status of 127.0.0.2"
    pins[B] = bytes(32)
    assert isinstance(await b.ask(a), AskFailure)
    assert await a.ask(b) == NO_ANSWER
    await until(lambda: a.dropped == {"tls_no_identity": 2}, "each is counted")
