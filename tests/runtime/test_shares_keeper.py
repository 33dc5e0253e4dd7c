"""The shares of a node at its daemon: which document it follows, what its agent is asked and given, and its state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from fake_operators import signed

from subord.core.carriage.documents import SHARES, Document, Documents
from subord.core.carriage.engine.interface import PartEvent
from subord.core.carriage.shares.interface import Branch, Measure, Measured, Obey, Planned
from subord.core.carriage.shares.plan import Plan, order_of, read
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, frame
from subord.runtime.orders.agent import Done, encode
from subord.runtime.shares import keeper as keepers
from subord.runtime.shares import state
from subord.runtime.shares.keeper import SharesKeeper
from subord.runtime.shares.state import State
from subord.runtime.shares.talk import Ask, Give, Said, decode_asked, encode_talk
from subord.services.shares.bank import Bank
from subord.services.shares.dividing import Dividing

WANTED = (("web", 60_000), ("rest", 40_000))
SAID = Said((60_000, 40_000), (50_000, 1_000), (True, False))
BRANCH = Branch([60.0, 40.0], [50.0, 1.0], (True, False), 1)


class Conversation:
    """The agent's end of one connection."""

    def __init__(self, document: Document, stream: trio.SocketStream) -> None:
        self.document = document
        self.stream = stream
        self._frames = Frames(stream)

    async def heard(self) -> Ask | Give | None:
        data = await self._frames.next(1 << 16)
        return None if data is None else decode_asked(data)

    async def say(self, said: Said) -> None:
        await self.stream.send_all(frame(encode_talk(said)))
        await settled()

    async def end(self, done: Done) -> None:
        await self.stream.send_all(encode(done))
        await settled()


class Stage:
    """A daemon whose agent is the test. `has_agent`: it can be reached."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self.documents = Documents()
        membership = SimpleNamespace(documents=self.documents)
        self.tracker: Any = SimpleNamespace(on_documents=[], membership=membership)
        self.counters = Counters()
        self.has_agent = True
        self.is_connected = trio.Event()
        self.attended: list[tuple[float, Conversation]] = []
        self.events: list[PartEvent] = []
        agent: Any = self
        self.keeper = SharesKeeper(Dividing(Bank()), classes, agent, self.tracker, self.counters)
        self.keeper.feed = self.events.append

    async def attend(self, document: Document) -> trio.SocketStream | None:
        await trio.lowlevel.checkpoint()
        if not self.has_agent:
            self.attended.append((trio.current_time(), Conversation(document, None)))  # type: ignore[arg-type]
            return None
        self.is_connected.set()
        ours, theirs = trio.socket.socketpair()
        self.attended.append((trio.current_time(), Conversation(document, trio.SocketStream(theirs))))
        return trio.SocketStream(ours)

    async def publish(self, version: int = 1, shares: tuple[tuple[str, int], ...] = WANTED) -> Plan:
        document = signed(order_of(version, version, 1000, shares))
        self.documents.merge([document])
        for tell in self.tracker.on_documents:
            tell([document])
        await settled()
        plan = read(document.order)
        assert plan is not None
        return plan

    def do(self, action: Measure | Obey) -> None:
        self.keeper.actions[type(action)](action)

    @property
    def agent(self) -> Conversation:
        return self.attended[-1][1]

    def new(self) -> list[PartEvent]:
        """Events since the last call."""
        found, self.events[:] = list(self.events), []
        return found


async def settled() -> None:
    """All that is to happen at once has happened."""
    await trio.testing.wait_all_tasks_blocked(0.02)


@asynccontextmanager
async def running(*classes: str) -> AsyncIterator[Stage]:
    stage = Stage(classes)
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
    async with running("web", "rest") as stage:
        yield stage


async def test_without_a_document_nothing_is_done(stage: Stage) -> None:
    assert stage.keeper.state == State(state.NONE)
    assert (stage.events, stage.attended) == ([], [])


async def test_a_round_with_the_agent(stage: Stage) -> None:
    plan = await stage.publish()
    assert stage.new() == [Planned(plan)]
    assert stage.keeper.state == State(state.STARTING)
    stage.do(Obey(plan, (60.0, 40.0)))
    assert await stage.agent.heard() == Give((60_000, 40_000))
    stage.do(Measure(plan))
    assert await stage.agent.heard() == Ask()
    await stage.agent.say(Said())
    assert stage.new() == [Measured(plan, None)]
    assert stage.keeper.state == State(state.STARTING), "the first reading has nothing before it"
    stage.do(Measure(plan))
    assert await stage.agent.heard() == Ask()
    await stage.agent.say(SAID)
    assert stage.new() == [Measured(plan, BRANCH)]
    assert stage.keeper.state == State(state.OBEYS)


async def test_a_row_that_came_before_the_agent_is_given_first(stage: Stage) -> None:
    stage.has_agent = False
    plan = await stage.publish()
    stage.do(Obey(plan, (70.0, 30.0)))
    stage.has_agent = True
    with trio.fail_after(5):
        await stage.is_connected.wait()
    assert await stage.agent.heard() == Give((70_000, 30_000))


async def test_only_the_last_row_is_given_to_a_slow_agent(stage: Stage) -> None:
    plan = await stage.publish()
    for share in (60.0, 50.0, 40.0):
        stage.do(Obey(plan, (share, 100 - share)))
    assert await stage.agent.heard() == Give((40_000, 60_000))


async def test_rows_that_change_all_the_time_do_not_fill_the_connection(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """A leader may send any rows, and for each the agent may have to call systemd."""
    plan = await stage.publish()
    for share in range(1, 100):
        stage.do(Obey(plan, (share, 100 - share)))
        await trio.sleep(0.01)
    stage.do(Measure(plan))
    await trio.sleep(1)
    found = list[Ask | Give | None]()
    with trio.move_on_after(1):
        while True:
            found.append(await stage.agent.heard())
    assert len(found) <= 6, "four rows a second, and the question"
    assert found[-2:] == [Ask(), Give((99_000, 1_000))], "a question does not wait for a row"


async def test_no_agent_is_said_and_tried_again_with_pauses_that_double(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    stage.has_agent = False
    plan = await stage.publish()
    stage.new()
    assert stage.keeper.state == State(state.NO_AGENT)
    stage.do(Measure(plan))
    assert stage.new() == [], "not within the event that asks for it"
    await settled()
    assert stage.new() == [Measured(plan, None)]
    began = stage.attended[0][0]
    await trio.sleep(100)
    assert [round(at - began) for at, _ in stage.attended] == [0, 1, 3, 7, 15, 31, 61, 91]


async def test_a_fault_is_a_problem_of_the_node_until_it_ends(stage: Stage) -> None:
    plan = await stage.publish()
    stage.new()
    for _ in range(3):
        await stage.agent.say(Said(fault="no controller"))
    assert stage.keeper.state == State(state.FAILED, "no controller")
    assert stage.new() == [Measured(plan, None)] * 3
    (problem,) = stage.counters.problems.shown()
    assert (problem.kind, problem.text, problem.times) == ("shares", "no controller", 1)
    await stage.agent.say(SAID)
    assert stage.keeper.state == State(state.OBEYS)


async def test_a_measurement_that_makes_no_sense_is_a_fault(stage: Stage) -> None:
    """The part of the carriage would drop it without a word to the operator, and the node would seem to obey."""
    plan = await stage.publish()
    stage.new()
    await stage.agent.say(Said((60_000, 40_000), (90_000, 90_000), (True, False)))
    assert stage.keeper.state == State(state.FAILED, "the agent reports a usage below 0, or above 100 percent in all")
    assert stage.new() == [Measured(plan, None)]
    await stage.agent.say(Said((60_000,), (50_000,), (True,)))
    assert stage.keeper.state == State(state.FAILED, "the agent reports other classes than the 2 wanted ones")
    await stage.agent.say(SAID)
    assert stage.keeper.state == State(state.OBEYS)


async def test_a_refusal_is_said_with_its_reason(stage: Stage) -> None:
    await stage.publish()
    await stage.agent.end(Done("denied", principal="ann", refused=True))
    assert stage.keeper.state == State(
        state.REFUSED, "the policy of the node does not allow the operator to use the service as this user"
    )


async def test_the_reason_of_a_failure_outlives_its_connection(stage: Stage) -> None:
    for version, shares in ((1, None), (2, ())):
        await (stage.publish(version) if shares is None else stage.publish(version, shares=shares))
        stage.new()
        await stage.agent.say(Said(fault="no space"))
        await stage.agent.end(Done("failed", principal="ann"))
        assert stage.keeper.state == State(state.FAILED, "no space")
        assert all(isinstance(each, Measured) and shares is None for each in stage.new())
    assert [each.text for each in stage.counters.problems.shown()] == ["no space"]


async def test_an_agent_that_does_not_answer_has_no_part(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    plan = await stage.publish()
    stage.new()
    for _ in range(5):
        stage.do(Measure(plan))
        await trio.sleep(1.0)
    assert stage.new() == []
    stage.do(Measure(plan))
    await settled()
    assert stage.new() == [Measured(plan, None)]
    assert stage.keeper.state == State(state.FAILED, keepers.NO_ANSWER)
    assert "from before" not in state.SENTENCES[state.FAILED], "those that the agent has set may be in force"
    assert await stage.agent.heard() == Ask()
    with trio.move_on_after(1):
        raise AssertionError(f"a second question: {await stage.agent.heard()}")


async def test_a_connection_that_another_has_overtaken_obeys_no_more(stage: Stage) -> None:
    plan = await stage.publish()
    await stage.agent.say(SAID)
    assert stage.keeper.state == State(state.OBEYS)
    await stage.agent.end(Done(principal="ann"))
    assert stage.keeper.state == State(state.STARTING)
    assert stage.new()[-1] == Measured(plan, None)


async def test_another_document_has_a_connection_of_its_own(stage: Stage) -> None:
    await stage.publish()
    first = stage.agent
    second = await stage.publish(2)
    assert await first.heard() is None
    assert stage.agent.document.version == 2
    assert stage.new()[-1] == Planned(second)


@pytest.mark.slow
async def test_off_is_told_once(stage: Stage) -> None:
    await stage.publish()
    await stage.publish(2, shares=())
    stage.do(Obey(None))
    await stage.agent.end(Done(principal="ann"))
    assert stage.keeper.state == State(state.OFF)
    await trio.sleep(keepers.RETRY_S * 1.5)
    assert len(stage.attended) == 2


async def test_off_needs_no_agent(stage: Stage) -> None:
    stage.has_agent = False
    await stage.publish(shares=())
    assert stage.keeper.state == State(state.OFF, keepers.OFF_ALONE)


async def test_a_document_that_counts_no_more_is_followed_no_more(stage: Stage) -> None:
    await stage.publish()
    stage.documents.drop([SHARES])
    for tell in stage.tracker.on_documents:
        tell([])
    await settled()
    assert stage.new()[-1] == Planned(None)
    assert await stage.agent.heard() is None
    assert stage.keeper.state == State(state.NONE)


@pytest.mark.parametrize(
    "last", [frame(encode_talk(SAID)), encode(Done("denied", refused=True))], ids=["said", "done"]
)
async def test_what_the_agent_says_as_its_document_ends_counts_no_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, last: bytes
) -> None:
    """Its words have come, but the task that reads them does not run until the document has ended."""
    received = Frames.next

    async def late(frames: Frames, bytes_max: int) -> bytes | None:
        data = await received(frames, bytes_max)
        stage.documents.drop([SHARES])
        stage.keeper._look(None)
        return data

    monkeypatch.setattr(Frames, "next", late)
    await stage.publish()
    stage.new()
    await stage.agent.stream.send_all(last)
    await settled()
    assert stage.keeper.state == State(state.NONE)
    assert stage.new() == [Planned(None)]


async def test_a_missing_agent_is_not_said_of_a_document_that_has_ended(stage: Stage) -> None:
    async def late(_: Document) -> None:
        await trio.lowlevel.checkpoint()
        stage.documents.drop([SHARES])
        stage.keeper._look(None)

    stage.attend = late  # type: ignore[method-assign]
    document = signed(order_of(1, 1, 1000, WANTED))
    stage.documents.merge([document])
    stage.keeper._look(document)
    await settled()
    assert stage.keeper.state == State(state.NONE)


async def test_a_question_after_the_end_of_the_daemon_is_left() -> None:
    """Streams that end after it still wake the engine."""
    async with running() as stage:
        plan = await stage.publish()
    stage.do(Measure(plan))
    assert stage.keeper.state == State(state.NO_CLASSES)


async def test_a_node_without_classes_needs_no_agent() -> None:
    async with running() as stage:
        plan = await stage.publish()
        stage.do(Obey(plan, (60.0, 40.0)))
        stage.do(Measure(plan))
        await settled()
        assert stage.new() == [Planned(plan), Measured(plan, None)]
        assert stage.keeper.state == State(state.NO_CLASSES)
        assert not stage.attended


@pytest.mark.parametrize("said", [b"\xff", b"", encode_talk(Said())[:-1]])
async def test_an_agent_that_says_nonsense_is_left(stage: Stage, said: bytes) -> None:
    plan = await stage.publish()
    stage.new()
    await stage.agent.stream.send_all(frame(said))
    await settled()
    assert stage.keeper.state.word == state.NO_AGENT
    assert stage.new() == [Measured(plan, None)]
