"""The plan of machines at the agent of the queue's node: who decides, for how long, and what its daemon is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import libvirt_room
import msgspec
import pytest
import trio
import trio.testing
from conditions import until

from subord.agent import judge, serving
from subord.config.schema import MachinesConfig
from subord.runtime.machines import state
from subord.runtime.machines.state import ServerState, State
from subord.runtime.orders.agent import Done
from subord.services.machines import agent as machines_agent
from subord.services.machines.managing import role
from subord.services.machines.managing.lives import Life, Lives
from subord.services.machines.plan import Plan
from subord.services.role import GRACE_S
from tests.agent.test_agent_judge import revoking
from tests.agent.test_agent_machines_server import NAME, OFF, PLAN, Node, plan
from tests.services.test_files_sets import ME, POSITION

MANAGED = msgspec.structs.replace(PLAN, manager=POSITION)
ELSEWHERE = PLAN


class FakeManager:
    """Tells what the test says, until it is cancelled."""

    made: list[FakeManager]

    def __init__(
        self, site: Any, plan: Plan, tell: Callable[[State], Awaitable[None]], *, version: int, life: Life, now: Any
    ) -> None:
        self.site, self.plan, self.tell, self.version, self.life, self.now = site, plan, tell, version, life, now
        self.is_running = False
        assert not any(each.is_running for each in self.made), "two managers at once"
        self.made.append(self)

    async def run(self) -> None:
        self.is_running = True
        try:
            await trio.sleep_forever()
        finally:
            self.is_running = False

    async def round(self, number: int) -> None:
        await self.tell(State(word=state.MANAGES, version=self.version, life=self.life.life, round=number))


def manager() -> FakeManager:
    return FakeManager.made[-1]


async def managing(version: int = 0) -> None:
    def is_running() -> bool:
        return bool(FakeManager.made) and manager().is_running and manager().version >= version

    await until(is_running, "the manager")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """The queue's node, which is no server."""
    for each in (judge, serving):
        monkeypatch.setattr(each, "ROOT", ME)
    monkeypatch.setattr(machines_agent, "_nodes", {})
    monkeypatch.setattr(role, "Manager", FakeManager)
    monkeypatch.setattr(FakeManager, "made", [], raising=False)
    found = Node(tmp_path)
    key = tmp_path / "key"
    key.touch(mode=0o600)
    found.config = MachinesConfig(batch="slurm", key=str(key))
    return found


@pytest.fixture
def clock() -> trio.abc.Clock:
    """Half a minute of grace costs as long as threads and sockets may need."""
    return trio.testing.MockClock(autojump_threshold=0.1)


async def states(talk: Any, word: str) -> State:
    """The next state with this word."""
    while True:
        found = await talk.next()
        assert found is not None
        if isinstance(found, State) and found.word == word:
            return found


async def test_the_node_that_the_plan_names_decides_and_tells_each_round(node: Node) -> None:
    async with node.running(), node.following(plan(3, MANAGED)) as talk:
        assert await talk.next() == State(word=state.MANAGES, version=3, batch="slurm")
        await managing()
        assert (manager().version, manager().plan, manager().life.is_alone) == (3, MANAGED, False)
        await manager().round(1)
        found = await talk.next()
        assert isinstance(found, State)
        assert (found.round, found.life) == (1, manager().life.life)


async def test_a_newer_plan_takes_over_with_a_newer_life(node: Node) -> None:
    async with node.running(), node.following(plan(1, MANAGED)) as talk:
        await managing()
        first = manager()
        async with node.following(plan(2, MANAGED)) as other:
            await managing(2)
            assert not first.is_running
            assert manager().life.life > first.life.life
            assert not manager().life.is_alone, "between the two another node may have decided"
            await manager().round(1)
            assert (await states(other, state.MANAGES)).version == 2
        assert isinstance(await talk.next(), State)


@pytest.mark.parametrize(("what", "word"), [(ELSEWHERE, state.OTHER_NODE), (OFF, state.OFF)])
async def test_a_node_that_is_not_named_any_more_stops_deciding(node: Node, what: Plan, word: str) -> None:
    async with node.running(), node.following(plan(1, MANAGED)):
        await managing()
        async with node.following(plan(2, what)) as talk:
            assert (await states(talk, word)).version == 2
            assert not manager().is_running


async def test_a_daemon_that_is_back_finds_the_process_going_on(node: Node, clock: trio.testing.MockClock) -> None:
    async with node.running():
        async with node.following(plan(1, MANAGED)):
            await managing()
            await manager().round(7)
        await trio.sleep(GRACE_S - 1)
        async with node.following(plan(1, MANAGED)) as talk:
            assert (await states(talk, state.MANAGES)).round == 7
            assert len(FakeManager.made) == 1


async def test_without_a_daemon_nothing_is_decided_any_more(node: Node, clock: trio.testing.MockClock) -> None:
    async with node.running():
        async with node.following(plan(1, MANAGED)):
            await managing()
        await trio.sleep(GRACE_S + 1)
        await until(lambda: not manager().is_running, "the end")
        async with node.following(plan(1, MANAGED)):
            await until(lambda: len(FakeManager.made) == 2 and manager().is_running, "the next one")
            assert manager().life.is_alone, "the one before it was here, and has ended"


async def test_a_process_of_another_agent_of_this_node_is_not_joined(node: Node) -> None:
    held = Lives(str(node.directory))
    async with node.running(), node.following(plan(1, MANAGED)) as talk:
        found = await states(talk, state.FAILED)
        assert "another process of this node decides about machines" in found.detail
        assert isinstance(await talk.next(), Done)
        assert not FakeManager.made
    held.close()


@pytest.mark.parametrize(
    ("change", "what"), [({"batch": ""}, "machines.batch is empty"), ({"key": ""}, "machines.key")]
)
async def test_a_node_that_cannot_decide_says_why(node: Node, change: dict[str, Any], what: str) -> None:
    node.config = msgspec.structs.replace(node.config, **change)
    async with node.running(), node.following(plan(1, MANAGED)) as talk:
        found = await states(talk, state.FAILED)
        assert what in found.detail
        assert "started or stopped" not in found.detail, "the sentence of the state says it"


async def test_when_its_operator_is_revoked_nothing_is_decided_any_more(node: Node) -> None:
    """The daemon ends the connection when it knows; the agent may know before."""
    async with node.running(), node.following(plan(1, MANAGED)):
        await managing()
        node.revoked = revoking("ann", node.documents, "bob")
        async with node.following(plan(2, MANAGED)) as refused:
            assert await refused.next() == Done("revoked", principal="ann", refused=True)
        await manager().round(1)
        await until(lambda: not manager().is_running, "the end")


async def test_the_queues_node_may_be_a_server_too(node: Node) -> None:
    libvirt_room.need_binding()
    uri = libvirt_room.host_file(node.top / "host.xml")
    node.config = msgspec.structs.replace(node.config, uri=uri, reserve_mb=0)
    async with node.running(), node.following(plan(1, MANAGED)) as talk:
        await managing()
        server = await talk.server()
        assert (server.name, server.fault) == (NAME, "")
        for number in range(1, 20):
            await manager().round(number)
        found = await talk.next()
        while isinstance(found, ServerState) or (isinstance(found, State) and found.round < 19):
            found = await talk.next()
        assert isinstance(found, State)
    for made in machines_agent._nodes.values():
        made._host.power.close()  # type: ignore[union-attr, attr-defined]
