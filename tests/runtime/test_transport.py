"""The transport on real sockets: valid datagrams arrive, invalid ones are counted by reason."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from conditions import WAIT_S_MAX, until
from ports import free_port

from subord.core.messages import Message, Stranger
from subord.runtime.counters import Counters
from subord.runtime.net import duplicates, multicast
from subord.runtime.net import transport as module
from subord.runtime.net.interfaces import Chosen
from subord.runtime.net.multicast import GROUP_V4, Group
from subord.runtime.net.transport import Transport
from subord.runtime.net.udp import Datagram, UdpSocket
from subord.sealing import sealer as sealing
from subord.sealing.header import NO_TICKET, OVERHEAD_BYTES, SEALED_BYTES_MAX, TICKET_BYTES, What
from subord.sealing.keys import Keyring, key_of, keyring_of
from subord.sealing.sealer import Broken, Sealer
from subord.wire.codec import MAGIC, Fault, decode, encode

ONE, TWO = (key_of(bytes([number]) * 32) for number in (1, 2))
RING = keyring_of(ONE)
A, B, STRANGER = "127.0.0.1", "127.0.0.2", "127.0.0.3"
BOOT = 1000


def message_of(number: int) -> Message:
    return Stranger(1 << 60, number)


class Peer:
    """A socket with its transport, and the messages that it received."""

    def __init__(self, sock: UdpSocket, address: str, port: int, group: Group | None) -> None:
        self.end = address, port
        self.sock = sock
        self.group = group
        self.received: list[Message | Fault] = []

    def restart(self, ring: Keyring | None = RING, boot: int = BOOT) -> Peer:
        """Start a new incarnation. `ring` None: nothing is sealed."""
        self.counters = Counters()
        self.sealer = None if ring is None else sealer_of(self.end, ring, boot)
        self.transport = Transport(self.sock, self.end[1], self.counters, self.sealer, self.group)
        return self

    def seal(self, message: Message, target: Peer) -> bytes:
        assert self.sealer is not None
        return self.sealer.seal(encode(message), target.end)

    async def receive_forever(self) -> None:
        while True:
            await self.sock.wait()
            self.open(self.sock.received(), by_multicast=False)

    async def receive_group_forever(self, group: Group) -> None:
        while True:
            await group.wait()
            self.open(group.received(), by_multicast=True)

    def open(self, datagrams: Iterable[Datagram], *, by_multicast: bool) -> None:
        for datagram in datagrams:
            content = self.transport.open(datagram, by_multicast=by_multicast)
            if content is not None:
                self.received.append(decode(content))

    @property
    def dropped(self) -> dict[str, int]:
        return dict(+self.counters.dropped)


def sealer_of(end: tuple[str, int], ring: Keyring, boot: int) -> Sealer:
    return Sealer(ring, end, boot, bytes([boot % 256]) * 32, trio.current_time())


class Cluster:
    """Peers on one port."""

    def __init__(self, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        self.port = free_port(socket.SOCK_DGRAM, A, B, STRANGER)
        self._stack = stack
        self._nursery = nursery

    def socket(self, address: str) -> UdpSocket:
        sock = UdpSocket(address, self.port, Counters())
        self._stack.callback(sock.close)
        return sock

    def open(self, address: str, ring: Keyring | None = RING, *, to_all: bool = False) -> Peer:
        """`to_all`: a member of the multicast group."""
        sock = self.socket(address)
        group = multicast.join(sock, Chosen(interface="lo", address=address), self.port) if to_all else None
        peer = Peer(sock, address, self.port, group).restart(ring)
        self._nursery.start_soon(peer.receive_forever)
        if group is not None:
            self._stack.callback(group.close)
            self._nursery.start_soon(peer.receive_group_forever, group)
        return peer


@asynccontextmanager
async def new_cluster() -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        yield Cluster(stack, nursery)
        nursery.cancel_scope.cancel()


async def received(peer: Peer, *expected: Message) -> None:
    await until(lambda: len(peer.received) >= len(expected), f"{expected} arrive")
    assert peer.received == list(expected)


# -- what arrives ---------------------------------------------------------------------------------------------------


async def test_a_first_message_is_asked_for_again_and_arrives_once(warnings: list[str]) -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        a.transport.send(message_of(1), B)
        await received(b, message_of(1))
        assert b.dropped == {"first_contact": 1}
        assert a.dropped == {}
        assert b.counters.messages_sent == {"seal": 1}
        assert a.counters.messages_sent == {"stranger": 1, "seal": 1}
        assert warnings == []


async def test_two_first_messages_and_later_ones_arrive() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        a.transport.send(message_of(1), B)
        a.transport.send(message_of(2), B)
        await received(b, message_of(1), message_of(2))
        for number in range(3, 50):
            a.transport.send(message_of(number), B)
        await received(b, *map(message_of, range(1, 50)))
        b.transport.send(message_of(50), A)
        await received(a, message_of(50))
        assert set(b.dropped) == {"first_contact"}


async def test_simultaneous_first_messages_arrive_on_both_sides() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        a.transport.send(message_of(1), B)
        b.transport.send(message_of(2), A)
        await until(lambda: a.received and b.received, "both are received")
        assert (a.received, b.received) == ([message_of(2)], [message_of(1)])


async def test_a_restarted_peer_sends_and_receives() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        a.transport.send(message_of(1), B)
        await received(b, message_of(1))
        b.restart(boot=BOOT + 1)
        a.transport.send(message_of(2), B)
        await received(b, message_of(1), message_of(2))
        b.transport.send(message_of(3), A)
        await received(a, message_of(3))


async def test_a_message_with_a_ticket_reaches_a_restarted_peer_at_once() -> None:
    """Only a message with a ticket can be asked for again."""
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        a.transport.send(message_of(1), B)
        await received(b, message_of(1))
        b.transport.send(message_of(2), A)
        await received(a, message_of(2))
        b.restart(boot=BOOT + (1 << 22))
        a.transport.send(message_of(3), B)
        await received(b, message_of(1), message_of(3))


async def test_a_restart_with_the_clock_set_back_is_logged(warnings: list[str]) -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        b.transport.send(message_of(1), A)
        await received(a, message_of(1))
        b.restart(boot=BOOT - 1)
        b.transport.send(message_of(2), A)
        await received(a, message_of(1), message_of(2))
        assert f"{A} knows a later life of this node: took a higher number" in warnings
        assert b.sealer is not None
        assert b.sealer.boot > BOOT


async def test_an_answer_goes_to_the_port_of_the_question() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere:
            elsewhere.bind((STRANGER, 0))
            elsewhere.settimeout(WAIT_S_MAX)
            b.transport.send(message_of(1), *elsewhere.getsockname())
            assert len(await trio.to_thread.run_sync(elsewhere.recv, 4096)) > OVERHEAD_BYTES
        assert a.received == []


async def test_a_common_key_is_enough_for_datagrams() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A, keyring_of(ONE, [TWO])), cluster.open(B, keyring_of(TWO))
        for number in range(1, 5):
            a.transport.send(message_of(number), B)
            b.transport.send(message_of(number), A)
        await until(lambda: a.received and b.received, "both are received")


# -- multicast ------------------------------------------------------------------------------------------------------


async def test_a_multicast_is_sealed() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A, to_all=True), cluster.open(B, to_all=True)
        a.transport.publish(message_of(1))
        await received(b, message_of(1))
        assert a.received == [message_of(1)], "also the sender"
        other = cluster.open(STRANGER, keyring_of(TWO), to_all=True)
        a.transport.publish(message_of(2))
        await until(lambda: other.dropped == {"no_key": 1}, "a peer with another key drops it")


async def test_multicast_and_unicast_are_not_interchangeable() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A, to_all=True), cluster.open(B, to_all=True)
        assert a.sealer is not None
        a.sock.send(a.sealer.seal_for_all(encode(message_of(1)), (GROUP_V4, cluster.port))[0], *b.end)
        a.sock.send(a.seal(message_of(2), b), GROUP_V4, cluster.port)
        await until(lambda: b.dropped == {"bad_tag": 2}, "both are dropped")
        assert b.received == []


async def test_without_a_group_nothing_is_sent() -> None:
    async with new_cluster() as cluster:
        a = cluster.open(A)
        a.transport.publish(message_of(1))
        assert not a.counters.messages_sent


# -- dropped datagrams ----------------------------------------------------------------------------------------------


def sealed(stranger: Sealer, target: tuple[str, int]) -> bytes:
    """To a peer that does not know the sender."""
    return stranger.seal(encode(message_of(1)), target)


def flipped(data: bytes, index: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


def without_ticket(stranger: Sealer, target: tuple[str, int]) -> bytes:
    """Authentic, but the receiver cannot ask for a repetition."""
    return stranger._encrypt(What.MESSAGE, encode(message_of(1)), target, ONE, NO_TICKET, with_ticket=False)[0]


FORGERIES: list[tuple[str, Keyring, Callable[[Sealer, tuple[str, int]], bytes]]] = [
    ("too_short", RING, lambda _s, _t: b""),
    ("too_short", RING, lambda _s, _t: bytes((MAGIC,))),
    ("too_short", RING, lambda s, t: sealed(s, t)[: OVERHEAD_BYTES - 1]),
    ("oversized", RING, lambda _s, _t: bytes(SEALED_BYTES_MAX + 1)),
    ("oversized", RING, lambda _s, _t: bytes(60_000)),
    ("not_subord", RING, lambda _s, _t: b"GET / HTTP/1.1\r\n\r\n"),
    ("unsealed", RING, lambda _s, _t: encode(message_of(1))),
    ("unknown_version", RING, lambda s, t: sealed(s, t)[:1] + b"\x09" + sealed(s, t)[2:]),
    ("unknown_version", RING, lambda s, t: sealed(s, t)[:2] + b"\x09" + sealed(s, t)[3:]),
    ("no_key", keyring_of(TWO), sealed),
    ("bad_tag", RING, lambda s, t: flipped(sealed(s, t), -1 + len(sealed(s, t)))),
    ("bad_tag", RING, lambda s, t: flipped(sealed(s, t), OVERHEAD_BYTES - 1)),
    ("bad_tag", RING, lambda s, t: sealed(s, (t[0], t[1] + 1))),
    ("first_contact", RING, sealed),
    ("replay", RING, without_ticket),
]


@pytest.mark.parametrize(("reason", "ring", "forge"), FORGERIES)
async def test_dropped_datagrams_are_counted_by_reason(
    warnings: list[str],
    reason: str,
    ring: Keyring,
    forge: Callable[[Sealer, tuple[str, int]], bytes],
) -> None:
    async with new_cluster() as cluster:
        a = cluster.open(A)
        stranger = cluster.socket(STRANGER)
        for number in range(3):
            stranger.send(forge(sealer_of((STRANGER, cluster.port), ring, BOOT + number), a.end), *a.end)
        await until(lambda: a.counters.dropped.total() == 3, "all are counted")
        assert a.dropped == {reason: 3}
        assert a.received == []
        ordinary = reason in {each.value for each in module.ORDINARY}
        assert len(warnings) == (0 if ordinary else 1)


def test_every_reason_is_produced_here() -> None:
    assert {each.value for each in Broken} == {reason for reason, _, _ in FORGERIES} | {
        "stale_boot",
        "crowd_of_strangers",
        "boot_leap",
    }


async def test_a_leap_is_refused_and_its_sender_is_logged(warnings: list[str]) -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        b.transport.send(message_of(1), A)
        await received(a, message_of(1))
        a.transport.send(message_of(2), B)
        await received(b, message_of(2))
        sealer = b.transport.sealer
        assert sealer is not None
        told = sealer._ticket_for(a.end) + ((1 << 64) - 1).to_bytes(8, "big")
        ticket = sealer._peers[a.end].ticket
        b.sock.send(sealer._encrypt(What.NEWER, told, a.end, RING.primary, ticket, with_ticket=True)[0], *a.end)
        await until(lambda: a.dropped.get("boot_leap") == 1, "it is counted")
        (line,) = [line for line in warnings if "boot_leap" in line]
        assert B in line


async def test_messages_of_a_former_incarnation_are_counted(warnings: list[str]) -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        b.transport.send(message_of(1), A)
        await received(a, message_of(1))
        old = sealer_of(b.end, RING, BOOT - 1)
        b.sock.send(old.seal(encode(message_of(2)), a.end), *a.end)
        await until(lambda: a.dropped.get("stale_boot") == 1, "it is counted")
        assert a.received == [message_of(1)]
        assert [line for line in warnings if "stale_boot" in line]


LIFE = 1_763_872_801_000  # 2025-11-23 04:40:01 UTC


async def test_two_daemons_on_one_address_are_reported(warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "STALE_S_MIN", 0.0)
    async with new_cluster() as cluster:
        a, end = cluster.open(A), (B, cluster.port)
        newer = sealer_of(end, RING, (LIFE + 60_000) << 22)
        older = sealer_of(end, RING, LIFE << 22)
        assert a.sealer is not None
        (challenge,) = a.sealer.open(newer.seal(encode(message_of(1)), a.end), end, trio.current_time()).replies
        (again,) = newer.open(challenge, a.end, trio.current_time()).replies
        assert a.sealer.open(again, end, trio.current_time()).content == encode(message_of(1))
        for number in range(duplicates.STALE_MIN + 2):
            assert a.counters.dropped["stale_boot"] == number
            told = [each for each in a.counters.problems.shown() if each.kind == "duplicate"]
            assert bool(told) == (number >= duplicates.STALE_MIN)
            data = older.seal(encode(message_of(number)), a.end)
            assert a.transport.open(Datagram(data, *end), by_multicast=False) is None
        text = "duplicate address: two daemons use it, started 2025-11-23 04:40:01 UTC and 2025-11-23 04:41:01 UTC"
        (trouble,) = [each for each in a.counters.problems.shown() if each.kind == "duplicate"]
        assert (trouble.address, trouble.text) == (B, text)
        (line,) = [each for each in warnings if "duplicate" in each]
        assert line == f"{B} is a {text}; give one of them another address"


async def test_a_replay_is_counted_and_dropped() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        b.transport.send(message_of(1), A)
        await received(a, message_of(1))
        data = b.seal(message_of(2), a)
        for _ in range(3):
            b.sock.send(data, *a.end)
        await until(lambda: a.dropped.get("replay") == 2, "two of them are counted")
        assert a.received == [message_of(1), message_of(2)]


async def test_datagrams_of_many_unknown_senders_are_counted_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "DERIVATIONS_PER_S", 5.0)
    async with new_cluster() as cluster:
        a, b = cluster.open(A), cluster.open(B)
        b.transport.send(message_of(1), A)
        await received(a, message_of(1))
        stranger = cluster.socket(STRANGER)
        for number in range(100):
            forger = sealer_of((STRANGER, cluster.port), RING, BOOT + number)
            stranger.send(flipped(sealed(forger, a.end), OVERHEAD_BYTES), *a.end)
        await until(lambda: a.counters.dropped.total() >= 100, "all are counted")
        assert a.dropped["crowd_of_strangers"] > 80
        b.transport.send(message_of(2), A)
        await received(a, message_of(1), message_of(2))


async def test_a_flood_of_invalid_datagrams_is_one_line_with_its_sender(
    warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_cluster() as cluster:
        a = cluster.open(A)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((STRANGER, 0))
            where = f"datagram from {STRANGER} port {sock.getsockname()[1]} dropped: not_subord"
            for _ in range(30):
                sock.sendto(b"rubbish", a.end)
            await until(lambda: a.counters.dropped.total() == 30, "all are counted")
            assert [line.partition(" (")[0] for line in warnings] == [where]
            assert "(1 since the last such line; subord_input_dropped_total counts them" in warnings[0]
            monkeypatch.setattr(module, "WARNING_S", 0.0)
            sock.sendto(b"rubbish", a.end)
            await until(lambda: len(warnings) == 2, "it is logged again")
        assert warnings[1].startswith(f"{where} (30 since the last such line")


# -- in the clear ---------------------------------------------------------------------------------------------------


async def test_without_a_key_datagrams_are_plain() -> None:
    async with new_cluster() as cluster:
        a, b = cluster.open(A, None), cluster.open(B, None)
        a.transport.send(message_of(1), B)
        await received(b, message_of(1))
        assert (a.dropped, b.dropped) == ({}, {})
        assert a.counters.bytes_sent == {"stranger": len(encode(message_of(1)))}
        datagram = Datagram(b"anything", A, 1)
        assert b.transport.open(datagram, by_multicast=False) == b"anything"


async def test_sealed_and_plain_peers_refuse_each_other(warnings: list[str]) -> None:
    async with new_cluster() as cluster:
        plain, ours = cluster.open(A, None), cluster.open(B)
        plain.transport.send(message_of(1), B)
        ours.transport.send(message_of(2), A)
        await until(lambda: ours.dropped == {"unsealed": 1}, "the plain one is dropped")
        await until(lambda: plain.received == [Fault.VERSION], "the sealed one is of another version")
        assert ours.received == []
        assert [line for line in warnings if f"datagram from {A} port {cluster.port} dropped: unsealed" in line]


async def test_sent_bytes_are_counted_as_on_the_wire() -> None:
    async with new_cluster() as cluster:
        a = cluster.open(A)
        a.transport.send(message_of(1), B)
        assert a.counters.bytes_sent == {"stranger": OVERHEAD_BYTES + TICKET_BYTES + len(encode(message_of(1)))}
