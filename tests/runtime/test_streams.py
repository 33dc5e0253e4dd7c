"""Streams: the end of an edge is noticed, invalid input is counted, and all numbers are bounded."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio
from conditions import WAIT_S_MAX, until
from loops import over
from namespaces import output_in_namespace

import subord
from subord.core.address.network import Network
from subord.runtime.counters import Counters
from subord.runtime.frames import frame
from subord.runtime.net import streams as module
from subord.runtime.net.answer_places import PLACES_MAX
from subord.runtime.net.peer_query import TOPICS, TOPICS_OF_0_1, AskFailure, Question, Topic, understood
from subord.runtime.net.streams import Opening, Streams, streams_allowed

pytestmark = pytest.mark.slow

STATUS = Question("status")
LEADER, SUBORDINATE, STRANGER = "127.0.0.1", "127.0.0.2", "127.9.9.9"
SOURCE = str(Path(subord.__file__).parents[1])


class Served:
    """One node with streams, and its callbacks."""

    def __init__(self, listening: socket.socket, **options: Any) -> None:
        self.port: int = listening.getsockname()[1]
        self.counters = Counters()
        self.closed: list[str] = []
        self.answer = b"{}"
        self.streams = node(
            LEADER, self.port, self.counters, answer=self.says, edge_closed=self.closed.append, **options
        )

    async def says(self, _: Question) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.answer


async def nothing(_: Question) -> bytes:
    await trio.lowlevel.checkpoint()
    return b""


def node(address: str, port: int, counters: Counters | None = None, **options: Any) -> Streams:
    given: dict[str, Any] = {
        "user_timeout_s": 4.0,
        "answer": nothing,
        "edge_closed": lambda _: None,
        "is_ours": lambda peer: peer != STRANGER,
        **options,
    }
    return Streams(address, port, counters=counters or Counters(), **given)


def listener() -> socket.socket:
    sock = socket.socket()
    sock.bind((LEADER, 0))
    sock.listen(64)
    return sock


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Served]:
    with listener() as listening:
        served = Served(listening, **options)

        async def attend() -> None:
            await served.streams.serve(listening)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(attend)
            yield served
            nursery.cancel_scope.cancel()


@contextmanager
def connected(port: int, source: str = SUBORDINATE) -> Iterator[socket.socket]:
    """A raw connection from the given address."""
    with socket.create_connection((LEADER, port), WAIT_S_MAX, (source, 0)) as sock:
        yield sock


EDGE = frame(msgspec.msgpack.encode(Opening("edge")))


async def is_closed(sock: socket.socket) -> bool:
    """Whether the other side closes within WAIT_S_MAX."""
    with trio.move_on_after(WAIT_S_MAX):
        sock.setblocking(False)
        while True:
            await trio.lowlevel.wait_readable(sock)
            try:
                if not sock.recv(4096):
                    return True
            except ConnectionResetError:
                return True
    return False


# -- edges ----------------------------------------------------------------------------------------------------------

HOLDER = """
import socket, sys, trio
from subord.runtime.counters import Counters
from subord.runtime.frames import frame
from subord.runtime.net.answer_places import PLACES_MAX
from subord.runtime.net.streams import Streams
role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
async def nothing(_):
    return b""
async def hold():
    streams = Streams(
        address, port, user_timeout_s=4.0, counters=Counters(),
        answer=nothing, edge_closed=lambda _: None, is_ours=lambda _: True,
    )
    if role == "subordinate":
        return await streams.hold_edge("127.0.0.1")
    listener = socket.create_server((address, 0))
    print(listener.getsockname()[1], flush=True)
    await streams.serve(listener)
trio.run(hold)
"""


@asynccontextmanager
async def process(*arguments: object) -> AsyncIterator[trio.Process]:
    """A node in a process of its own."""
    command = [sys.executable, "-c", HOLDER, *map(str, arguments)]
    started = await trio.lowlevel.open_process(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": SOURCE}
    )
    try:
        yield started
    finally:
        started.kill()
        with trio.CancelScope(shield=True):
            await started.wait()
            if started.stdout is not None:
                await started.stdout.aclose()


async def printed(started: trio.Process) -> bytes:
    """The first line of its output."""
    assert started.stdout is not None
    line = b""
    with trio.fail_after(WAIT_S_MAX):
        while not line.endswith(b"\n"):
            line += await started.stdout.receive_some(1)
    return line


async def test_the_end_of_a_subordinate_is_noticed() -> None:
    async with serving() as served, process("subordinate", SUBORDINATE, served.port) as subordinate:
        await until(lambda: served.streams._edges, "the edge is held")
        assert served.closed == []
        subordinate.send_signal(signal.SIGKILL)
        await until(lambda: served.closed == [SUBORDINATE], "the closed edge is reported")
        assert not served.counters.dropped


async def test_the_end_of_a_leader_is_noticed() -> None:
    async with process("leader", LEADER, 0) as leader:
        port = int(await printed(leader))
        subordinate = node(SUBORDINATE, port)
        held: list[bool] = []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def hold() -> None:
                held.append(await subordinate.hold_edge(LEADER))

            with trio.fail_after(WAIT_S_MAX):
                assert await subordinate.ask(LEADER, STATUS, WAIT_S_MAX) == b""  # so the edge is accepted, too
            assert held == []
            leader.send_signal(signal.SIGKILL)
            await until(lambda: held == [True], "the end of the edge is noticed")


async def test_an_edge_to_a_missing_node_is_not_held() -> None:
    with listener() as probe:
        port = probe.getsockname()[1]
    with trio.fail_after(WAIT_S_MAX):
        assert not await node(SUBORDINATE, port).hold_edge(LEADER)


async def test_only_the_newer_of_two_edges_of_one_address_is_reported() -> None:
    async with serving() as served:
        with connected(served.port) as older:
            older.sendall(EDGE)
            await until(lambda: served.streams._edges, "the first edge is held")
            first = served.streams._edges[SUBORDINATE]
            with connected(served.port) as newer:
                newer.sendall(EDGE)
                await until(lambda: served.streams._edges[SUBORDINATE] is not first, "the second edge is held")
                assert await is_closed(older)
                assert served.closed == []
            await until(lambda: served.closed == [SUBORDINATE], "the end of the newer is reported")
        await until(lambda: served.streams._open == 0, "both streams are forgotten")
        assert served.closed == [SUBORDINATE]


async def test_data_on_an_edge_is_dropped() -> None:
    async with serving() as served:
        with connected(served.port) as sock:
            sock.sendall(EDGE + bytes(100))
            await until(lambda: served.streams._edges, "the edge is held")
            sock.sendall(bytes(1_000_000))
            assert served.closed == []
        await until(lambda: served.closed == [SUBORDINATE], "the end is reported")


async def test_a_thousand_edges_leave_no_state() -> None:
    async with serving() as served:
        before = len(os.listdir("/proc/self/fd"))
        for number in range(1000):
            with connected(served.port, f"127.0.1.{number % 250 + 1}") as sock:
                sock.sendall(EDGE)
                if number % 3 == 0:  # some end by a reset, at whatever moment
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif number % 3 == 1:
                    await trio.lowlevel.checkpoint()
            # At least one connection is accepted a turn; more would fill the kernel's backlog.
            await trio.lowlevel.checkpoint()
            await until(lambda: served.streams._open < 20, "the streams are attended to")
        await until(lambda: served.streams._open == 0, "all streams are forgotten")
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before, "all files are closed")
        assert served.streams._edges == {}
        assert len(served.closed) > 300


VANISHED = """
import json, socket, trio
from pyroute2 import IPRoute
from subord.runtime.net import streams as module
from subord.runtime.counters import Counters
module.KEEPALIVE_S = 1
ip = IPRoute()
lo = ip.link_lookup(ifname="lo")[0]
ip.link("set", index=lo, state="up")
ended = []

async def nothing(_):
    return b""

async def main():
    listener = socket.create_server(("127.0.0.1", 7117))
    make = lambda address: module.Streams(
        address, 7117, user_timeout_s=0.5, counters=Counters(), answer=nothing,
        is_ours=lambda _: True, edge_closed=lambda peer: ended.append(peer),
    )
    leader, subordinate = make("127.0.0.1"), make("127.0.0.2")
    async def hold():
        if await subordinate.hold_edge("127.0.0.1"):
            ended.append("leader")
    with trio.move_on_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader.serve, listener)
            nursery.start_soon(hold)
            while not leader._edges:
                await trio.sleep(0.01)
            ip.link("set", index=lo, state="down")
            while len(ended) < 2:
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

trio.run(main)
print(json.dumps(sorted(ended)))
"""


def test_a_vanished_host_is_noticed_at_both_ends_without_data() -> None:
    """Else each would cost its leader a file descriptor for ever."""
    assert json.loads(output_in_namespace(VANISHED)) == [SUBORDINATE, "leader"]


# -- invalid openings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        frame(bytes(module.QUESTION_BYTES_MAX + 1)),
        frame(b""),
        frame(b"\xc1"),
        frame(b"\x81\xa7purpose\xa2\xff\xfe"),  # no UTF-8, of which the decoder says so in an error of its own
        frame(b"\x91" * 60),
        frame(msgspec.msgpack.encode({"purpose": "steal"})),
        frame(msgspec.msgpack.encode({"purpose": "ask", "topic": "x" * 33})),
        bytes(200_000),
    ],
)
async def test_a_malformed_or_oversized_opening_is_counted_and_dropped(
    monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(module, "OPENING_S_MAX", 10 * WAIT_S_MAX)  # it must not take its time
    async with serving() as served:
        with connected(served.port) as sock:
            sock.sendall(data)
            await until(lambda: served.counters.dropped["stream_malformed"] == 1, "it is counted")
            assert await is_closed(sock)
        assert served.closed == []
        assert await node(SUBORDINATE, served.port).ask(LEADER, STATUS, WAIT_S_MAX) == b"{}"


async def test_no_opening_crashes_the_node() -> None:
    """Random changes of a valid one, and random values of the same format."""
    chance = Random(1)
    real = msgspec.msgpack.encode({"purpose": "ask", "topic": "status"})
    async with serving() as served:
        for number in range(500):
            printed = bytearray(real if chance.random() < 0.7 else chance.randbytes(chance.randrange(1, 64)))
            for _ in range(chance.randrange(4)):
                printed[chance.randrange(len(printed))] = chance.randrange(256)
            with connected(served.port) as sock:
                sock.sendall(frame(bytes(printed)))
            if number % 20 == 0:
                assert await node(SUBORDINATE, served.port).ask(LEADER, STATUS, WAIT_S_MAX) == b"{}"


@pytest.mark.parametrize("data", [b"", EDGE[:2], EDGE[:-1]])
async def test_a_partial_opening_is_counted(data: bytes) -> None:
    async with serving() as served:
        with connected(served.port) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            assert await is_closed(sock)
        assert served.counters.dropped == {"stream_malformed": 1}


async def test_a_slow_opening_is_counted_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPENING_S_MAX", 0.2)
    async with serving() as served:
        with connected(served.port) as sock:
            sock.sendall(EDGE[:-1])
            assert await is_closed(sock)
        assert served.counters.dropped == {"stream_malformed": 1}


async def test_a_connection_reset_before_it_is_accepted_is_counted() -> None:
    with listener() as listening:
        served = Served(listening)
        for _ in range(20):
            with connected(served.port) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.streams.serve, listening)
            assert await node(SUBORDINATE, served.port).ask(LEADER, STATUS, WAIT_S_MAX) == b"{}"
            await until(lambda: served.counters.dropped["stream_malformed"] == 20, "all are counted")
            nursery.cancel_scope.cancel()


async def test_an_address_outside_the_network_is_not_served() -> None:
    async with serving() as served:
        with connected(served.port, STRANGER) as sock:
            sock.sendall(EDGE)
            assert await is_closed(sock)
        assert served.counters.dropped == {"stream_outside_network": 1}
        assert served.closed == []


async def test_the_number_of_streams_is_bounded() -> None:
    async with serving(streams_max=3) as served:
        with connected(served.port, "127.0.0.3") as a, connected(served.port, "127.0.0.4") as b:
            with connected(served.port, "127.0.0.5") as c:
                for each in (a, b, c):
                    each.sendall(EDGE)
                await until(lambda: len(served.streams._edges) == 3, "three edges are held")
                with connected(served.port, "127.0.0.6") as refused:
                    assert await is_closed(refused)
                assert served.counters.dropped == {"streams_full": 1}
            await until(lambda: served.closed == ["127.0.0.5"], "one has made room")
            with connected(served.port, "127.0.0.6") as late:
                late.sendall(EDGE)
                await until(lambda: "127.0.0.6" in served.streams._edges, "the next is held")


# -- questions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
async def test_an_answer(size: int) -> None:
    async with serving() as served:
        served.answer = bytes(size)
        topics: tuple[Topic, ...] = ("roster", "why", "status")
        for topic in topics:
            assert await node(SUBORDINATE, served.port).ask(LEADER, Question(topic), WAIT_S_MAX) == bytes(size)


async def test_many_questions_at_once_are_all_answered() -> None:
    async with serving() as served:
        served.answer = bytes(100_000)
        answers: list[bytes | AskFailure] = []
        async with trio.open_nursery() as nursery:
            for _ in range(5 * PLACES_MAX):

                @nursery.start_soon
                async def ask() -> None:
                    answers.append(await node(SUBORDINATE, served.port).ask(LEADER, Question("roster"), WAIT_S_MAX))

        assert answers == [bytes(100_000)] * (5 * PLACES_MAX)


async def test_answers_that_are_not_read_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPENING_S_MAX", 1.5)
    made: list[int] = []

    async def answer(_: Question) -> bytes:
        await trio.lowlevel.checkpoint()
        made.append(1)
        return bytes(module.ANSWER_BYTES_MAX)

    async with serving() as served:
        served.streams._answer = answer
        ends = [(f"127.0.1.{number}", 0) for number in range(1, 21)]
        callers = [socket.create_connection((LEADER, served.port), WAIT_S_MAX, end) for end in ends]
        for each in callers:
            each.sendall(frame(msgspec.msgpack.encode(Opening("ask", "roster"))))
        waiting = len(callers) - PLACES_MAX
        await until(lambda: served.streams._places.waiting("roster") == waiting, "the others wait")
        assert len(made) == PLACES_MAX
        await until(lambda: served.streams._open == 0, "all were sent away")
        assert served.counters.dropped == {"answer_too_slow": len(callers)}
        assert len(served.streams._places) == 0
        for each in callers:
            each.close()


def asking(port: int, topic: str, budget_s: float, source: str) -> socket.socket:
    """A raw connection that has sent a question."""
    sock = socket.create_connection((LEADER, port), WAIT_S_MAX, (source, 0))
    sock.sendall(frame(msgspec.msgpack.encode(Opening("ask", topic, (), budget_s))))
    return sock


@asynccontextmanager
async def holding(topics: set[str], **options: Any) -> AsyncIterator[tuple[Served, list[str]]]:
    """A node that never finishes its answers about these topics; the topics of the answers that it began."""
    began: list[str] = []

    async def answer(question: Question) -> bytes:
        await trio.lowlevel.checkpoint()
        began.append(question.topic)
        if question.topic in topics:
            await trio.sleep_forever()
        return b"{}"

    async with serving(**options) as served:
        served.streams._answer = answer
        yield served, began


@pytest.mark.parametrize("topic", ["problems", "keys", "roster"])
async def test_a_peer_that_asks_for_much_holds_one_place(topic: str) -> None:
    async with holding(set()) as (served, began):
        ingress = trio.Event()

        async def answer(question: Question) -> bytes:
            began.append(question.topic)
            await ingress.wait()
            return b"{}"

        served.streams._answer = answer
        held = [asking(served.port, topic, 60.0, SUBORDINATE) for _ in range(2 * PLACES_MAX)]
        await until(lambda: served.streams._open == len(held), "all have come")
        await until(lambda: len(began) > 0 and served.streams._pending.total() == 0, "all have asked")
        with asking(served.port, topic, 0.0, "127.0.0.3"):
            await until(lambda: len(began) == 2, "that of another peer is begun")
            assert began == [topic] * 2
            ingress.set()
        for each in held:
            each.close()


@pytest.mark.parametrize("topic", ["problems", "keys"])
async def test_questions_down_the_tree_do_not_delay_the_roster(topic: str) -> None:
    async with holding({topic}) as (served, began):
        held = [asking(served.port, topic, 60.0, f"127.0.1.{number}") for number in range(1, 2 * PLACES_MAX)]
        await until(lambda: began == [topic] * PLACES_MAX, "all places of this kind are held")
        for other in {"roster", "status", "keys", "problems"} - {topic}:
            question = msgspec.convert({"topic": other}, Question)
            assert await node("127.0.0.3", served.port).ask(LEADER, question, WAIT_S_MAX) == b"{}"
        for each in held:
            each.close()


async def test_the_leader_may_have_several_questions_at_once() -> None:
    async with holding({"problems"}, leader_address=lambda: "127.0.0.9") as (served, began):
        held = [asking(served.port, "problems", 5.0, "127.0.0.9") for _ in range(3)]
        await until(lambda: began == ["problems"] * 3, "each has a place")
        for each in held:
            each.close()


@pytest.mark.parametrize("budget_s", [0.0, 3.0, 60.0])
async def test_an_answer_lasts_no_longer_than_eight_seconds(monkeypatch: pytest.MonkeyPatch, budget_s: float) -> None:
    monkeypatch.setattr(module, "OPENING_S_MAX", 0.1)
    monkeypatch.setattr(module, "PLACE_S_MAX", 0.4)
    given: list[float] = []

    async def answer(question: Question) -> bytes:
        given.append(question.budget_s)
        await trio.sleep_forever()
        raise AssertionError

    async with serving() as served:
        served.streams._answer = answer
        with asking(served.port, "problems", budget_s, SUBORDINATE) as sock:
            assert await is_closed(sock)
        await until(lambda: served.counters.dropped == {"answer_too_slow": 1}, "it is counted")
        assert given == [min(budget_s, 0.4 - 0.1)]


async def test_a_silent_peer_times_out() -> None:
    with listener() as silent:
        asker = node(SUBORDINATE, silent.getsockname()[1])
        began = trio.current_time()
        answer = await asker.ask(LEADER, STATUS, 0.2)
        assert answer == AskFailure("does not answer within 0.2 s")
        assert 0.2 <= trio.current_time() - began < WAIT_S_MAX


@pytest.mark.parametrize("address", [STRANGER, "example.org", "a\0b", ""])
async def test_no_address_outside_the_network_is_asked(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    tried: list[object] = []
    network = Network.parse("127.0.0.0/24")
    asker = node(SUBORDINATE, 7117, is_ours=lambda each: network.position_of(each) is not None)
    with monkeypatch.context() as patched:
        patched.setattr(trio.socket, "socket", lambda *given: tried.append(given))
        assert await asker.ask(address, Question("roster"), WAIT_S_MAX) == AskFailure(
            "is not an address of the network"
        )
    assert tried == []


async def test_a_refused_connection() -> None:
    with listener() as probe:
        port = probe.getsockname()[1]
    assert await node(SUBORDINATE, port).ask(LEADER, STATUS, WAIT_S_MAX) == AskFailure("does not answer")


@over(
    "data",
    [b"", b"\x00\x00", frame(b"hello")[:-1], (module.ANSWER_BYTES_MAX + 1).to_bytes(4, "big"), b"HTTP/1.1 400"],
)
async def test_a_partial_or_invalid_answer(data: bytes) -> None:
    with listener() as listening:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def answer() -> None:
                listening.setblocking(False)
                await trio.lowlevel.wait_readable(listening)
                sock, _ = listening.accept()
                with sock:
                    sock.setblocking(False)
                    await trio.lowlevel.wait_readable(sock)
                    sock.recv(4096)
                    sock.sendall(data)

            answered = await node(SUBORDINATE, listening.getsockname()[1]).ask(LEADER, STATUS, WAIT_S_MAX)
            assert answered == AskFailure("broke off its answer", "broken_off")


# -- between releases -----------------------------------------------------------------------------------------------


async def test_a_newer_daemon_may_add_fields_to_an_opening() -> None:
    later = {"purpose": "ask", "topic": "status", "words": ["x"], "budget_s": 0.5, "colour": {"of": ["the", 1]}}
    async with serving() as served:
        with connected(served.port) as sock:
            sock.sendall(frame(msgspec.msgpack.encode(later)))
            sock.setblocking(False)
            await trio.lowlevel.wait_readable(sock)
            assert sock.recv(4096) == frame(b"{}")
    assert not served.counters.dropped


async def test_an_unknown_topic_is_answered_with_the_version() -> None:
    later = Question("horoscope")  # type: ignore[arg-type]
    async with serving() as served:
        answer = await node(SUBORDINATE, served.port).ask(LEADER, later, WAIT_S_MAX)
    assert answer == AskFailure(f"runs subord {subord.__version__}, which does not know horoscope", "older")
    assert dict(served.counters.dropped) == {"stream_unknown_topic": 1}


@over(
    ("topic", "answer", "reason"),
    [
        ("status", None, "broke off its answer"),
        ("members", None, "broke off its answer: subord 0.1 does not know members"),
        (
            "members",
            b'{"unknown_topic":"members","version":"0.2.0"}',
            "runs subord 0.2.0, which does not know members",
        ),
        ("members", b'{"unknown_topic":"members","version":"\\u001b[2J"}', "broke off its answer"),
        ("members", b'{"unknown_topic":', "broke off its answer"),
    ],
)
def test_the_reason_of_an_older_daemon(topic: Topic, answer: bytes | None, reason: str) -> None:
    kind = "older" if reason.startswith("runs") else "broken_off"
    assert understood(Question(topic), answer) == AskFailure(reason, kind)


def test_the_topics_of_the_first_release() -> None:
    assert TOPICS_OF_0_1 < TOPICS


async def test_a_question_without_a_free_file_descriptor() -> None:
    async with serving() as served:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        first_free = os.dup(0)
        os.close(first_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
        try:
            asker = node(SUBORDINATE, served.port)
            assert await asker.ask(LEADER, STATUS, WAIT_S_MAX) == AskFailure("does not answer")
            assert not await asker.hold_edge(LEADER)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- open files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "soft_then"),
    [
        (1024, 1 << 19, module.STREAMS_MAX, module.STREAMS_MAX + module.FILES_SPARE),
        (1024, resource.RLIM_INFINITY, module.STREAMS_MAX, module.STREAMS_MAX + module.FILES_SPARE),
        (1024, 1024, 1024 - module.FILES_SPARE, 1024),
        (256, 512, 512 - module.FILES_SPARE, 512),
        (20_000, 20_000, module.STREAMS_MAX, 20_000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, module.STREAMS_MAX, resource.RLIM_INFINITY),
        (50, 50, 1, 50),
    ],
)
def test_streams_fit_the_limit_of_open_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int, soft_then: int
) -> None:
    limits = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, fresh: limits.__setitem__(slice(None), fresh))
    assert streams_allowed() == allowed
    assert limits == [soft_then, hard]
