"""Multicast on real sockets: receivers, accepted messages, and interfaces without multicast.

IPv4 uses the loopback interface of this machine; IPv6 uses a link in a new network namespace.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio

import subord
from subord.core.address.network import Network
from subord.core.events import Notice, Publish, Refused, Start
from subord.core.messages import Announce, Ask, Propose, Terms, Versions, Wish
from subord.core.node import Node
from subord.core.settings import Settings
from subord.runtime.counters import Counters
from subord.runtime.driver import Driver
from subord.runtime.net import multicast
from subord.runtime.net.interfaces import Chosen
from subord.runtime.net.multicast import GROUP_V4, Group
from subord.runtime.net.transport import Transport
from subord.runtime.net.udp import RECEIVED_AT_ONCE_MAX, UdpSocket
from subord.wire.codec import HEADER, MAGIC, encode

WAIT_S_MAX = 60.0
SETTINGS = Settings(network=Network.parse("127.0.0.0/24"), timing_name="lab")
TERMS = Terms.of(SETTINGS)
LO = Chosen(interface="lo", address="127.0.0.1")


@pytest.fixture
def port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        number: int = sock.getsockname()[1]
        return number


@pytest.fixture
def resources() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def opened(resources: ExitStack, number: int, port: int) -> tuple[UdpSocket, Group]:
    """The two sockets of 127.0.0.`number`."""
    chosen = Chosen(interface="lo", address=f"127.0.0.{number}")
    sock = UdpSocket(chosen.address, port, Counters())
    resources.callback(sock.close)
    group = multicast.join(sock, chosen, port)
    assert group is not None
    resources.callback(group.close)
    return sock, group


async def heard(group: Group) -> list[tuple[bytes, str, int]]:
    with trio.fail_after(WAIT_S_MAX):
        await group.wait()
    return [(each.data, each.address, each.port) for each in group.received()]


async def test_all_members_on_one_machine_receive_with_the_sender(resources: ExitStack, port: int) -> None:
    (first, one), (_, two), (_, three) = (opened(resources, number, port) for number in (1, 2, 3))
    first.send(b"hello", one.address, port)
    for each in (one, two, three):  # also the sender
        assert await heard(each) == [(b"hello", "127.0.0.1", port)]


async def test_the_group_socket_receives_no_unicast(resources: ExitStack, port: int) -> None:
    (first, one), (second, _) = (opened(resources, number, port) for number in (1, 2))
    second.send(b"to the node", "127.0.0.1", port)
    second.send(b"to all", GROUP_V4, port)
    assert [data for data, _, _ in await heard(one)] == [b"to all"]
    await first.wait()
    assert [each.data for each in first.received()] == [b"to the node"]


async def test_a_burst_of_multicast_is_received_in_portions(resources: ExitStack, port: int) -> None:
    sock, group = opened(resources, 1, port)
    for _ in range(RECEIVED_AT_ONCE_MAX + 10):
        sock.send(b"x", GROUP_V4, port)
    assert len(await heard(group)) == RECEIVED_AT_ONCE_MAX
    assert len(await heard(group)) == 10


def test_the_hop_limit_is_one(resources: ExitStack, port: int) -> None:
    sock, _ = opened(resources, 1, port)
    assert sock._socket.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == 1


# -- where it does not work -----------------------------------------------------------------------------------------


def test_a_missing_interface_is_logged_once(resources: ExitStack, port: int, warnings: list[str]) -> None:
    sock = UdpSocket("127.0.0.1", port, Counters())
    resources.callback(sock.close)
    assert multicast.join(sock, Chosen(interface="gone0", address="127.0.0.1"), port) is None
    assert warnings == [
        "no multicast on gone0: no interface with this name; continuing as with node.announce = false"
    ]


def test_a_group_address_in_use_is_logged_once(resources: ExitStack, port: int, warnings: list[str]) -> None:
    other = resources.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    other.bind((GROUP_V4, port))
    sock = UdpSocket("127.0.0.1", port, Counters())
    resources.callback(sock.close)
    assert multicast.join(sock, LO, port) is None
    assert warnings == ["no multicast on lo: Address already in use; continuing as with node.announce = false"]


# -- a node that listens --------------------------------------------------------------------------------------------


class Listening:
    """Node 127.0.0.1 with its group, and a neighbour that sends."""

    def __init__(self, resources: ExitStack, port: int) -> None:
        self.port = port
        self.counters = Counters()
        self.notices: list[Notice] = []
        sock, group = opened(resources, 1, port)
        self.neighbour, self.ear = opened(resources, 100, port)  # outside the root's search
        node = Node(SETTINGS, 1, 1000, Random(1), trio.current_time())
        transport = Transport(sock, port, self.counters, group=group)
        self.driver = Driver(node, transport, self.counters, self.notices.append)

    def to_all(self, data: bytes) -> None:
        self.neighbour.send(data, GROUP_V4, self.port)

    def to_node(self, data: bytes) -> None:
        self.neighbour.send(data, "127.0.0.1", self.port)

    async def taken(self) -> None:
        """Wait until all sent datagrams were handled, by a last one on each way."""
        before = self.counters.dropped.total()
        self.to_all(b"")
        self.to_node(b"")
        with trio.fail_after(WAIT_S_MAX):
            while self.counters.dropped["too_short"] < 2 or self.counters.dropped.total() < before + 2:  # noqa: ASYNC110
                await trio.sleep(0.005)
        self.counters.dropped["too_short"] -= 2


@asynccontextmanager
async def listening(resources: ExitStack, port: int) -> AsyncIterator[Listening]:
    each = Listening(resources, port)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(each.driver.run)
        each.driver.feed(Start())
        yield each
        nursery.cancel_scope.cancel()


ANNOUNCE = encode(Announce(7, TERMS))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode(Propose(7, 1, TERMS, Wish.HOME)), "not_for_multicast"),
        (encode(Ask(7, 1, TERMS)), "not_for_multicast"),
        (encode(Versions((9,))), "not_for_multicast"),
        (bytes((MAGIC, 9)) + encode(Versions((9,)))[2:], "not_for_multicast"),
        (bytes((MAGIC, 9)) + b"anything", "unknown_version"),
        (ANNOUNCE[:-2], "malformed"),
        (HEADER + b"\xc1", "malformed"),
        (b"GET / HTTP/1.1\r\n\r\n", "not_subord"),
        (HEADER + bytes(2000), "oversized"),
    ],
)
async def test_only_an_announcement_is_accepted_from_the_group(
    resources: ExitStack, port: int, data: bytes, reason: str
) -> None:
    async with listening(resources, port) as node:
        for _ in range(3):
            node.to_all(data)
        await node.taken()
        assert +node.counters.dropped == {reason: 3}
        assert not node.counters.messages_received
        assert set(node.counters.messages_sent) <= {"announce", "back", "ask"}  # a lone root looks around
        assert list(node.neighbour.received()) == []  # no answer in any version
        assert not [notice for notice in node.notices if isinstance(notice, Refused)]


async def test_an_announcement_reaches_the_core_from_the_group_only(resources: ExitStack, port: int) -> None:
    async with listening(resources, port) as node:
        node.to_node(ANNOUNCE)
        await node.taken()
        assert +node.counters.dropped == {"announce_by_unicast": 1}
        assert node.counters.messages_received["announce"] == 0
        node.to_all(ANNOUNCE)
        await node.taken()
        assert node.counters.messages_received["announce"] == 1


async def test_a_published_message_reaches_the_group_and_not_its_sender(resources: ExitStack, port: int) -> None:
    async with listening(resources, port) as node:
        node.driver._carry_out(Publish(Announce(1000, TERMS)), None)
        assert (encode(Announce(1000, TERMS)), "127.0.0.1", port) in await heard(node.ear)
        assert node.counters.messages_sent["announce"] > 0
        await node.taken()
        assert node.counters.messages_received["announce"] == 0
        assert not +node.counters.dropped


async def test_without_a_group_nothing_is_published(resources: ExitStack, port: int) -> None:
    sock, counters = UdpSocket("127.0.0.1", port, Counters()), Counters()
    resources.callback(sock.close)
    node = Node(SETTINGS, 1, 1000, Random(1), trio.current_time())
    driver = Driver(node, Transport(sock, port, counters), counters, lambda _: None)
    driver._carry_out(Publish(Announce(1000, TERMS)), None)
    assert not counters.messages_sent


# -- a separate link ------------------------------------------------------------------------------------------------

WIRE = """
import json, select, sys, time
from contextlib import suppress
from pyroute2 import IPRoute
from subord.runtime.net import multicast
from subord.runtime.counters import Counters
from subord.runtime.net.interfaces import Chosen
from subord.runtime.net.udp import UdpSocket

one, two, prefix = sys.argv[1:4]
ip = IPRoute()
ip.link("add", ifname="v0", kind="veth", peer="v1")
ip.link("add", ifname="other", kind="veth", peer="v2")
index = {name: ip.link_lookup(ifname=name)[0] for name in ("lo", "v0", "v1", "other", "v2")}
for each in index.values():
    ip.link("set", index=each, state="up")
for interface, address in (("v0", one), ("v0", two)):
    ip.addr("add", index=index[interface], address=address, prefixlen=int(prefix), flags=2 if ":" in one else 0)
ends = {}
for interface, address in (("v0", one), ("v0", two)):
    sock = UdpSocket(address, 7117, Counters())
    ends[address] = (sock, multicast.join(sock, Chosen(interface=interface, address=address), 7117))
elsewhere = multicast.Group(one, 7117, index["other"])
group = ends[one][1]
deadline = time.monotonic() + 10
while not select.select([ends[two][1]._socket], [], [], 0.1)[0]:  # until the wire carries
    ends[one][0].send(b"hello", group.address, 7117)
    assert time.monotonic() < deadline
(first, *_), apart = ends[two][1].received(), list(elsewhere.received())
print(json.dumps([first.data.decode(), first.address, first.port, len(apart)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("one", "two", "prefix"), [("fd00:9::1", "fd00:9::2", "64"), ("10.9.0.1", "10.9.0.2", "24")])
def test_both_families_on_one_interface_alone(one: str, two: str, prefix: str) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no `unshare` (util-linux) on this machine")
    pytest.importorskip("pyroute2", reason="pyroute2 is missing: install the extra `lab`")
    enter = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    tried = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False, timeout=WAIT_S_MAX)
    if tried.returncode != 0:
        pytest.skip(f"neither root nor user namespaces here: {tried.stderr.strip()}")
    command = [*enter, sys.executable, "-c", WIRE, one, two, prefix]
    environment = {**os.environ, "PYTHONPATH": str(Path(subord.__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["hello", one, 7117, 0]
