"""Virtual machines of a node at its daemon: which plan its agent gets, what is kept of what the agent says, and the
bounds of that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from fake_operators import signed

from subord.core.carriage.documents import MACHINES, NEVER_MS, Document, Documents
from subord.core.carriage.orders import Order
from subord.runtime.counters import Counters
from subord.runtime.frames import frame
from subord.runtime.machines import state
from subord.runtime.machines.keeper import MachinesKeeper
from subord.runtime.machines.state import (
    Action,
    Amount,
    JobState,
    KindCount,
    MachineState,
    Pool,
    SeenServer,
    ServerState,
    State,
    Totals,
)
from subord.runtime.machines.talk import (
    FRAME_BYTES_MAX,
    Said,
    SaidServer,
    decode_said,
    encode_said,
    encode_server,
)
from subord.runtime.orders import attending
from subord.runtime.orders.agent import Done, encode
from subord.runtime.orders.keeping import AGAIN_S

MANAGES = State(word=state.MANAGES, version=1, batch="gridengine", round=3)
SERVER = ServerState(name="10.0.0.2", at=1.0, machines=(MachineState(name="alma-1", state="on"),))


class Stage:
    """A daemon whose agent is the test. `has_agent`: it can be reached."""

    def __init__(self, uri: str = "") -> None:
        self.documents = Documents()
        self.tracker: Any = SimpleNamespace(on_documents=[], membership=SimpleNamespace(documents=self.documents))
        self.counters = Counters()
        self.has_agent = True
        self.attended: list[trio.SocketStream] = []
        agent: Any = self
        self.keeper = MachinesKeeper(agent, self.tracker, self.counters, uri, "gridengine")

    async def attend(self, _: Document) -> trio.SocketStream | None:
        await trio.lowlevel.checkpoint()
        if not self.has_agent:
            return None
        ours, theirs = trio.socket.socketpair()
        self.attended.append(trio.SocketStream(theirs))
        return trio.SocketStream(ours)

    async def publish(self, version: int = 1) -> None:
        document = signed(Order(MACHINES, version, version, NEVER_MS, b"{}"))
        self.documents.merge([document])
        await self.tell(document)

    async def revoke(self) -> None:
        self.documents.drop([MACHINES])
        await self.tell()

    async def tell(self, *documents: Document) -> None:
        for each in self.tracker.on_documents:
            each(list(documents))
        await settled()

    async def say(self, *said: bytes) -> None:
        await self.attended[-1].send_all(b"".join(map(frame, said)))
        await settled()

    async def end(self, done: Done | None = None) -> None:
        if done is not None:
            await self.attended[-1].send_all(encode(done))
        await self.attended[-1].aclose()
        await settled()

    @property
    def problems(self) -> list[str]:
        return [each.text for each in self.counters.problems.shown()]


async def settled() -> None:
    """All that is to happen at once has happened."""
    await trio.testing.wait_all_tasks_blocked(0.02)


@asynccontextmanager
async def running(uri: str = "") -> AsyncIterator[Stage]:
    stage = Stage(uri)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.keeper.run)
        await settled()
        yield stage
        nursery.cancel_scope.cancel()
    for each in stage.attended:
        await each.aclose()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with running("qemu:///system") as stage:
        yield stage


# -- what is kept ---------------------------------------------------------------------------------------------------


async def test_without_a_plan_the_agent_is_left_alone(stage: Stage) -> None:
    assert (stage.keeper.state, stage.keeper.server, stage.attended) == (State(word=state.NONE), None, [])
    assert (stage.keeper.uri, stage.keeper.batch) == ("qemu:///system", "gridengine")


async def test_the_last_state_and_the_last_server_are_kept(stage: Stage) -> None:
    await stage.publish()
    assert stage.keeper.state == State(word=state.STARTING, version=1)
    await stage.say(encode_said(MANAGES), encode_server(SERVER))
    assert (stage.keeper.state, stage.keeper.server) == (MANAGES, SERVER)
    await stage.say(encode_server(msgspec.structs.replace(SERVER, at=2.0)))
    assert stage.keeper.server is not None
    assert (stage.keeper.state, stage.keeper.server.at) == (MANAGES, 2.0)


async def test_what_was_told_stays_without_an_agent(stage: Stage) -> None:
    """With another plan the machines of the server are the same."""
    await stage.publish()
    await stage.say(encode_said(MANAGES), encode_server(SERVER))
    stage.has_agent = False
    await stage.end()
    assert (stage.keeper.state.word, stage.keeper.state.round) == (state.NO_AGENT, 3)
    assert stage.keeper.server == SERVER
    await stage.publish(2)
    assert (stage.keeper.state.round, stage.keeper.server) == (0, SERVER)
    await stage.revoke()
    assert (stage.keeper.state.word, stage.keeper.server) == (state.NONE, None)


@pytest.mark.parametrize(("uri", "attended"), [("", 1), ("qemu:///system", 2)])
async def test_the_agent_of_a_server_is_not_done_with_a_plan(
    uri: str, attended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the plan is ended, so that they are known."""
    monkeypatch.setattr(attending, "RETRY_S", 0.01)
    async with running(uri) as stage:
        await stage.publish()
        await stage.say(encode_said(State(word=state.OFF, version=1)))
        await stage.end(Done())
        await trio.sleep(0.1)
        assert len(stage.attended) == attended


async def test_another_node_gets_the_plan_again_each_hour(autojump_clock: trio.testing.MockClock) -> None:
    async with running() as stage:
        await stage.publish()
        await stage.say(encode_said(State(word=state.OTHER_NODE, version=1)))
        await stage.end(Done())
        assert len(stage.attended) == 1
        await trio.sleep(AGAIN_S + 1)
        assert len(stage.attended) == 2


async def test_new_faults_are_problems(stage: Stage) -> None:
    await stage.publish()
    fault, other = "libvirt at qemu:///system cannot be reached", "no image"
    machine = MachineState(name="alma-1", fault=other)
    for _ in range(2):
        await stage.say(encode_server(msgspec.structs.replace(SERVER, fault=fault, machines=(machine,))))
        await stage.say(encode_said(msgspec.structs.replace(MANAGES, fault="no qmaster")))
    assert sorted(stage.problems) == ["alma-1: no image", fault, "no qmaster"]


async def test_a_plan_that_the_agent_refuses_or_cannot_follow(stage: Stage) -> None:
    await stage.publish()
    await stage.end(Done("denied", refused=True))
    assert stage.keeper.state.word == state.REFUSED
    await stage.publish(2)
    await stage.say(encode_said(State(word=state.FAILED, version=2, detail="the disk is full")))
    await stage.end(Done("failed"))
    assert (stage.keeper.state.word, stage.keeper.state.detail) == (state.FAILED, "the disk is full")
    assert "the disk is full" in stage.problems


# -- bounds ---------------------------------------------------------------------------------------------------------


def state_of(data: bytes) -> State:
    said = decode_said(data)
    assert isinstance(said, Said)
    return said.state


def test_what_cannot_be_read_is_the_end() -> None:
    assert decode_said(b"x") is None
    assert decode_said(encode(Done())[4:]) is None


def test_numbers_are_within_their_bounds() -> None:
    wild = State(
        word=state.MANAGES,
        at=-inf,
        next_at=nan,
        round=-4,
        life=1 << 60,
        used=Amount(-(1 << 60), 1, 2, 3),
        totals=Totals(messages=-1, refused=7),
        kinds=(KindCount(type="t", on=-1, off=2),),
    )
    found = state_of(encode_said(wild))
    assert (found.at, found.next_at, found.round, found.life) == (0.0, 0.0, 0, state.COUNT_MAX)
    assert (found.used, found.totals.messages, found.totals.refused) == (Amount(-state.COUNT_MAX, 1, 2, 3), 0, 7)
    assert (found.kinds[0].on, found.kinds[0].off) == (0, 2)


def test_lists_are_cut_and_counted() -> None:
    told = State(
        word=state.MANAGES,
        detail="d" * 500,
        queues=("q" * 200,) * 300,
        lacking=("t",) * 100,
        notes=("n" * 500,) * 50,
        jobs=tuple(JobState(id="j", why="w" * 500) for _ in range(1100)),
        jobs_left_out=3,
        actions=tuple(Action(at=1.0, kind="open", machine="m" * 200) for _ in range(210)),
        servers=tuple(SeenServer(name="s", kinds=(KindCount(type="k"),) * 70) for _ in range(510)),
        kinds=(KindCount(type="k" * 200),) * 70,
    )
    found = state_of(encode_said(told))
    assert (len(found.detail), found.queues, len(found.lacking)) == (400, ("q" * 128,) * 256, 64)
    assert (len(found.notes), len(found.notes[0]), found.notes_left_out) == (40, 400, 10)
    assert (len(found.jobs), len(found.jobs[0].why), found.jobs_left_out) == (1000, 400, 103)
    assert (len(found.actions), len(found.actions[0].machine), found.actions_left_out) == (200, 128, 10)
    assert (len(found.servers), len(found.servers[0].kinds), found.servers_left_out) == (500, 65, 10)
    assert (len(found.kinds), len(found.kinds[0].type)) == (65, 128)


def test_a_state_that_is_too_large_tells_of_fewer_jobs() -> None:
    jobs = tuple(
        JobState(id="\U0001f600" * 128, why="\U0001f600" * 400, queue="\U0001f600" * 128) for _ in range(1000)
    )
    servers = tuple(SeenServer(name="s", fault="\U0001f600" * 400) for _ in range(500))
    kinds = tuple(KindCount(type="\U0001f600" * 128) for _ in range(65))
    told = State(
        word=state.MANAGES,
        jobs=jobs,
        servers=tuple(msgspec.structs.replace(each, kinds=kinds) for each in servers),
    )
    data = encode_said(told)
    assert len(data) <= FRAME_BYTES_MAX
    found = state_of(data)
    assert 0 < len(found.jobs) < 1000
    assert len(found.jobs) + found.jobs_left_out == 1000
    assert len(found.servers) + found.servers_left_out == 500


def test_a_server_with_too_many_machines() -> None:
    machines = tuple(MachineState(name="m" * 200, since=-1.0) for _ in range(300))
    pools = tuple(Pool(name="p", free=-1) for _ in range(20))
    said = decode_said(encode_server(ServerState(name="s", machines=machines, pools=pools, mhz=-1)))
    assert isinstance(said, SaidServer)
    found = said.server
    assert (len(found.machines), found.left_out, len(found.machines[0].name)) == (256, 44, 128)
    assert (len(found.pools), found.pools[0].free, found.mhz, found.machines[0].since) == (16, 0, 0, 0.0)
