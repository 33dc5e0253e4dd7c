"""The driver of orders on streams: greetings, credits, malformed input, failing services, and bounds."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from random import Random
from typing import Any

import pytest
import trio
from conditions import IO_S, until
from trio.testing import MockClock

from subord.core.address.network import Network
from subord.core.carriage.blobs.bodies import Piece, Want
from subord.core.carriage.engine.causes import OLDER, REFUSED, SILENT
from subord.core.carriage.engine.frames import Check, End, Order, Told, encode, order_of
from subord.core.carriage.engine.interface import (
    Act,
    Acted,
    Action,
    Answer,
    Arrived,
    CallDirect,
    Cancel,
    Closed,
    Finished,
    HangUp,
    Lane,
    Opened,
    Outcome,
    Role,
    Transmit,
    Wakeup,
)
from subord.core.carriage.engine.lanes import CREDITS, Credit, encode_credit
from subord.core.carriage.engine.links import Links
from subord.core.carriage.engine.parts import Parts
from subord.core.carriage.engine.ranges import Ranges
from subord.core.node import Node
from subord.core.settings import Settings
from subord.runtime.counters import Counters
from subord.runtime.frames import SEND_S_MAX, Frames, Sender, frame
from subord.runtime.orders.call import EARLY_BYTES_MAX
from subord.runtime.orders.driver import CALLS_OF_ONE_MAX, OrderDriver

OURS, THEIRS = 1000, 2000
PEER = "10.0.0.2"
GREETING = encode_credit(Credit(THEIRS, 0, Lane.CONTROL, 0))
CHECK = encode(THEIRS, OURS, Check(7))


OPEN: list[trio.socket.SocketType] = []


def stream_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    pair = trio.socket.socketpair()
    OPEN.extend(pair)
    return trio.SocketStream(pair[0]), trio.SocketStream(pair[1])


class Recorder:
    """In place of the engine: notes events, and answers with the actions that a test has set."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.actions: list[Action] = []
        self.dropped: Counter[str] = Counter()
        self.deadline = inf
        self.sizes = {"held bytes": 0}
        self.parts = Parts((), Links(OURS))

    def handle(self, event: Any, _: float) -> list[Action]:
        self.events.append(event)
        actions, self.actions = self.actions, []
        return actions


class Tried:
    """A driver with a recorder, and the far end of one edge."""

    def __init__(self, nursery: trio.Nursery) -> None:
        node = Node(Settings(network=Network.parse("10.0.0.0/24")), 1, OURS, Random(1), trio.current_time())
        self.counters = Counters()
        self.driver = OrderDriver(node, self.counters, {})
        self.engine = Recorder()
        self.driver.engine = self.engine  # type: ignore[assignment]
        self.nursery = nursery
        ours, self.theirs = stream_pair()
        self.link = self.driver.begin(Sender(ours, PEER), Role.SUBORDINATE, nursery)
        self.frames = Frames(self.theirs)

    async def next(self) -> bytes | None:
        return await self.frames.next(1 << 16)


@asynccontextmanager
async def tried() -> AsyncIterator[Tried]:
    async with trio.open_nursery() as nursery:
        one = Tried(nursery)
        nursery.start_soon(one.driver.run)
        await trio.testing.wait_all_tasks_blocked()
        try:
            yield one
        finally:
            nursery.cancel_scope.cancel()
            while OPEN:
                OPEN.pop().close()


async def test_a_link_opens_with_the_greeting() -> None:
    async with tried() as one:
        assert await one.next() == encode_credit(Credit(OURS, 0, Lane.CONTROL, 0))
        assert one.driver.receive(one.link, GREETING)
        assert one.engine.events == [Opened(one.link, 2, Role.SUBORDINATE, THEIRS)]
        assert one.driver.receive(one.link, CHECK)
        assert one.engine.events[-1] == Arrived(one.link, CHECK)
        one.driver.end(one.link)
        assert one.engine.events[-1] == Closed(one.link)


@pytest.mark.parametrize(
    "received",
    [
        (CHECK,),
        (GREETING, GREETING),
        (GREETING, encode_credit(Credit(THEIRS, OURS, Lane.ORDER, 1))),
        (b"\x94",),
    ],
    ids=["no greeting", "two greetings", "credit for nothing", "no credit"],
)
async def test_malformed_frames_end_a_link(received: tuple[bytes, ...]) -> None:
    async with tried() as one:
        *before, last = received
        assert all(one.driver.receive(one.link, each) for each in before)
        assert not one.driver.receive(one.link, last)


async def test_a_reader_that_returns_no_credit_stops_its_lane_and_no_other() -> None:
    async with tried() as one:
        await one.next()
        one.driver.receive(one.link, GREETING)
        large = bytes(60_000)
        wanted = CREDITS[Lane.ORDER] // len(large)
        for _ in range(wanted + 2):
            assert one.link.offer(Lane.ORDER, large)
        for _ in range(wanted):
            assert await one.next() == large
        one.link.offer(Lane.CONTROL, b"urgent")
        assert await one.next() == b"urgent"
        one.driver.receive(one.link, encode_credit(Credit(THEIRS, OURS, Lane.ORDER, len(large))))
        assert await one.next() == large


def slow_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """The kernel keeps little of what the far end has not read."""
    ours, theirs = stream_pair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return ours, theirs


def blobs(count: int) -> list[bytes]:
    return [encode(OURS, THEIRS, Piece(bytes(32), 0, 1 << 18, bytes([each]) * 40_000)) for each in range(count)]


async def test_a_peer_that_reads_slowly_delays_no_other_and_gets_the_urgent_first() -> None:
    async with tried() as one:
        ours, theirs = slow_pair()
        slow, pieces = one.driver.begin(Sender(ours, PEER), Role.SUBORDINATE, one.nursery), blobs(8)
        for link in (slow, one.link):
            one.driver.receive(link, GREETING)
            assert all(link.offer(Lane.BLOB, each) for each in pieces)
        await one.next()
        assert [await one.next() for _ in pieces] == pieces  # the other link, while this one reads nothing
        assert slow.offer(Lane.ORDER, b"order")
        assert slow.offer(Lane.CONTROL, b"urgent")
        frames = Frames(theirs)
        came = [await frames.next(1 << 16) for _ in range(3 + len(pieces))]
        assert came == [encode_credit(Credit(OURS, 0, Lane.CONTROL, 0)), pieces[0], b"urgent", b"order", *pieces[1:]]
        assert not one.counters.dropped


async def test_a_peer_that_takes_no_frame_for_some_seconds_loses_its_link_alone(autojump_clock: MockClock) -> None:
    async with tried() as one:
        ours, theirs = slow_pair()
        stuck = one.driver.begin(Sender(ours, PEER), Role.SUBORDINATE, one.nursery)
        assert all(stuck.offer(Lane.BLOB, each) for each in blobs(2))
        autojump_clock.autojump_threshold = IO_S
        await trio.sleep(2 * SEND_S_MAX)
        assert ours.socket.fileno() == -1
        assert one.link.offer(Lane.BLOB, b"x")
        assert [await one.next() for _ in range(2)][1] == b"x"
        await theirs.aclose()


async def test_what_is_taken_in_is_credited() -> None:
    async with tried() as one:
        await one.next()
        one.driver.receive(one.link, GREETING)
        big = encode(THEIRS, OURS, Told(7, ((bytes(30_000), (0, 0)),)))
        for _ in range(3):
            one.driver.receive(one.link, big)
        assert await one.next() == encode_credit(Credit(OURS, THEIRS, Lane.ORDER, 3 * len(big)))


async def test_a_frame_is_credited_in_the_lane_that_it_was_sent_in() -> None:
    async with tried() as one:
        await one.next()
        one.driver.receive(one.link, GREETING)
        told = encode(THEIRS, OURS, Told(7, ((bytes(30_000), (0, 0)),)))
        for _ in range(CREDITS[Lane.ORDER] // len(CHECK)):
            one.driver.receive(one.link, CHECK)  # more than the credit of orders, in the lane of control
        for _ in range(3):
            one.driver.receive(one.link, told)
        assert await one.next() == encode_credit(Credit(OURS, THEIRS, Lane.ORDER, 3 * len(told)))


async def test_frames_that_follow_each_other_by_a_turn_are_sent_together() -> None:
    """An acknowledgement, and the answer of a service that reads."""
    async with tried() as one:
        await one.next()
        one.link.offer(Lane.CONTROL, b"acknowledged")
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        one.link.offer(Lane.ORDER, b"answered")
        received = await one.theirs.receive_some(1 << 16)
        assert received == frame(b"acknowledged") + frame(b"answered")


async def test_a_full_lane_is_counted() -> None:
    async with tried() as one:
        one.engine.actions = [Transmit(one.link, Lane.CONTROL, bytes(60_000))] * 5
        one.driver.receive(one.link, GREETING)
        assert one.counters.dropped["order_lane_full"] == 1


async def test_orders_of_this_node_are_counted_with_their_coverage() -> None:
    """A word of another node may be any."""
    async with tried() as one:
        answers = []

        async def give() -> None:
            answers.append(await one.driver.order("ping", b"", None, 1.0))

        one.nursery.start_soon(give)
        await until(lambda: one.engine.events, "the order")
        missing = (("silent", Ranges.of((2, 3))), ("a word", Ranges.of((4,))))
        answer = Answer(targets=Ranges.of(range(1, 5)), groups=((b"x", Ranges.of((1,))),), missing=missing)
        one.engine.actions = [Finished(one.engine.events[0].order.tag, answer)]
        one.driver.feed(Wakeup())
        await until(lambda: answers, "the answer")
        counters = one.counters
        assert (counters.orders_given, counters.orders_told) == ({"ping": 1}, 1)
        assert counters.orders_missing == {"silent": 2, "other": 1}


async def test_of_a_service_that_reads_and_acts_the_agent_gets_the_orders_with_an_authority() -> None:
    """The others are answered here, also while there is no agent."""

    class FakeAgent:
        def __init__(self) -> None:
            self.acted: list[Order] = []
            self.expected: list[bytes] = []

        def expect(self, tag: bytes, _: float) -> None:
            self.expected.append(tag)

        async def act(self, order: Order, left_s: float, source: str = "") -> Acted:  # noqa: ARG002
            await trio.lowlevel.checkpoint()
            self.acted.append(order)
            return Acted(order.tag, Outcome(b"done"))

    async def read(payload: bytes) -> bytes:
        return payload

    node = Node(Settings(network=Network.parse("10.0.0.0/24")), 1, OURS, Random(1), trio.current_time())
    agent: Any = FakeAgent()
    driver = OrderDriver(node, Counters(), {"both": read, "plain": read}, agent=agent, effects=("both",))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run)
        await trio.testing.wait_all_tasks_blocked()
        for service, authority, result in (
            ("both", b"", b"asked"),
            ("both", b"signed", b"done"),
            ("plain", b"signed", b"asked"),
        ):
            answer = await driver.order(service, b"asked", Ranges.of((1,)), 5.0, authority=authority)
            assert answer.groups == ((result, Ranges.of((1,))),)
        nursery.cancel_scope.cancel()
    assert [each.authority for each in agent.acted] == [b"signed"]
    assert agent.expected == [agent.acted[0].tag]


async def test_a_service_that_fails_is_an_outcome() -> None:
    async def broken(_: bytes) -> bytes:
        raise ZeroDivisionError

    async with tried() as one:
        one.driver._readings = {"broken": broken}
        one.engine.actions = [Act(order_of(bytes(16), "broken", b"", None, 1), 5.0)]
        one.driver.receive(one.link, GREETING)
        await until(lambda: isinstance(one.engine.events[-1], Acted), "the outcome")
        assert one.engine.events[-1].outcome.cause == REFUSED
        assert one.counters.dropped["service_failed"] == 1


@pytest.mark.parametrize(
    ("answer", "cause"), [(None, SILENT), (b'{"unknown_topic": "orders", "version": "0.2.0"}', OLDER), (b"", "")]
)
async def test_a_call_ends_with_its_cause(answer: bytes | None, cause: str) -> None:
    @asynccontextmanager
    async def called(_: str) -> AsyncIterator[Any]:
        if answer is None:
            yield None
            return
        ours, theirs = stream_pair()
        if answer:
            await theirs.send_all(frame(answer))
        await theirs.aclose()
        yield ours

    async with tried() as one:
        one.driver.called = called
        one.engine.actions = [CallDirect("name", 2, CHECK)]
        one.driver.receive(one.link, GREETING)
        await until(lambda: one.engine.events[-1] == Closed("name", cause), "the end")
        assert set(one.driver._links) == {one.link}


async def test_frames_for_a_call_that_is_not_open_yet_are_sent_when_it_is() -> None:
    is_open, ends = trio.Event(), list[trio.SocketStream]()

    @asynccontextmanager
    async def called(_: str) -> AsyncIterator[Any]:
        await is_open.wait()
        ours, theirs = stream_pair()
        ends.append(theirs)
        yield ours

    async with tried() as one:
        one.driver.called = called
        want = encode(OURS, 0, Want(bytes(32), 9, 0))
        wants = [want] * ((EARLY_BYTES_MAX - len(CHECK)) // len(want) + 1)
        transmits = [Transmit("name", Lane.BLOB, each) for each in wants]
        one.engine.actions = [CallDirect("name", 2, CHECK), *transmits]
        one.driver.receive(one.link, GREETING)
        assert one.counters.dropped["order_lane_full"] == 1  # the last has no room
        is_open.set()
        await until(lambda: ends, "the call")
        frames = Frames(ends[0])
        came = [await frames.next(1 << 16) for _ in range(1 + len(wants))]
        assert came == [encode_credit(Credit(OURS, 0, Lane.CONTROL, 0)), CHECK, *wants[:-1]]


async def test_a_call_that_the_engine_ends_tells_nothing_more() -> None:
    @asynccontextmanager
    async def called(_: str) -> AsyncIterator[Any]:
        ours, theirs = stream_pair()
        async with theirs:
            yield ours

    async with tried() as one:
        one.driver.called = called
        one.engine.actions = [CallDirect("name", 2, CHECK)]
        one.driver.receive(one.link, GREETING)
        await until(lambda: "name" in one.driver._links, "the call")
        before = len(one.engine.events)
        one.driver._carry_out(HangUp("name"))
        await until(lambda: "name" not in one.driver._links, "the end")
        assert len(one.engine.events) == before


async def test_what_was_sent_on_a_call_leaves_before_it_ends() -> None:
    """Here the end of an order, which the engine sends and then hangs up."""
    far = []

    @asynccontextmanager
    async def called(_: str) -> AsyncIterator[Any]:
        ours, theirs = stream_pair()
        far.append(theirs)
        async with ours:
            yield ours

    async with tried() as one:
        one.driver.called = called
        one.driver._carry_out(CallDirect("name", 2, CHECK))
        await until(lambda: "name" in one.driver._links, "the call")
        end = encode(OURS, THEIRS, End(1, stops=True))
        for action in (Transmit("name", Lane.CONTROL, end), HangUp("name")):
            one.driver._carry_out(action)
        frames = Frames(far[0])
        found = [await frames.next(1 << 16) for _ in range(4)]
        assert found[2:] == [end, None]


@pytest.mark.parametrize("how", ["the caller is cancelled", "a word to the driver"])
async def test_a_caller_that_does_not_wait_cancels_its_order(how: str) -> None:
    async with tried() as one:
        answers = []

        async def give() -> None:
            answers.append(await one.driver.order("ping", b"", None, 1.0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give)
            await until(lambda: one.engine.events, "the order")
            tag = one.engine.events[0].order.tag
            if how == "the caller is cancelled":
                nursery.cancel_scope.cancel()
            else:
                one.engine.actions = [Finished(tag, Answer(targets=Ranges.of((1,))))]
                one.driver.cancel(tag)
        assert one.engine.events[1:] == [Cancel(tag)]
        assert len(answers) == (how != "the caller is cancelled")
        one.driver.cancel(tag)
        assert len(one.engine.events) == 2, "it is over"


async def test_calls_of_one_peer_are_bounded() -> None:
    async with tried() as one:
        ends = []
        for _ in range(CALLS_OF_ONE_MAX + 1):
            ours, theirs = stream_pair()
            ends.append(theirs)
            one.nursery.start_soon(one.driver.hold_call, PEER, ours, Frames(ours))
        await until(lambda: one.counters.dropped["order_streams_of_one"] == 1, "the refusal")
        assert len(one.driver._links) == 1 + CALLS_OF_ONE_MAX
        for each in ends:
            await each.aclose()
        await until(lambda: len(one.driver._links) == 1, "the ends")


async def test_a_frame_on_which_the_engine_fails_ends_its_link_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with tried() as one:
        assert one.driver.receive(one.link, GREETING)
        one.engine.handle = lambda *_: 1 / 0  # type: ignore[assignment, return-value]
        assert not one.driver.receive(one.link, CHECK)
    assert one.counters.dropped["order_failed"] == 1
    assert "a frame of 10.0.0.2 could not be taken; its stream is closed" in caplog.messages


@pytest.mark.parametrize("peer", [0, 255, 2**63 - 1])
async def test_a_call_to_no_node_fails(peer: int) -> None:
    async with tried() as one:
        one.engine.actions = [CallDirect("call", peer, CHECK)]
        one.driver.feed(Wakeup())
        await trio.testing.wait_all_tasks_blocked()
        assert one.engine.events[-1] == Closed("call", SILENT)


async def test_a_call_that_is_over_before_it_begins_is_not_made() -> None:
    dialled = []

    @asynccontextmanager
    async def called(address: str) -> AsyncIterator[None]:
        dialled.append(address)
        await trio.lowlevel.checkpoint()
        dialled.append("opened")
        yield

    async with tried() as one:
        one.driver.called = called
        one.engine.actions = [CallDirect("call", 7, CHECK), HangUp("call")]
        one.driver.feed(Wakeup())
        await trio.testing.wait_all_tasks_blocked()
        assert "opened" not in dialled
        assert one.engine.events == [Wakeup()]
