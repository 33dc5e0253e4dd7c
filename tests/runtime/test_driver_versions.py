"""Daemons of two releases on real sockets, sealed and plain: each gets messages in a version that it knows.

The later release is simulated (subord/sim/world/later_release.py): it has a version 3 besides 1.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from random import Random

import pytest
import trio
from conditions import WAIT_S_MAX, until
from ports import free_port

from subord.core.address.network import Network
from subord.core.events import Start
from subord.core.messages import Announce, Ask, Refuse, Terms
from subord.core.node import Node
from subord.core.settings import Settings
from subord.runtime.counters import Counters
from subord.runtime.driver import Driver
from subord.runtime.net.transport import Transport
from subord.runtime.net.udp import Datagram, UdpSocket
from subord.sealing.keys import key_of, keyring_of
from subord.sealing.sealer import Sealer
from subord.sim.world.later_release import BOTH, LATER
from subord.wire.codec import MAGIC, WIRE, Wire
from subord.wire.receiving import UNREADABLE_PER_S, VERSION_ANSWERS_PER_S

SETTINGS = Settings(network=Network.parse("127.0.0.0/24"), fanout=2, timing_name="lab")
TERMS = Terms.of(SETTINGS)
OTHER_TERMS = Terms("10.0.0.0/8", 2, 2, "ip", "complete", "lan")
RING = keyring_of(key_of(bytes(32)))
ADDRESSES = {position: f"127.0.0.{position}" for position in range(1, 8)}


class Running:
    """A node on 127.0.0.`position`."""

    def __init__(self, position: int, port: int, wire: Wire, *, sealed: bool) -> None:
        self.counters = Counters()
        self.node = Node(SETTINGS, position, 1000, Random(position), trio.current_time())
        self.socket = UdpSocket(ADDRESSES[position], port, self.counters)
        now, end = trio.current_time(), (ADDRESSES[position], port)
        sealer = Sealer(RING, end, 1, bytes([position] * 32), now) if sealed else None
        self.transport = Transport(self.socket, port, self.counters, sealer, wire=wire)
        self.driver = Driver(self.node, self.transport, self.counters, lambda _: None)

    def version_for(self, position: int) -> int:
        return self.transport.peer_versions.version_for(ADDRESSES[position])


@asynccontextmanager
async def cluster(wires: dict[int, Wire], *, sealed: bool = False) -> AsyncIterator[dict[int, Running]]:
    port = free_port(socket.SOCK_DGRAM, *(ADDRESSES[position] for position in wires))
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        nodes = {position: Running(position, port, wire, sealed=sealed) for position, wire in wires.items()}
        for each in nodes.values():
            stack.callback(each.socket.close)
            nursery.start_soon(each.driver.run)
            each.driver.feed(Start())
        yield nodes
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("sealed", [False, True])
async def test_two_releases_form_one_tree_and_use_their_highest_common_version(sealed: bool) -> None:
    wires = {position: WIRE if position in (1, 5, 6) else BOTH for position in range(1, 8)}
    async with cluster(wires, sealed=sealed) as nodes:
        await until(lambda: len(nodes[1].node.roster.rows) == 7, "all are in the root's roster")
        leaders = {position: each.node.uplink.leader for position, each in nodes.items()}
        assert {p: leader.position for p, leader in leaders.items() if leader} == {2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3}
        for one, other in ((2, 4), (3, 7)):
            await until(
                lambda one=one, other=other: nodes[one].version_for(other) == nodes[other].version_for(one) == LATER,
                "they speak the best that both know",
            )
        assert [nodes[p].version_for(leaders[p].position) for p in (2, 5, 6)] == [1, 1, 1]  # type: ignore[union-attr]
        for each in nodes.values():
            assert not each.node.refusals.shown(0.0)
            assert each.counters.dropped["unknown_version"] == 0
        assert len(nodes[1].transport.peer_versions) == 0  # with one version no peer is remembered
        assert nodes[2].driver.sizes()["wire_versions"] >= 2


@contextmanager
def caller(port: int = 0) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.9", port))
        sock.setblocking(False)
        yield sock


async def received(sock: socket.socket) -> bytes:
    with trio.fail_after(WAIT_S_MAX):
        await trio.lowlevel.wait_readable(sock)
    return sock.recv(4096)


async def test_an_answer_has_the_version_of_the_question() -> None:
    question = Ask(5, 1, OTHER_TERMS)
    async with cluster({1: BOTH}) as nodes:
        with caller() as sock:
            target = nodes[1].socket._socket.getsockname()
            sock.sendto(WIRE.encode(question), target)
            answers = [await received(sock), await received(sock)]
            assert answers[0] == BOTH.versions_datagram  # once: the next question is answered alone
            assert isinstance(WIRE.decode(answers[1]), Refuse)
            sock.sendto(BOTH.encode(question, LATER), target)
            answer = await received(sock)
            assert answer[1] == LATER
            assert isinstance(BOTH.decode(answer), Refuse)
            sock.sendto(WIRE.versions_datagram, target)  # it has become older
            sock.sendto(WIRE.encode(question), target)
            assert isinstance(WIRE.decode(await received(sock)), Refuse)


async def test_a_common_version_is_no_refusal() -> None:
    async with cluster({1: WIRE}) as nodes:
        with caller() as sock:
            target = nodes[1].socket._socket.getsockname()
            sock.sendto(BOTH.versions_datagram, target)
            await until(lambda: nodes[1].counters.messages_received["versions"] == 1, "it is read")
            assert not nodes[1].node.refusals.shown(0.0)
            sock.sendto(BOTH.versions_datagram[:-2] + b"\x07\x08", target)
            await until(lambda: nodes[1].node.refusals.shown(0.0), "people are told")
            assert nodes[1].node.refusals.shown(0.0)[0].reason == "speaks wire versions [7, 8], we do not"


async def test_a_multicast_of_an_unknown_version_is_not_answered() -> None:
    """Else a thousand nodes would answer one announcement."""
    async with cluster({1: BOTH}) as nodes:
        with caller() as sock:
            end = sock.getsockname()
            for wire, version in ((WIRE, 1), (BOTH, LATER)):
                data = wire.encode(Announce(5, TERMS), version)
                nodes[1].driver._receive(Datagram(data, *end), by_multicast=True)
            nodes[1].driver._receive(Datagram(bytes((MAGIC, 9)) + b"hello", *end), by_multicast=True)
            assert nodes[1].counters.messages_sent["versions"] == 0
            assert nodes[1].counters.messages_received["announce"] == 2


async def test_answers_and_reports_of_other_versions_have_bounded_rates() -> None:
    assert UNREADABLE_PER_S < VERSION_ANSWERS_PER_S
    began = trio.current_time()
    async with cluster({1: BOTH}) as nodes:
        with caller() as sock:
            target = nodes[1].socket._socket.getsockname()
            for number in range(400):
                sock.sendto(bytes((MAGIC, 4 + number % 200)) + b"hello", target)
            await until(lambda: nodes[1].counters.dropped["unknown_version"] == 400, "all are counted")
        passed_s = 1 + trio.current_time() - began
        assert 0 < nodes[1].counters.messages_sent["versions"] <= VERSION_ANSWERS_PER_S * passed_s
        assert 0 < nodes[1].node.refusals.shown(0.0)[0].times <= UNREADABLE_PER_S * passed_s
