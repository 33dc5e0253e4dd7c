"""The post room, on real sockets: what is sealed arrives, and a broken seal is a stroke on the tally sheet."""

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


def words(number: int) -> Message:
    return Stranger(1 << 60, number)


class Office:
    """A socket with its mail, and what was carried upstairs."""

    def __init__(self, sock: UdpSocket, address: str, port: int, group: Group | None) -> None:
        self.end = address, port
        self.sock = sock
        self.group = group
        self.heard: list[Message | Fault] = []

    def live(self, ring: Keyring | None = RING, boot: int = BOOT) -> Office:
        """A life begins. `ring` None: nothing is sealed."""
        self.counters = Counters()
        self.sealer = None if ring is None else sealer_of(self.end, ring, boot)
        self.mail = Transport(self.sock, self.end[1], self.counters, self.sealer, self.group)
        return self

    def seal(self, message: Message, target: Office) -> bytes:
        assert self.sealer is not None
        return self.sealer.seal(encode(message), target.end)

    async def receive_forever(self) -> None:
        while True:
            await self.sock.wait()
            self.open(self.sock.received(), by_multicast=False)

    async def hear_forever(self, group: Group) -> None:
        while True:
            await group.wait()
            self.open(group.received(), by_multicast=True)

    def open(self, datagrams: Iterable[Datagram], *, by_multicast: bool) -> None:
        for datagram in datagrams:
            content = self.mail.open(datagram, by_multicast=by_multicast)
            if content is not None:
                self.heard.append(decode(content))

    @property
    def dropped(self) -> dict[str, int]:
        return dict(+self.counters.dropped)


def sealer_of(end: tuple[str, int], ring: Keyring, boot: int) -> Sealer:
    return Sealer(ring, end, boot, bytes([boot % 256]) * 32, trio.current_time())


class Town:
    """Offices on one port."""

    def __init__(self, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        self.port = free_port(socket.SOCK_DGRAM, A, B, STRANGER)
        self._stack = stack
        self._nursery = nursery

    def socket(self, address: str) -> UdpSocket:
        sock = UdpSocket(address, self.port, Counters())
        self._stack.callback(sock.close)
        return sock

    def open(self, address: str, ring: Keyring | None = RING, *, to_all: bool = False) -> Office:
        """`to_all`: it publishes, and hears what others publish."""
        sock = self.socket(address)
        group = multicast.join(sock, Chosen(interface="lo", address=address), self.port) if to_all else None
        office = Office(sock, address, self.port, group).live(ring)
        self._nursery.start_soon(office.receive_forever)
        if group is not None:
            self._stack.callback(group.close)
            self._nursery.start_soon(office.hear_forever, group)
        return office


@asynccontextmanager
async def building() -> AsyncIterator[Town]:
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        yield Town(stack, nursery)
        nursery.cancel_scope.cancel()


async def heard(office: Office, *expected: Message) -> None:
    await until(lambda: len(office.heard) >= len(expected), f"{expected} arrive")
    assert office.heard == list(expected)


# -- what arrives ---------------------------------------------------------------------------------------------------


async def test_the_first_words_are_asked_for_again_and_arrive_once(warnings: list[str]) -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        a.mail.send(words(1), B)
        await heard(b, words(1))
        assert b.dropped == {"first_contact": 1}
        assert a.dropped == {}
        assert b.counters.messages_sent == {"seal": 1}
        assert a.counters.messages_sent == {"stranger": 1, "seal": 1}
        assert warnings == []


async def test_two_first_words_arrive_and_so_do_those_after_them() -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        a.mail.send(words(1), B)
        a.mail.send(words(2), B)
        await heard(b, words(1), words(2))
        for number in range(3, 50):
            a.mail.send(words(number), B)
        await heard(b, *map(words, range(1, 50)))
        b.mail.send(words(50), A)
        await heard(a, words(50))
        assert set(b.dropped) == {"first_contact"}


async def test_who_speaks_at_the_same_time_is_heard_on_both_sides() -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        a.mail.send(words(1), B)
        b.mail.send(words(2), A)
        await until(lambda: a.heard and b.heard, "both are heard")
        assert (a.heard, b.heard) == ([words(2)], [words(1)])


async def test_who_was_restarted_is_heard_and_hears() -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        a.mail.send(words(1), B)
        await heard(b, words(1))
        b.live(boot=BOOT + 1)
        a.mail.send(words(2), B)
        await heard(b, words(1), words(2))
        b.mail.send(words(3), A)
        await heard(a, words(3))


async def test_what_is_no_routine_reaches_who_was_restarted_at_once() -> None:
    """It could not ask for more: only a word that tells a ticket can be asked for again."""
    async with building() as town:
        a, b = town.open(A), town.open(B)
        a.mail.send(words(1), B)
        await heard(b, words(1))
        b.mail.send(words(2), A)
        await heard(a, words(2))
        b.live(boot=BOOT + (1 << 22))
        a.mail.send(words(3), B)
        await heard(b, words(1), words(3))


async def test_who_was_restarted_with_its_clock_set_back_says_so(warnings: list[str]) -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        b.mail.send(words(1), A)
        await heard(a, words(1))
        b.live(boot=BOOT - 1)
        b.mail.send(words(2), A)
        await heard(a, words(1), words(2))
        assert f"{A} knows a later life of ours: took a higher number than that" in warnings
        assert b.sealer is not None
        assert b.sealer.boot > BOOT


async def test_an_answer_goes_to_the_port_that_was_asked_from() -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere:
            elsewhere.bind((STRANGER, 0))
            elsewhere.settimeout(WAIT_S_MAX)
            b.mail.send(words(1), *elsewhere.getsockname())
            assert len(await trio.to_thread.run_sync(elsewhere.recv, 4096)) > OVERHEAD_BYTES
        assert a.heard == []


async def test_two_with_a_common_key_understand_each_other() -> None:
    async with building() as town:
        a, b = town.open(A, keyring_of(ONE, [TWO])), town.open(B, keyring_of(TWO))
        for number in range(1, 5):
            a.mail.send(words(number), B)
            b.mail.send(words(number), A)
        await until(lambda: a.heard and b.heard, "both are heard")


# -- to everybody ---------------------------------------------------------------------------------------------------


async def test_a_call_to_all_is_sealed_too() -> None:
    async with building() as town:
        a, b = town.open(A, to_all=True), town.open(B, to_all=True)
        a.mail.publish(words(1))
        await heard(b, words(1))
        assert a.heard == [words(1)], "ourselves, too"
        other = town.open(STRANGER, keyring_of(TWO), to_all=True)
        a.mail.publish(words(2))
        await until(lambda: other.dropped == {"no_key": 1}, "who has another key does not understand it")


async def test_a_call_to_all_is_not_for_one_and_the_other_way_round() -> None:
    async with building() as town:
        a, b = town.open(A, to_all=True), town.open(B, to_all=True)
        assert a.sealer is not None
        a.sock.send(a.sealer.seal_for_all(encode(words(1)), (GROUP_V4, town.port))[0], *b.end)
        a.sock.send(a.seal(words(2), b), GROUP_V4, town.port)
        await until(lambda: b.dropped == {"bad_tag": 2}, "both are thrown away")
        assert b.heard == []


async def test_without_a_group_nothing_is_published() -> None:
    async with building() as town:
        a = town.open(A)
        a.mail.publish(words(1))
        assert not a.counters.messages_sent


# -- what is thrown away --------------------------------------------------------------------------------------------


def sealed(stranger: Sealer, target: tuple[str, int]) -> bytes:
    """For somebody who does not know us."""
    return stranger.seal(encode(words(1)), target)


def flipped(data: bytes, index: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


def without_ticket(stranger: Sealer, target: tuple[str, int]) -> bytes:
    """Authentic, but it cannot be asked to say it again."""
    return stranger._close(What.MESSAGE, encode(words(1)), target, ONE, NO_TICKET, tell=False)[0]


FORGERIES: list[tuple[str, Keyring, Callable[[Sealer, tuple[str, int]], bytes]]] = [
    ("too_short", RING, lambda _s, _t: b""),
    ("too_short", RING, lambda _s, _t: bytes((MAGIC,))),
    ("too_short", RING, lambda s, t: sealed(s, t)[: OVERHEAD_BYTES - 1]),
    ("oversized", RING, lambda _s, _t: bytes(SEALED_BYTES_MAX + 1)),
    ("oversized", RING, lambda _s, _t: bytes(60_000)),
    ("not_subord", RING, lambda _s, _t: b"GET / HTTP/1.1\r\n\r\n"),
    ("unsealed", RING, lambda _s, _t: encode(words(1))),
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
async def test_what_is_broken_is_counted_by_its_reason(
    warnings: list[str],
    reason: str,
    ring: Keyring,
    forge: Callable[[Sealer, tuple[str, int]], bytes],
) -> None:
    async with building() as town:
        a = town.open(A)
        stranger = town.socket(STRANGER)
        for number in range(3):
            stranger.send(forge(sealer_of((STRANGER, town.port), ring, BOOT + number), a.end), *a.end)
        await until(lambda: a.counters.dropped.total() == 3, "all are counted")
        assert a.dropped == {reason: 3}
        assert a.heard == []
        ordinary = reason in {each.value for each in module.ORDINARY}
        assert len(warnings) == (0 if ordinary else 1)


def test_every_reason_is_produced_here() -> None:
    assert {each.value for each in Broken} == {reason for reason, _, _ in FORGERIES} | {
        "stale_boot",
        "crowd_of_strangers",
        "boot_leap",
    }


async def test_a_leap_is_refused_and_its_sender_is_named(warnings: list[str]) -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        b.mail.send(words(1), A)
        await heard(a, words(1))
        a.mail.send(words(2), B)
        await heard(b, words(2))
        sealer = b.mail.sealer
        assert sealer is not None
        told = sealer._ticket_for(a.end) + ((1 << 64) - 1).to_bytes(8, "big")
        ticket = sealer._peers[a.end].ticket
        b.sock.send(sealer._close(What.NEWER, told, a.end, RING.primary, ticket, tell=True)[0], *a.end)
        await until(lambda: a.dropped.get("boot_leap") == 1, "it is counted")
        (line,) = [line for line in warnings if "boot_leap" in line]
        assert B in line


async def test_words_of_an_earlier_life_are_counted(warnings: list[str]) -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        b.mail.send(words(1), A)
        await heard(a, words(1))
        old = sealer_of(b.end, RING, BOOT - 1)
        b.sock.send(old.seal(encode(words(2)), a.end), *a.end)
        await until(lambda: a.dropped.get("stale_boot") == 1, "it is counted")
        assert a.heard == [words(1)]
        assert [line for line in warnings if "stale_boot" in line]


LIFE = 1_763_872_801_000  # 2025-11-23 04:40:01 UTC


async def test_two_daemons_on_one_address_are_told_as_that(
    warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "STALE_S_MIN", 0.0)
    async with building() as town:
        a, end = town.open(A), (B, town.port)
        newer = sealer_of(end, RING, (LIFE + 60_000) << 22)
        older = sealer_of(end, RING, LIFE << 22)
        assert a.sealer is not None
        (challenge,) = a.sealer.open(newer.seal(encode(words(1)), a.end), end, trio.current_time()).replies
        (again,) = newer.open(challenge, a.end, trio.current_time()).replies
        assert a.sealer.open(again, end, trio.current_time()).content == encode(words(1))
        for number in range(duplicates.STALE_MIN + 2):
            assert a.counters.dropped["stale_boot"] == number
            told = [each for each in a.counters.lately.shown() if each.kind == "duplicate"]
            assert bool(told) == (number >= duplicates.STALE_MIN)
            data = older.seal(encode(words(number)), a.end)
            assert a.mail.open(Datagram(data, *end), by_multicast=False) is None
        text = "duplicate address: two daemons use it, started 2025-11-23 04:40:01 UTC and 2025-11-23 04:41:01 UTC"
        (trouble,) = [each for each in a.counters.lately.shown() if each.kind == "duplicate"]
        assert (trouble.address, trouble.text) == (B, text)
        (line,) = [each for each in warnings if "duplicate" in each]
        assert line == f"{B} is a {text}; whichever is wrong needs another address"


async def test_a_repetition_is_counted_and_not_heard() -> None:
    async with building() as town:
        a, b = town.open(A), town.open(B)
        b.mail.send(words(1), A)
        await heard(a, words(1))
        data = b.seal(words(2), a)
        for _ in range(3):
            b.sock.send(data, *a.end)
        await until(lambda: a.dropped.get("replay") == 2, "two of them are counted")
        assert a.heard == [words(1), words(2)]


async def test_a_crowd_of_strangers_is_counted_and_costs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "CUTS_PER_S", 5.0)
    async with building() as town:
        a, b = town.open(A), town.open(B)
        b.mail.send(words(1), A)
        await heard(a, words(1))
        stranger = town.socket(STRANGER)
        for number in range(100):
            forger = sealer_of((STRANGER, town.port), RING, BOOT + number)
            stranger.send(flipped(sealed(forger, a.end), OVERHEAD_BYTES), *a.end)
        await until(lambda: a.counters.dropped.total() >= 100, "all are counted")
        assert a.dropped["crowd_of_strangers"] > 80
        b.mail.send(words(2), A)
        await heard(a, words(1), words(2))


async def test_a_flood_of_rubbish_is_one_line_with_its_sender(
    warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with building() as town:
        a = town.open(A)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thrower:
            thrower.bind((STRANGER, 0))
            where = f"datagram from {STRANGER} port {thrower.getsockname()[1]} thrown away: not_subord"
            for _ in range(30):
                thrower.sendto(b"rubbish", a.end)
            await until(lambda: a.counters.dropped.total() == 30, "all are counted")
            assert [line.partition(" (")[0] for line in warnings] == [where]
            assert "(1 since the last such line; subord_input_dropped_total counts them" in warnings[0]
            monkeypatch.setattr(module, "COMPLAINT_S", 0.0)
            thrower.sendto(b"rubbish", a.end)
            await until(lambda: len(warnings) == 2, "it is said again")
        assert warnings[1].startswith(f"{where} (30 since the last such line")


# -- in the clear ---------------------------------------------------------------------------------------------------


async def test_without_a_seal_all_is_plain() -> None:
    async with building() as town:
        a, b = town.open(A, None), town.open(B, None)
        a.mail.send(words(1), B)
        await heard(b, words(1))
        assert (a.dropped, b.dropped) == ({}, {})
        assert a.counters.bytes_sent == {"stranger": len(encode(words(1)))}
        datagram = Datagram(b"anything", A, 1)
        assert b.mail.open(datagram, by_multicast=False) == b"anything"


async def test_sealed_and_plain_do_not_understand_each_other(warnings: list[str]) -> None:
    async with building() as town:
        plain, ours = town.open(A, None), town.open(B)
        plain.mail.send(words(1), B)
        ours.mail.send(words(2), A)
        await until(lambda: ours.dropped == {"unsealed": 1}, "the plain one is thrown away")
        await until(lambda: plain.heard == [Fault.VERSION], "the sealed one is of another version")
        assert ours.heard == []
        assert [line for line in warnings if f"datagram from {A} port {town.port} thrown away: unsealed" in line]


async def test_what_is_sent_is_counted_as_it_goes_over_the_wire() -> None:
    async with building() as town:
        a = town.open(A)
        a.mail.send(words(1), B)
        assert a.counters.bytes_sent == {"stranger": OVERHEAD_BYTES + TICKET_BYTES + len(encode(words(1)))}
