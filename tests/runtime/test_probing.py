"""Round trips: measured between two nodes on real sockets, and false answers."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from random import Random

import msgspec
import pytest
import trio
from conditions import WAIT_S_MAX, until
from loops import over
from ports import free_port

from subord.core.address.network import Network
from subord.core.events import Action, Event, Measure, Measured, Wakeup
from subord.core.messages import Message, Pong, Probe
from subord.core.node import Node
from subord.core.settings import Settings
from subord.runtime.counters import Counters
from subord.runtime.driver import Driver
from subord.runtime.net import probing as module
from subord.runtime.net.probing import OUT_MAX, ROUND_TRIP_NS_MAX, Probing, round_trip_s, was_set
from subord.runtime.net.transport import Transport
from subord.runtime.net.udp import SO_TIMESTAMPNS, TIMESPEC, Datagram, UdpSocket, stamp_of
from subord.sealing.keys import key_of, keyring_of
from subord.sealing.sealer import Sealer
from subord.wire.codec import decode, encode

RING = keyring_of(key_of(bytes(32)))
LATENCY = Settings(network=Network.parse("127.0.0.0/24"), mapping="latency", timing_name="lab")
OURS, THEIRS, OUTSIDE = "127.0.0.1", "127.0.0.2", "127.9.9.9"
NUMBER = 77
DELAY_S = 0.5  # far more than a machine under load adds by itself
MS = 1_000_000
PERFORMANCE = 141


class MeasuringNode(Node):
    """A node that returns the actions of a test and records measurements."""

    wanted: tuple[Action, ...] = ()
    measured: tuple[Measured, ...] = ()

    def handle(self, event: Event, now: float) -> list[Action]:
        if isinstance(event, Measured):
            self.measured += (event,)
        wanted, self.wanted = self.wanted, ()
        return [*super().handle(event, now), *wanted]


class Side:
    """One of two nodes. It has not started, so it only reacts."""

    def __init__(self, address: str, port: int, sealed: bool, settings: Settings = LATENCY) -> None:
        self.address = address
        self.counters = Counters()
        self.socket = UdpSocket(address, port, self.counters)
        position = settings.network.position_of(address)
        assert position is not None
        now = trio.current_time()
        self.node = MeasuringNode(settings, position, 1000, Random(position), now)
        sealer = Sealer(RING, (address, port), 1000, bytes([position]) * 32, now) if sealed else None
        self.transport = Transport(self.socket, port, self.counters, sealer)
        self.driver = Driver(self.node, self.transport, self.counters, lambda _: None)

    def measure(self, target: int = 2, number: int = NUMBER) -> None:
        self.node.wanted = (Measure(target, number),)
        self.driver.feed(Wakeup())

    @property
    def dropped(self) -> dict[str, int]:
        return dict(+self.counters.dropped)


class Pair:
    def __init__(self, sealed: bool, stack: ExitStack, nursery: trio.Nursery) -> None:
        port = free_port(socket.SOCK_DGRAM, OURS, THEIRS)
        self.a, self.b = (Side(address, port, sealed) for address in (OURS, THEIRS))
        self._nursery = nursery
        for side in (self.a, self.b):
            stack.callback(side.socket.close)
        self.start(self.a)

    def start(self, side: Side) -> None:
        self._nursery.start_soon(side.driver.run)

    async def measured(self, number: int = NUMBER) -> Measured:
        """The measurement of one exchange."""
        before = len(self.a.node.measured)
        self.a.measure(number=number)
        await until(lambda: len(self.a.node.measured) > before, "it is measured")
        return self.a.node.measured[-1]


@asynccontextmanager
async def pair(sealed: bool) -> AsyncIterator[Pair]:
    with ExitStack() as stack:
        async with trio.open_nursery() as nursery:
            yield Pair(sealed, stack, nursery)
            nursery.cancel_scope.cancel()


both = pytest.mark.parametrize("sealed", [False, True], ids=["clear", "sealed"])


# -- arithmetic -----------------------------------------------------------------------------------------------------


@over(
    ("whole_ns", "held_us", "seconds"),
    [
        (20 * MS, 0, 0.02),
        (20 * MS, 19_000, 0.001),
        (1, 0, 1e-9),
        (0, 0, None),
        (-1, 0, None),
        (20 * MS, 20_000, None),
        (20 * MS, 20_001, None),
        (20 * MS, (1 << 32) - 1, None),
        (ROUND_TRIP_NS_MAX, 0, 10.0),
        (ROUND_TRIP_NS_MAX + 1, 0, None),
        (ROUND_TRIP_NS_MAX + MS, 1000, 10.0),
    ],
)
def test_the_round_trip_excludes_the_time_at_the_peer(whole_ns: int, held_us: int, seconds: float | None) -> None:
    now_ns = time.time_ns()
    assert round_trip_s(now_ns, now_ns + whole_ns, held_us) == seconds


@over(
    ("wall_ns", "steady_ns", "set_"),
    [(MS, MS, False), (MS + 150_000, MS, False), (MS + 250_000, MS, True), (MS - 250_000, MS, True), (-MS, MS, True)],
)
def test_a_set_clock_is_noticed(wall_ns: int, steady_ns: int, set_: bool) -> None:
    assert was_set(wall_ns, steady_ns) is set_


@pytest.mark.parametrize(
    ("ancillary", "stamp_ns"),
    [
        ([], 0),
        ([(socket.SOL_SOCKET, SO_TIMESTAMPNS, TIMESPEC.pack(1_700_000_000, 7))], 1_700_000_000_000_000_007),
        ([(socket.SOL_SOCKET, SO_TIMESTAMPNS, b"short")], 0),
        ([(socket.SOL_SOCKET, 1, TIMESPEC.pack(1, 2)), (0, SO_TIMESTAMPNS, TIMESPEC.pack(1, 2))], 0),
    ],
)
def test_the_kernel_timestamp_is_read(ancillary: list[tuple[int, int, bytes]], stamp_ns: int) -> None:
    assert stamp_of(ancillary) == stamp_ns


# -- postmarks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stamped", [False, True])
async def test_a_datagram_has_its_arrival_time(stamped: bool) -> None:
    ours = UdpSocket(OURS, free_port(socket.SOCK_DGRAM, OURS), Counters())
    try:
        if stamped:
            ours.stamp_arrivals()
        before_ns = time.time_ns()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.sendto(b"hello", ours._socket.getsockname())
        with trio.fail_after(WAIT_S_MAX):
            await ours.wait()
        (datagram,) = ours.received()
        assert datagram.data == b"hello"
        assert before_ns <= datagram.arrived_ns <= time.time_ns()
    finally:
        ours.close()


async def test_only_the_latency_mapping_stamps_arrivals() -> None:
    port = free_port(socket.SOCK_DGRAM, OURS)
    for mapping in ("ip", "performance", "latency"):
        side = Side(OURS, port, False, msgspec.structs.replace(LATENCY, mapping=mapping))
        side.socket.close()
        assert not side.socket.is_stamped or mapping == "latency"


# -- two nodes ------------------------------------------------------------------------------------------------------


@both
async def test_a_measurement_includes_the_class_of_the_peer(sealed: bool) -> None:
    async with pair(sealed) as both_sides:
        a, b = both_sides.a, both_sides.b
        b.node.context.performance = PERFORMANCE
        both_sides.start(b)
        measured = await both_sides.measured()
        assert (measured.position, measured.number, measured.performance) == (2, NUMBER, PERFORMANCE)
        assert 0 < measured.seconds < 1
        assert a.dropped == {}
        assert b.dropped == ({"first_contact": 1} if sealed else {})
        assert len(a.driver._probing) == 0
        # Sealed: the first is not believed, its successor is.
        assert a.counters.messages_sent == {"probe": 2 if sealed else 1}
        assert b.counters.messages_sent == ({"seal": 1, "pong": 1} if sealed else {"pong": 1})


@both
async def test_how_long_the_other_is_busy_does_not_count(sealed: bool) -> None:
    """Also at the first contact: sealed, the first message waits there before it is rejected."""
    async with pair(sealed) as both_sides:
        a, b = both_sides.a, both_sides.b
        if not b.socket.is_stamped:
            pytest.skip("this kernel notes no arrivals")
        a.measure()
        await b.socket.wait()
        await trio.sleep(DELAY_S)  # what is tested: it lies there
        both_sides.start(b)
        await until(lambda: a.node.measured, "it is measured")
        for number in range(3):  # other processes may have been in the way
            await both_sides.measured(number)
        assert min(each.seconds for each in a.node.measured) < 0.2 * DELAY_S
        assert a.node.measured[0].seconds < DELAY_S


@both
async def test_a_second_measurement_needs_one_probe(sealed: bool) -> None:
    async with pair(sealed) as both_sides:
        both_sides.start(both_sides.b)
        await both_sides.measured(1)
        both_sides.a.counters.messages_sent.clear()
        await both_sides.measured(2)
        assert both_sides.a.counters.messages_sent == {"probe": 1}
        assert [each.number for each in both_sides.a.node.measured] == [1, 2]


async def test_a_restarted_node_is_measured_at_once() -> None:
    async with pair(True) as both_sides:
        b = both_sides.b
        both_sides.start(b)
        await both_sides.measured(1)
        assert b.transport.sealer is not None
        b.transport.sealer = Sealer(RING, (THEIRS, b.socket._socket.getsockname()[1]), 1 << 30, bytes(32), 0.0)
        await both_sides.measured(2)
        assert b.dropped["first_contact"] == 2


async def test_a_peer_that_always_asks_again_gets_two_probes_for_each_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with pair(True) as both_sides:
        a = both_sides.a
        a.measure()
        for _ in range(5):
            a.transport.on_asked_again(THEIRS)
        assert a.counters.messages_sent == {"probe": 2}
        a.transport.on_asked_again(OUTSIDE)
        assert len(a.driver._probing) == 1


# -- false answers --------------------------------------------------------------------------------------------------

Forge = Callable[[Probe], list[tuple[Message, str]]]


def pong(probe: Probe, **changes: int) -> Message:
    return msgspec.structs.replace(Pong(5, probe.number, 0, PERFORMANCE), **changes)


@over(
    ("forge", "dropped", "heard"),
    [
        (lambda p: [(pong(p), THEIRS)], {}, 1),
        (lambda p: [(pong(p), THEIRS)] * 3, {"pong_unexpected": 2}, 1),
        (lambda p: [(pong(p, number=p.number ^ 1), THEIRS)], {"pong_unexpected": 1}, 0),
        (lambda p: [(pong(p, number=NUMBER), THEIRS)], {"pong_unexpected": 1}, 0),
        (lambda p: [(pong(p), "127.0.0.3")], {"pong_unexpected": 1}, 0),
        (lambda p: [(pong(p), "127.0.0.3"), (pong(p), THEIRS)], {"pong_unexpected": 1}, 1),
        (lambda p: [(pong(p), OUTSIDE)], {"outside_network": 1}, 0),
        (lambda p: [(pong(p), OURS)], {"own_address": 1}, 0),
        (lambda p: [(pong(p, held_us=(1 << 32) - 1), THEIRS)], {"pong_impossible": 1}, 0),
        (
            lambda p: [(pong(p, held_us=(1 << 32) - 1), THEIRS), (pong(p), THEIRS)],
            {"pong_impossible": 1, "pong_unexpected": 1},
            0,
        ),
    ],
)
async def test_only_the_first_possible_answer_of_the_target_counts(
    forge: Forge, dropped: dict[str, int], heard: int
) -> None:
    async with pair(False) as both_sides:
        a = both_sides.a
        a.measure()
        probe = await probe_at(both_sides.b)
        answers = forge(probe)
        for answer, address in answers:
            arrived_ns = time.time_ns()
            a.driver._receive(Datagram(encode(answer), address, 1, arrived_ns))
        assert a.dropped == dropped
        assert len(a.node.measured) == heard
        assert a.counters.messages_received == {"pong": len(answers)}


async def probe_at(side: Side) -> Probe:
    with trio.fail_after(WAIT_S_MAX):
        await side.socket.wait()
    (datagram,) = side.socket.received()
    message = decode(datagram.data)
    assert isinstance(message, Probe)
    return message


async def test_an_exchange_during_which_the_clock_was_set_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair(False) as both_sides:
        a = both_sides.a
        a.measure()
        probe = await probe_at(both_sides.b)
        hour_ns = 3600 * 1000 * MS
        real = time.time_ns
        monkeypatch.setattr(module.time, "time_ns", lambda: real() - hour_ns)
        a.driver._receive(Datagram(encode(pong(probe)), THEIRS, 1, real()))
        monkeypatch.undo()
        assert a.dropped == {"clock_was_set": 1}
        assert a.node.measured == ()


@pytest.mark.parametrize("address", [OUTSIDE, OURS])
async def test_a_host_outside_the_network_gets_no_answer(address: str) -> None:
    async with pair(False) as both_sides:
        a = both_sides.a
        a.driver._receive(Datagram(encode(Probe(5, 1)), address, 1, time.time_ns()))
        assert a.dropped == {"own_address" if address == OURS else "outside_network": 1}
        assert not a.counters.messages_sent


async def test_answers_have_a_bounded_rate() -> None:
    async with pair(False) as both_sides:
        a, began = both_sides.a, trio.current_time()
        for number in range(2000):
            a.driver._receive(Datagram(encode(Probe(5, number)), THEIRS, 9, time.time_ns()))
        allowed = module.ANSWERS_PER_S * (1 + trio.current_time() - began)
        assert module.ANSWERS_PER_S <= a.counters.messages_sent["pong"] <= allowed
        assert a.dropped == {"too_many_probes": 2000 - a.counters.messages_sent["pong"]}


@pytest.mark.parametrize(
    ("age_ns", "held_us"), [(7 * MS, 7000), (-7 * MS, 0), (1 << 62, (1 << 32) - 1)], ids=["now", "set back", "bound"]
)
async def test_the_held_time_is_bounded(monkeypatch: pytest.MonkeyPatch, age_ns: int, held_us: int) -> None:
    async with pair(False) as both_sides:
        a = both_sides.a
        said: list[Message] = []
        monkeypatch.setattr(a.transport, "send", lambda message, *_: said.append(message))
        arrived_ns = time.time_ns() - age_ns
        a.driver._receive(Datagram(encode(Probe(5, 8)), THEIRS, 9, arrived_ns))
        (answer,) = said
        assert isinstance(answer, Pong)
        assert answer.number == 8
        assert held_us <= answer.held_us <= held_us + 1e6


# -- bounds ---------------------------------------------------------------------------------------------------------


async def test_pending_probes_are_bounded_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair(False) as both_sides:
        a = both_sides.a
        mine = Probing(a.node.context, a.transport, a.counters)
        for number in range(OUT_MAX + 10):
            mine.measure(2, number)
        assert len(mine) == OUT_MAX
        assert a.dropped == {"probe_crowded_out": 10}
        real = time.monotonic_ns
        monkeypatch.setattr(module.time, "monotonic_ns", lambda: real() + ROUND_TRIP_NS_MAX + MS)
        mine.measure(2, 1)
        assert len(mine) == 1
        assert a.dropped == {"probe_crowded_out": 10}, "a node that never answers is no loss to count"
