"""One node on a real socket: invalid input changes nothing, and answers reach their sender."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from random import Random

import msgspec
import pytest
import trio
from conditions import WAIT_S_MAX, until
from loops import over

from subord.core import snapshots
from subord.core.address.network import Network
from subord.core.events import Notice, Refused, Start
from subord.core.messages import Accept, No, Propose, Refuse, Terms, Wish
from subord.core.node import Node
from subord.core.settings import Settings
from subord.runtime.counters import Counters
from subord.runtime.driver import Driver
from subord.runtime.net.transport import Transport
from subord.runtime.net.udp import UdpSocket
from subord.wire.codec import DATAGRAM_BYTES_MAX, HEADER, MAGIC, VERSIONS_DATAGRAM, decode, encode
from subord.wire.receiving import VERSION_ANSWERS_PER_S

SETTINGS = Settings(network=Network.parse("127.0.0.0/24"), timing_name="lab")
TERMS = Terms.of(SETTINGS)
ROOT, SECOND = "127.0.0.1", "127.0.0.2"


class Running:
    """A node on 127.0.0.`position`, and the notices of its driver."""

    def __init__(self, position: int, port: int) -> None:
        self.position = position
        self.address = f"127.0.0.{position}"
        self.port = port
        self.counters = Counters()
        self.notices: list[Notice] = []
        self.node = Node(SETTINGS, position, 1000, Random(position), trio.current_time())
        self.socket = UdpSocket(self.address, port, self.counters)
        transport = Transport(self.socket, port, self.counters)
        self.driver = Driver(self.node, transport, self.counters, self.notices.append)

    def state(self) -> bytes:
        """All that it shows, except ages and the state of its own search."""
        view = msgspec.structs.replace(snapshots.snapshot(self.node, 0.0), since_s=0.0, tables={})
        rows = [(r.position, r.leader, r.place, r.incarnation) for r in snapshots.roster(self.node, 0.0).rows]
        return msgspec.json.encode((view, rows, self.node.search.peers))


@asynccontextmanager
async def running(position: int = 1) -> AsyncIterator[Running]:
    with caller() as probe:
        port = probe.getsockname()[1]
    each = Running(position, port)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(each.driver.run)
            each.driver.feed(Start())
            yield each
            nursery.cancel_scope.cancel()
    finally:
        each.socket.close()


@contextmanager
def caller(address: str = SECOND, port: int = 0) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, port))
        sock.setblocking(False)
        yield sock


async def received(sock: socket.socket) -> bytes:
    with trio.fail_after(WAIT_S_MAX):
        await trio.lowlevel.wait_readable(sock)
    return sock.recv(4096)


def waiting(sock: socket.socket) -> list[bytes]:
    """All datagrams that have arrived."""
    datagrams = []
    while True:
        try:
            datagrams.append(sock.recv(4096))
        except BlockingIOError:
            return datagrams


@over(
    ("data", "reason"),
    [
        (b"", "too_short"),
        (b"s", "too_short"),
        (HEADER, "too_short"),
        (b"GET / HTTP/1.1\r\n\r\n", "not_subord"),
        (bytes(100), "not_subord"),
        (HEADER + b"\xc1", "malformed"),
        (HEADER + b"\x91" * 1000, "malformed"),
        (HEADER + b"\x92\x63\x01", "malformed"),
        (encode(Propose(5, 1, TERMS, Wish.HOME))[:-3], "malformed"),
        (HEADER + bytes(DATAGRAM_BYTES_MAX), "oversized"),
        (HEADER + bytes(60_000), "oversized"),
        (bytes((MAGIC, 9)) + b"anything", "unknown_version"),
        (HEADER + encode(Propose(5, 1, TERMS, Wish.HOME))[2:].replace(b"\x05", b"\xff", 1), "malformed"),
    ],
)
async def test_an_invalid_datagram_is_counted_by_reason(data: bytes, reason: str) -> None:
    async with running() as node:
        before = node.state()
        with caller() as sock:
            sock.sendto(data, (ROOT, node.port))
            await until(lambda: node.counters.dropped, "it is counted")
        assert dict(node.counters.dropped) == {reason: 1}
        assert not node.counters.messages_received
        after = msgspec.json.decode(node.state())
        if reason == "unknown_version":
            after[0]["refusals"] = []  # the core remembers peers of other versions
        assert after == msgspec.json.decode(before)


def all_counted(node: Running, number: int) -> bool:
    return node.counters.dropped.total() == number


async def test_random_bytes_change_nothing() -> None:
    chance = Random(20150720)
    async with running() as node:
        before = node.state()
        with caller() as sock:
            for number in range(600):
                head = (b"", HEADER, HEADER + b"\x95", HEADER + b"\x98\x07")[number % 4]
                sock.sendto(head + chance.randbytes(chance.randrange(1300)), (ROOT, node.port))
                if number % 50 == 49:
                    await until(partial(all_counted, node, number + 1), "all are counted")
        assert set(node.counters.dropped) <= {"too_short", "not_subord", "malformed", "oversized"}
        assert node.state() == before
        assert set(node.counters.messages_sent) <= {"back", "ask"}  # its own search, and no answer to any node


async def test_an_unknown_version_is_answered_at_a_bounded_rate() -> None:
    began = trio.current_time()
    async with running() as node:
        with caller() as sock:
            for number in range(100):
                sock.sendto(bytes((MAGIC, 2 + number % 200)) + b"hello", (ROOT, node.port))
            await until(lambda: node.counters.dropped["unknown_version"] == 100, "all are counted")
            answers = waiting(sock)
    assert set(answers) == {VERSIONS_DATAGRAM}
    assert len(answers) <= VERSION_ANSWERS_PER_S * (1 + trio.current_time() - began)
    told = [notice for notice in node.notices if isinstance(notice, Refused)]
    assert 0 < len(told) <= len(answers)


async def test_the_answer_to_an_unknown_version_is_not_answered() -> None:
    """Else two nodes without a common version would answer each other endlessly."""
    async with running() as node:
        with caller() as sock:
            sock.sendto(bytes((MAGIC, 2)) + VERSIONS_DATAGRAM[2:], (ROOT, node.port))
            await until(lambda: node.counters.messages_received["versions"], "it is read")
            assert waiting(sock) == []


async def test_a_reply_goes_to_the_sender_and_a_message_to_the_common_port() -> None:
    other = msgspec.structs.replace(TERMS, fanout=3)
    async with running() as node:
        with caller() as anywhere, caller(port=node.port) as proper:
            anywhere.sendto(encode(Propose(7, 1, other, Wish.HOME)), (ROOT, node.port))
            refuse = decode(await received(anywhere))
            assert isinstance(refuse, Refuse)
            assert refuse.no is No.TERMS
            anywhere.sendto(encode(Propose(7, 2, TERMS, Wish.HOME)), (ROOT, node.port))
            accept = decode(await received(proper))
            assert isinstance(accept, Accept)
            assert (waiting(anywhere), waiting(proper)) == ([], [])


async def test_a_host_outside_the_network_gets_no_place() -> None:
    async with running() as node:
        before = node.state()
        with caller("127.9.9.9") as sock:
            sock.sendto(encode(Propose(7, 1, TERMS, Wish.HOME)), (ROOT, node.port))
            await until(lambda: node.counters.dropped["outside_network"] == 1, "it is counted")
            assert waiting(sock) == []
        assert node.state() == before


async def test_a_host_without_a_daemon_is_noticed_at_once() -> None:
    async with running(2) as node:
        await until(
            lambda: "no daemon there" in [asked.answer for asked in node.node.search.answers.shown(0.0)],
            "the return is taken",
        )
        assert not node.counters.send_errors


@pytest.mark.slow
async def test_the_timer_fires_without_any_datagram() -> None:
    async with running(2) as node:
        await until(lambda: node.node.place is not None, "it gives up waiting for its leader")
        assert sum(node.counters.loop_lag.counts) > 0
