"""Elastic growth of a node at its daemon: which plan its agent gets, and what is kept of what the agent says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from fake_operators import signed

from subord.core.carriage.documents import ELASTIC, NEVER_MS, Document, Documents
from subord.core.carriage.orders import Order
from subord.runtime.counters import Counters
from subord.runtime.elastic import state
from subord.runtime.elastic.keeper import POLLS_KEPT, ElasticKeeper
from subord.runtime.elastic.state import NodeState, Poll, State
from subord.runtime.elastic.talk import decode_said, encode_poll_soon, encode_said, fitted, is_poll_soon
from subord.runtime.frames import Frames, frame
from subord.runtime.orders import attending
from subord.runtime.orders.agent import Done, encode
from subord.runtime.orders.keeping import AGAIN_S

MANAGES = State(word=state.MANAGES, version=1, batch="gridengine", size=3)


class Conversation:
    """The agent's end of one connection."""

    def __init__(self, document: Document, stream: trio.SocketStream) -> None:
        self.document = document
        self.stream = stream

    async def say(self, *said: State) -> None:
        await self.stream.send_all(b"".join(frame(encode_said(each)) for each in said))
        await settled()

    async def hear(self) -> list[bytes]:
        """All that the daemon has said."""
        found, frames = list[bytes](), Frames(self.stream)
        with trio.move_on_after(0.5):
            while (data := await frames.next(1 << 10)) is not None:
                found.append(data)
        return found

    async def end(self, done: Done | None = None) -> None:
        if done is not None:
            await self.stream.send_all(encode(done))
        await self.stream.aclose()
        await settled()


class Stage:
    """A daemon whose agent is the test. `has_agent`: it can be reached."""

    def __init__(self) -> None:
        self.documents = Documents()
        membership = SimpleNamespace(documents=self.documents)
        self.tracker: Any = SimpleNamespace(on_documents=[], membership=membership)
        self.counters = Counters()
        self.has_agent = True
        self.answer: Done | None = None
        self.attended: list[tuple[float, Conversation]] = []
        agent: Any = self
        self.keeper = ElasticKeeper(agent, self.tracker, self.counters, "gridengine", ("small",))

    async def attend(self, document: Document) -> trio.SocketStream | None:
        await trio.lowlevel.checkpoint()
        if not self.has_agent:
            self.attended.append((trio.current_time(), Conversation(document, None)))  # type: ignore[arg-type]
            return None
        ours, theirs = trio.socket.socketpair()
        self.attended.append((trio.current_time(), Conversation(document, trio.SocketStream(theirs))))
        if self.answer is not None:
            await self.agent.stream.send_all(encode(self.answer))
        return trio.SocketStream(ours)

    async def publish(self, version: int = 1) -> None:
        document = signed(Order(ELASTIC, version, version, NEVER_MS, b"{}"))
        self.documents.merge([document])
        await self.tell(document)

    async def tell(self, *documents: Document) -> None:
        for each in self.tracker.on_documents:
            each(list(documents))
        await settled()

    @property
    def agent(self) -> Conversation:
        return self.attended[-1][1]

    @property
    def state(self) -> State:
        return self.keeper.state

    @property
    def problems(self) -> list[str]:
        return [each.text for each in self.counters.problems.shown()]


async def settled() -> None:
    """All that is to happen at once has happened."""
    await trio.testing.wait_all_tasks_blocked(0.02)


@asynccontextmanager
async def running() -> AsyncIterator[Stage]:
    stage = Stage()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.keeper.run)
        await settled()
        yield stage
        nursery.cancel_scope.cancel()
    for _, each in stage.attended:
        if each.stream is not None:
            await each.stream.aclose()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with running() as stage:
        yield stage


def poll(time: float) -> Poll:
    return Poll(time, 3, 2, 1, 8, 60.0, 5.0, 0.5)


async def test_without_a_plan_the_agent_is_left_alone(stage: Stage) -> None:
    assert (stage.state, stage.attended) == (State(word=state.NONE), [])
    assert (stage.keeper.batch, stage.keeper.kinds) == ("gridengine", ("small",))


async def test_the_last_state_and_all_polls_are_kept(stage: Stage) -> None:
    await stage.publish()
    assert stage.state == State(word=state.STARTING, version=1), "the agent has not spoken"
    await stage.agent.say(MANAGES)
    assert stage.state == MANAGES
    later = msgspec.structs.replace(MANAGES, size=4, at=20.0)
    await stage.agent.say(
        msgspec.structs.replace(MANAGES, polls=(poll(10.0),)), msgspec.structs.replace(later, polls=(poll(20.0),))
    )
    assert stage.state == later, "without the polls, which stand beside it"
    assert list(stage.keeper.polls) == [poll(10.0), poll(20.0)]


async def test_polls_of_a_clock_that_was_set_back_are_kept(stage: Stage) -> None:
    await stage.publish()
    for time in (5000.0, 1000.0, 1060.0):
        await stage.agent.say(msgspec.structs.replace(MANAGES, polls=(poll(time),)))
    assert [each.time for each in stage.keeper.polls] == [5000.0, 1000.0, 1060.0]


async def test_polls_that_come_again_count_once_and_the_last_ones_stay(stage: Stage) -> None:
    """The agent sends those that it keeps on each new connection."""
    await stage.publish()
    times = range(1, POLLS_KEPT + 101)
    for first in range(0, len(times), 100):
        await stage.agent.say(msgspec.structs.replace(MANAGES, polls=tuple(map(poll, times[first : first + 100]))))
    await stage.agent.say(msgspec.structs.replace(MANAGES, polls=tuple(map(poll, times[-100:]))))
    assert [each.time for each in stage.keeper.polls] == list(times[-POLLS_KEPT:])


async def test_without_an_agent_the_figures_stay_and_it_is_tried_again(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    await stage.publish()
    await stage.agent.say(MANAGES)
    await trio.sleep(attending.STEADY_S)
    stage.has_agent = False
    began = trio.current_time()
    await stage.agent.end()
    assert stage.state == msgspec.structs.replace(MANAGES, word=state.NO_AGENT)
    await trio.sleep(100)
    assert [round(at - began) for at, _ in stage.attended[1:]] == [1, 3, 7, 15, 31, 61, 91]
    stage.has_agent = True
    await trio.sleep(attending.RETRY_S_MAX)
    await stage.agent.say(MANAGES)
    assert stage.state == MANAGES
    assert not stage.problems, "an agent may be started again"


@pytest.mark.parametrize("word", [state.OFF, state.OTHER_NODE])
async def test_an_agent_with_no_further_part_is_left_alone(
    stage: Stage, autojump_clock: trio.testing.MockClock, word: str
) -> None:
    """Else each node of the cluster would have a connection, or an agent that is started again and again."""
    await stage.publish()
    await stage.agent.say(State(word=word, version=1))
    await stage.agent.end(Done(principal="ann"))
    await trio.sleep(AGAIN_S - 1)
    assert stage.state == State(word=word, version=1)
    assert len(stage.attended) == 1
    await trio.sleep(2)
    assert len(stage.attended) == 2, "the agent may have lost its files, or the policy of the node may be another"
    assert stage.state == State(word=word, version=1), "nothing has changed yet"
    await stage.agent.end(Done("denied", refused=True))
    assert stage.state.word == state.REFUSED
    await stage.publish(2)
    assert stage.agent.document.version == 2


async def test_a_refusal_is_told_and_seldom_tried_again(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    await stage.publish()
    await stage.agent.end(Done("denied", principal="ann", refused=True))
    assert stage.state.word == state.REFUSED
    assert stage.state.detail == "the policy of the node does not allow the operator to use the service as this user"
    assert stage.problems == [stage.state.detail]
    stage.answer = Done("denied", principal="ann", refused=True)
    await trio.sleep(3_600)
    pauses = [round(after[0] - before[0]) for before, after in pairwise(stage.attended)]
    assert pauses[:3] == [1, 2, 4]
    assert max(pauses) == attending.REFUSED_RETRY_S_MAX
    assert len(stage.problems) == 1


async def test_the_reason_of_a_failure_outlives_its_connection(stage: Stage) -> None:
    await stage.publish()
    await stage.agent.say(State(word=state.FAILED, version=1, detail="elastic.key is empty"))
    await stage.agent.end(Done("failed", principal="ann"))
    assert stage.state == State(word=state.FAILED, version=1, detail="elastic.key is empty")
    assert stage.problems == ["elastic.key is empty"]


async def test_an_older_plan_than_the_agent_has_is_a_failure_with_its_reason(stage: Stage) -> None:
    await stage.publish()
    await stage.agent.end(Done("replayed", principal="ann"))
    assert stage.state.word == state.FAILED
    assert stage.state.detail.startswith("this node holds a newer version")


async def test_each_new_fault_is_a_problem_of_the_node_once(stage: Stage) -> None:
    await stage.publish()
    lost = msgspec.structs.replace(MANAGES, fault="qstat has not answered")
    nodes = (NodeState(name="node001", fault="no address", tries=1), NodeState(name="node002"))
    stuck = msgspec.structs.replace(lost, nodes=nodes)
    tried = (msgspec.structs.replace(nodes[0], tries=2), nodes[1])
    await stage.agent.say(lost, lost, stuck, msgspec.structs.replace(stuck, nodes=tried))
    found = [(each.kind, each.text, each.times) for each in stage.counters.problems.shown()]
    assert sorted(found) == [("elastic", "node001: no address", 1), ("elastic", "qstat has not answered", 1)]


async def test_another_plan_has_a_connection_of_its_own(stage: Stage) -> None:
    await stage.publish()
    await stage.agent.say(MANAGES)
    first = stage.agent
    await stage.publish(2)
    with trio.fail_after(5):
        assert await Frames(first.stream).next(1 << 16) is None
    assert stage.agent.document.version == 2
    assert stage.state == State(word=state.STARTING, version=2)


async def test_a_plan_of_a_revoked_operator_is_followed_no_more(stage: Stage) -> None:
    """The members drop what it has signed."""
    await stage.publish()
    await stage.agent.say(MANAGES)
    stage.documents.drop([ELASTIC])
    await stage.tell()
    with trio.fail_after(5):
        assert await Frames(stage.agent.stream).next(1 << 16) is None
    assert stage.state == State(word=state.NONE)
    assert len(stage.attended) == 1


@pytest.mark.parametrize("last", [frame(encode_said(MANAGES)), encode(Done("denied", refused=True))])
async def test_what_the_agent_says_as_its_plan_ends_counts_no_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, last: bytes
) -> None:
    """Its words have come, but the task that reads them does not run until the plan has ended."""
    received = Frames.next

    async def late(frames: Frames, bytes_max: int) -> bytes | None:
        data = await received(frames, bytes_max)
        stage.documents.drop([ELASTIC])
        nursery: Any = None
        stage.keeper._attending._look(None, nursery)
        return data

    monkeypatch.setattr(Frames, "next", late)
    await stage.publish()
    await stage.agent.stream.send_all(last)
    await settled()
    assert stage.state == State(word=state.NONE)


@pytest.mark.parametrize("said", [b"\xff", b"", encode_said(MANAGES)[:-1]])
async def test_an_agent_that_says_nonsense_is_left(stage: Stage, said: bytes) -> None:
    await stage.publish()
    await stage.agent.stream.send_all(frame(said))
    await settled()
    assert stage.state == State(word=state.NO_AGENT, version=1)


def test_what_is_too_long_is_cut_before_it_is_said() -> None:
    """A daemon would read nothing of a State beyond its bounds, and the operator would see no reason."""
    long, many = "ä" * 900, 600
    node = NodeState(name=long, fault=long, address=long, stage=long, kind=long)
    said = State(
        word=state.FAILED,
        detail=long,
        fault=long,
        batch=long,
        queue=long,
        master=long,
        why=(long,) * 99,
        nodes=(node,) * many,
        left_out=1,
        polls=tuple(map(poll, range(150))),
    )
    found = decode_said(encode_said(said))
    assert found is not None
    assert found.state == fitted(said)
    assert len(found.state.detail) == state.TEXT_CHARS_MAX
    assert found.state.left_out == 1 + many - state.NODES_MAX
    assert found.state.polls[-1] == said.polls[-1]


async def test_the_agent_that_manages_is_asked_to_poll(stage: Stage) -> None:
    assert not await stage.keeper.poll_soon(), "there is no plan"
    await stage.publish()
    assert not await stage.keeper.poll_soon(), "it has not said yet that it manages"
    await stage.agent.say(MANAGES)
    assert await stage.keeper.poll_soon()
    assert await stage.keeper.poll_soon()
    heard = await stage.agent.hear()
    assert len(heard) == 2
    assert all(map(is_poll_soon, heard))
    await stage.agent.end()
    assert not await stage.keeper.poll_soon()


async def test_the_agent_of_a_newer_plan_is_asked(stage: Stage) -> None:
    await stage.publish(1)
    first = stage.agent
    await first.say(MANAGES)
    await stage.publish(2)
    await stage.agent.say(MANAGES)
    assert stage.agent is not first
    assert await stage.keeper.poll_soon()
    assert len(await stage.agent.hear()) == 1
    assert await first.hear() == []


async def test_many_that_ask_at_once_wait_for_nothing(stage: Stage) -> None:
    """An agent that reads nothing holds up no program of Slurm."""
    await stage.publish()
    await stage.agent.say(MANAGES)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(stage.keeper.poll_soon)
    assert len(await stage.agent.hear()) < 1000


@pytest.mark.parametrize("data", [b"", b"\xc1", encode_said(MANAGES), b"\x91\xa5other"])
def test_what_else_a_daemon_says_asks_for_no_poll(data: bytes) -> None:
    assert is_poll_soon(encode_poll_soon())
    assert not is_poll_soon(data)
    assert decode_said(encode_poll_soon()) is None


def test_each_word_has_a_sentence() -> None:
    assert set(state.WORDS) == set(state.SENTENCES)
