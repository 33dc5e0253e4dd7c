"""The UDP socket on real loopback addresses: datagrams, errors of the kernel, ICMP errors."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator

import pytest
import trio
from namespaces import output_in_namespace

from subord.runtime.counters import Counters
from subord.runtime.net.udp import RECEIVED_AT_ONCE_MAX, BindError, UdpSocket
from subord.sealing.header import SEALED_BYTES_MAX
from subord.sealing.keys import keyring_of, new_key
from subord.sealing.sealer import Broken, Sealer
from subord.wire.codec import DATAGRAM_BYTES_MAX, Fault, decode

WAIT_S_MAX = 60.0


def free_port(address: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture(params=["127.0.0.1", "::1"])
def address(request: pytest.FixtureRequest) -> str:
    text: str = request.param
    try:
        free_port(text)
    except OSError as error:
        pytest.skip(f"this machine has no {text}: {error.strerror}")
    return text


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def port(address: str) -> int:
    return free_port(address)


@pytest.fixture
def ours(address: str, port: int, counters: Counters) -> Iterator[UdpSocket]:
    sock = UdpSocket(address, port, counters)
    yield sock
    sock.close()


@pytest.fixture
def peer(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 0))
        sock.settimeout(WAIT_S_MAX)
        yield sock


async def readable(sock: UdpSocket) -> None:
    with trio.fail_after(WAIT_S_MAX):
        await sock.wait()


# -- binding ----------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_one_sentence(ours: UdpSocket, address: str, port: int, counters: Counters) -> None:
    with pytest.raises(BindError) as caught:
        UdpSocket(address, port, counters)
    assert str(caught.value) == (
        f"UDP {address} port {port} is taken: is another subord running? Stop it, or set cluster.port on all nodes"
    )


def test_an_address_of_another_host_is_one_sentence(counters: Counters) -> None:
    with pytest.raises(BindError, match=r"^this machine cannot use the address 192\.0\.2\.1 now"):
        UdpSocket("192.0.2.1", 7117, counters, timeout_s=0)


DUPLICATE_ADDRESS_CHECK = """
import errno, json, socket, time
from pyroute2 import IPRoute
from subord.runtime.counters import Counters
from subord.runtime.net.udp import BindError, UdpSocket

ip = IPRoute()
ip.link("add", ifname="v0", kind="veth", peer="v1")
index = {name: ip.link_lookup(ifname=name)[0] for name in ("lo", "v0", "v1")}
for each in index.values():
    ip.link("set", index=each, state="up")
deadline = time.monotonic() + 10
while ip.get_links(index["v0"])[0].get("operstate") != "UP" and time.monotonic() < deadline:
    pass
ip.addr("add", index=index["v0"], address="fd00:9::1", prefixlen=64)
try:
    UdpSocket("fd00:9::1", 7117, Counters(), timeout_s=0)
    at_once = "usable"
except BindError as error:
    at_once = str(error)
UdpSocket("fd00:9::1", 7117, Counters()).close()
print(json.dumps(at_once))
"""


@pytest.mark.slow
def test_an_address_still_checked_for_duplicates_is_waited_for() -> None:
    at_once = json.loads(output_in_namespace(DUPLICATE_ADDRESS_CHECK))
    # Else the machine has such checks switched off, and the test has shown nothing.
    if at_once == "usable":
        pytest.skip("IPv6 addresses are not checked for duplicates on this machine")
    assert at_once == "this machine cannot use the address fd00:9::1 now: is its interface up?"


# -- what comes in ----------------------------------------------------------------------------------------------


async def test_a_datagram_has_its_sender(ours: UdpSocket, peer: socket.socket, address: str, port: int) -> None:
    peer.sendto(b"hello", (address, port))
    await readable(ours)
    (datagram,) = ours.received()
    assert (datagram.data, datagram.address, datagram.port) == (b"hello", address, peer.getsockname()[1])


async def test_an_oversized_datagram_is_recognised(
    ours: UdpSocket, peer: socket.socket, address: str, port: int
) -> None:
    for size in (DATAGRAM_BYTES_MAX, SEALED_BYTES_MAX, 60_000):
        peer.sendto(bytes(size), (address, port))
    await readable(ours)
    plain, sealed, oversized = ours.received()
    assert [len(each.data) for each in (sealed, oversized)] == [SEALED_BYTES_MAX, SEALED_BYTES_MAX + 1]
    assert [decode(each.data) for each in (plain, oversized)] == [Fault.FOREIGN, Fault.OVERSIZED]
    sealer = Sealer(keyring_of(new_key()), (address, port), 1, bytes(32), 0.0)
    opened = [sealer.open(each.data, (each.address, each.port), 0.0).broken for each in (sealed, oversized)]
    assert opened == [Broken.FOREIGN, Broken.OVERSIZED]


async def test_a_burst_is_received_in_portions(ours: UdpSocket, peer: socket.socket, address: str, port: int) -> None:
    for _ in range(RECEIVED_AT_ONCE_MAX + 10):
        peer.sendto(b"x", (address, port))
    await readable(ours)
    assert len(list(ours.received())) == RECEIVED_AT_ONCE_MAX
    await readable(ours)
    assert len(list(ours.received())) == 10


async def test_port_unreachable_is_reported(ours: UdpSocket, address: str, counters: Counters) -> None:
    unused = free_port(address)
    ours.send(b"is a node there?", address, unused)
    await readable(ours)
    assert list(ours.received()) == []
    assert ours.has_returns
    assert list(ours.returned()) == [address]
    assert list(ours.returned()) == []
    assert not ours.has_returns
    assert not counters.send_errors


async def test_an_icmp_error_does_not_lose_the_next_datagram(
    ours: UdpSocket, peer: socket.socket, address: str, counters: Counters
) -> None:
    ours.send(b"is a node there?", address, free_port(address))
    await readable(ours)  # the return has arrived, and the next call on the socket will report it
    ours.send(b"hello", address, peer.getsockname()[1])
    assert peer.recv(16) == b"hello"
    assert not counters.send_errors
    assert list(ours.returned()) == [address]


# -- what goes out ----------------------------------------------------------------------------------------------


class Failing:
    """A socket whose next calls of `sendto` fail."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.sent: list[bytes] = []

    def sendto(self, data: bytes, _address: object) -> None:
        if self.errors:
            number = self.errors.pop(0)
            raise OSError(number, os.strerror(number))
        self.sent.append(data)


@pytest.mark.parametrize(
    ("errors", "sent", "counted"),
    [
        ((), 1, {}),
        ((errno.EHOSTUNREACH,), 1, {}),  # of an earlier datagram: ours is sent by the second try
        ((errno.ECONNREFUSED,), 1, {}),
        ((errno.ENETUNREACH, errno.ENETUNREACH), 0, {"ENETUNREACH": 1}),
        ((errno.EAGAIN, errno.EAGAIN), 0, {"EAGAIN": 1}),
        ((errno.EPERM, errno.EPERM), 0, {"EPERM": 1}),
        ((99999, 99999), 0, {"UNKNOWN": 1}),
    ],
)
def test_failed_sends_are_tried_twice_and_counted(
    counters: Counters,
    monkeypatch: pytest.MonkeyPatch,
    errors: tuple[int, ...],
    sent: int,
    counted: dict[str, int],
) -> None:
    sock = UdpSocket("127.0.0.1", free_port("127.0.0.1"), counters)
    sock.close()
    failing = Failing(*errors)
    monkeypatch.setattr(sock, "_socket", failing)
    sock.send(b"hello", "127.0.0.1", 7117)
    assert len(failing.sent) == sent
    assert dict(counters.send_errors) == counted


def test_a_datagram_rejected_by_the_kernel_is_counted(ours: UdpSocket, address: str, counters: Counters) -> None:
    ours.send(bytes(70_000), address, 7117)
    ours.send(b"to port 0", address, 0)
    assert counters.send_errors["EMSGSIZE"] == 1
    assert counters.send_errors.total() == 2
