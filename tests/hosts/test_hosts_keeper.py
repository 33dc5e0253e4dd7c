"""The table of hosts at the daemon: when the agent gets it, and the state of the node."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from fake_operators import signed

from subord.core.carriage.documents import HOSTS, NEVER_MS, Document, Documents
from subord.core.carriage.orders import Order
from subord.runtime.counters import Counters
from subord.runtime.frames import frame
from subord.runtime.hosts import state
from subord.runtime.hosts.keeper import AGAIN_S, HostsKeeper
from subord.runtime.hosts.state import Said, State, encode_said, mark_of
from subord.runtime.orders.agent import Done, encode
from subord.runtime.orders.attending import REFUSED_RETRY_S_MAX, RETRY_S_MAX
from subord.services.hosts.table import encode as encode_table
from subord.services.hosts.table import table_of

BODY = encode_table(table_of([("node001", "10.0.0.5")]))
MARK = mark_of(BODY)
APPLIED = frame(encode_said(Said(state.APPLIED))) + encode(Done())


class Stage:
    """A daemon whose agent says what the test wants. `says` None: there is no agent."""

    def __init__(self, path: str) -> None:
        self.documents = Documents()
        self.tracker: Any = SimpleNamespace(on_documents=[], membership=SimpleNamespace(documents=self.documents))
        self.counters = Counters()
        self.says: bytes | None = APPLIED
        self.handed: list[tuple[float, int]] = []
        """When, and the version."""
        agent: Any = self
        self.keeper = HostsKeeper(path, agent, self.tracker, self.counters)

    async def attend(self, document: Document) -> trio.SocketStream | None:
        await trio.lowlevel.checkpoint()
        self.handed.append((trio.current_time(), document.version))
        if self.says is None:
            return None
        ours, theirs = trio.socket.socketpair()
        async with trio.SocketStream(theirs) as stream:
            await stream.send_all(self.says)
        return trio.SocketStream(ours)

    async def publish(self, version: int = 1, body: bytes = BODY) -> None:
        document = signed(Order(HOSTS, version, version, NEVER_MS, body))
        self.documents.merge([document])
        await self.look()

    async def look(self) -> None:
        for tell in self.tracker.on_documents:
            tell([])
        await trio.testing.wait_all_tasks_blocked(0.02)

    @property
    def problems(self) -> list[str]:
        return [each.text for each in self.counters.problems.shown()]


@asynccontextmanager
async def running(path: str = "/etc/hosts") -> AsyncIterator[Stage]:
    stage = Stage(path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.keeper.run)
        await trio.testing.wait_all_tasks_blocked(0.02)
        yield stage
        nursery.cancel_scope.cancel()


@pytest.fixture
def clock() -> trio.abc.Clock:
    """What an agent has said is in the socket at once, so nothing here takes real time."""
    return trio.testing.MockClock(autojump_threshold=0.03)


async def test_without_a_table_nothing_is_done() -> None:
    async with running() as stage:
        assert (stage.keeper.state, stage.handed) == (State(state.NONE), [])


async def test_the_agent_gets_each_version_once(clock: trio.abc.Clock) -> None:
    async with running() as stage:
        await stage.publish()
        assert stage.keeper.state == State(state.APPLIED, 1, MARK)
        await trio.sleep(AGAIN_S - 1)
        await stage.publish(2, b"{}")
        assert stage.keeper.state == State(state.APPLIED, 2, mark_of(b"{}"))
        assert [version for _, version in stage.handed] == [1, 2]


async def test_the_agent_looks_again_because_others_write_the_file(clock: trio.abc.Clock) -> None:
    async with running() as stage:
        await stage.publish()
        stage.says = frame(encode_said(Said(state.APPLIED, notes=("odd",)))) + encode(Done())
        await trio.sleep(AGAIN_S)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(stage.handed) == 2
        assert stage.keeper.state == State(state.APPLIED, 1, MARK, notes=("odd",))
        stage.says = None
        await trio.sleep(AGAIN_S)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert stage.keeper.state.word == state.APPLIED, "the agent is gone, and the lines are there"


async def test_a_table_that_ends_when_it_is_handed_again(clock: trio.abc.Clock) -> None:
    async with running() as stage:
        await stage.publish()
        stage.keeper._attending.hand_again()
        stage.documents.drop([HOSTS])
        await stage.look()
        assert stage.keeper.state == State(state.NONE)


async def test_without_an_agent_it_is_tried_again(clock: trio.abc.Clock) -> None:
    async with running() as stage:
        stage.says = None
        await stage.publish()
        assert stage.keeper.state == State(state.NO_AGENT, 1, MARK)
        await trio.sleep(300)
        pauses = [after - before for (before, _), (after, _) in zip(stage.handed, stage.handed[1:], strict=False)]
        assert max(pauses) <= RETRY_S_MAX
        stage.says = APPLIED
        await trio.sleep(RETRY_S_MAX + 1)
        assert stage.keeper.state == State(state.APPLIED, 1, MARK)
        assert stage.problems == []


@pytest.mark.parametrize(
    ("says", "word", "detail"),
    [
        (encode(Done("denied", refused=True)), state.REFUSED, "the policy of the node does not allow"),
        (encode(Done("replayed")), state.FAILED, ""),
        (encode(Done("malformed")), state.FAILED, ""),
        (frame(encode_said(Said(state.FAILED, "full"))) + encode(Done("failed")), state.FAILED, "full"),
    ],
    ids=["denied", "replayed", "malformed", "full"],
)
async def test_a_fault_is_a_problem_once(clock: trio.abc.Clock, says: bytes, word: str, detail: str) -> None:
    async with running() as stage:
        stage.says = says
        await stage.publish()
        await trio.sleep(3_000)
        found = stage.keeper.state
        assert (found.word, found.version) == (word, 1)
        assert found.detail.startswith(detail)
        assert found.detail
        assert 5 < len(stage.handed) < 20
        assert stage.problems == [found.detail]
        stage.says = APPLIED
        await trio.sleep(REFUSED_RETRY_S_MAX + 1)
        assert stage.keeper.state == State(state.APPLIED, 1, MARK)


async def test_a_refusal_is_not_looked_at_more_often(clock: trio.abc.Clock) -> None:
    """Each time an agent starts."""
    async with running() as stage:
        stage.says = encode(Done("denied", refused=True))
        await stage.publish()
        await trio.sleep(4 * AGAIN_S)
        late = [at for at, _ in stage.handed if at > AGAIN_S / 2]
        assert len(late) > 10
        assert min(after - before for before, after in itertools.pairwise(late)) > REFUSED_RETRY_S_MAX / 4


async def test_another_table_begins_anew(clock: trio.abc.Clock) -> None:
    async with running() as stage:
        stage.says = encode(Done("denied", refused=True))
        await stage.publish()
        stage.says = None
        await stage.publish(2)
        assert stage.keeper.state == State(state.NO_AGENT, 2, MARK)


async def test_a_node_that_follows_no_table_needs_no_agent(clock: trio.abc.Clock) -> None:
    async with running("") as stage:
        await stage.publish()
        await trio.sleep(2 * AGAIN_S)
        assert (stage.keeper.state, stage.handed) == (State(state.OFF), [])
