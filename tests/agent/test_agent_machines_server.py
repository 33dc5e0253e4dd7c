"""The agent of a server of virtual machines, from the daemon's side: what it tells, whom it obeys, and when not."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import libvirt_room
import msgspec
import pytest
import trio
from agent_node import ANY_TIME, AgentNode
from conditions import real_time, until
from fake_operators import signed
from libvirt_room import host_file
from signed_orders import NOW_MS, order

from subord.config.schema import MachinesConfig
from subord.core.address.network import Network
from subord.core.carriage.documents import MACHINES, NEVER_MS, Document, Documents
from subord.core.carriage.orders import Order as Signed
from subord.runtime.frames import Frames
from subord.runtime.machines import state
from subord.runtime.machines.state import ServerState, State
from subord.runtime.machines.talk import Said, decode_said
from subord.runtime.orders.agent import Done, decode_done
from subord.services.machines import agent as machines_agent
from subord.services.machines import task
from subord.services.machines.orders import Action, Clone, Fence, Order, Stop
from subord.services.machines.plan import Plan, Type
from subord.services.machines.serving import telling
from subord.services.machines.task import USER, Answer, Ask, Do, Drain, NoServer, Results, encode, told_of
from tests.agent.test_agent_judge import revoking
from tests.services.test_files_sets import POSITION

POLICY = f"""[[allow]]
principals = ["ann", "bob"]
services = ["machines"]
users = ["root", "ann"]

[[allow]]
principals = ["queue", "bob"]
services = ["machines"]
users = ["{USER}"]
"""
NETWORK = Network.parse("127.0.0.0/24")
NAME, MASTER = NETWORK.address_text_of(POSITION), NETWORK.address_text_of(POSITION + 1)
ALMA = Type(name="alma", template="alma", queues=("long",), cores=2, memory_mb=2048, image_mb=10_240)
PLAN = Plan(manager=POSITION + 1, types=(ALMA,), store_mb=1_000_000)
OFF = Plan(manager=0)
FENCE = Fence(1, 7)
"""Without it a plan that is followed though it must not be would hang the test."""


class Talk:
    """A connection of the daemon."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._frames = Frames(stream)

    async def next(self) -> State | ServerState | Done | None:
        with real_time():
            data = await self._frames.next(1 << 22)
        if data is None:
            return None
        said = decode_said(data)
        if said is None:
            return decode_done(data)
        return said.state if isinstance(said, Said) else said.server

    async def server(self, what: str = "", **wanted: str) -> ServerState:
        """The next state in which machines have these states."""
        while True:
            found = await self.next()
            assert found is not None, f"never: {what}"
            if isinstance(found, ServerState):
                there = {each.name: each.state for each in found.machines}
                if all(there.get(name) == word for name, word in wanted.items()):
                    return found


class Node(AgentNode[Talk]):
    """The agent of one server behind its socket, and the daemon's side."""

    judging = ANY_TIME

    def __init__(self, top: Path) -> None:
        (top / "agent").mkdir(mode=0o700)
        powers = dict.fromkeys(("ann", "bob", "mia", "queue"), "subord.machines subord.plans subord.identity")
        super().__init__(top, top / "agent", policy=POLICY, powers=powers, talk=Talk)
        self.config = MachinesConfig(uri=host_file(top / "host.xml"), reserve_mb=0)
        self.documents = Documents()
        self._tags = count(1)
        self._numbers = count(1)

    @property
    def configured(self) -> dict[str, Any]:
        return {"node": NAME, "machines": self.config, "network": NETWORK}

    @asynccontextmanager
    async def serving(self, what: Plan = PLAN) -> AsyncIterator[Talk]:
        """It has the plan."""
        async with self.following(plan(what=what)) as talk:
            found = await talk.next()
            assert isinstance(found, State)
            assert found.word == (state.OFF if what.is_off else state.SERVES)
            yield talk

    async def said(self, payload: task.Task | bytes, **given: Any) -> task.Said | str:
        data = payload if isinstance(payload, bytes) else encode(payload)
        tag = b"%016d" % next(self._tags)
        self.agent.expect(tag)
        acted = await self.agent.act(
            order(data, service="machines", tag=tag, **{"user": USER, "principal": "queue", **given}), 5.0
        )
        found = None if acted.outcome.cause else task.decode_said(acted.outcome.result)
        return acted.outcome.cause if found is None else found

    async def answer(self, fence: Fence = FENCE) -> Answer:
        found = await self.said(Ask(*fence, MASTER))
        assert isinstance(found, Answer), found
        return found

    async def do(self, *actions: Action, fence: Fence = FENCE, master: str = MASTER) -> task.Said | str:
        orders = [told_of(Order(fence, next(self._numbers), time.time() + 20, each)) for each in actions]
        return await self.said(Do(*fence, master, tuple(each for each in orders if each is not None)))

    @property
    def host(self) -> Any:
        return machines_agent._nodes[str(self.directory)]._host


def plan(version: int = 1, what: Plan = PLAN, by: str = "ann") -> Document:
    return signed(Signed(MACHINES, version, NOW_MS + version, NEVER_MS, msgspec.json.encode(what)), by)


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    libvirt_room.need_binding()
    monkeypatch.setattr(machines_agent, "_nodes", {})
    monkeypatch.setattr(telling, "PAUSE_S", 0.01)
    yield Node(tmp_path)
    for made in machines_agent._nodes.values():
        if made._host is not None:
            made._host.power.close()  # type: ignore[attr-defined]


# -- what it tells --------------------------------------------------------------------------------------------------


async def test_a_server_tells_its_daemon_each_change(node: Node) -> None:
    """By events of libvirt, also of what is done by hand."""
    async with node.running(), node.serving() as talk:
        first = await talk.server()
        assert (first.name, first.uri, first.fault) == (NAME, node.config.uri, "")
        assert [(each.name, each.type, each.state) for each in first.machines] == [("alma", "", "off")]
        assert (first.have.cores, first.used.cores) == (libvirt_room.CORES, 0)
        assert await node.do(Clone("alma-1", "alma", NAME)) == Results(results=(task.Done(),))
        on = await talk.server(**{"alma-1": "on"})
        assert (on.used.cores, on.version, on.life, on.obeyed) == (2, 1, 7, 1)
        raw = node.host.power._link.connection()
        raw.lookupByName("alma-1").suspend()
        await talk.server(**{"alma-1": "paused"})
        raw.lookupByName("alma-1").destroy()
        await talk.server(**{"alma-1": "off"})


async def test_a_daemon_that_comes_back_is_told_again_and_works_go_on(node: Node) -> None:
    async with node.running():
        async with node.serving():
            await node.do(Clone("alma-1", "alma", NAME))
        async with node.serving() as talk:
            await talk.server(**{"alma-1": "on"})
        # Without a daemon at the plan, too.
        await node.do(Stop("alma-1", NAME))
        await until(lambda: not node.host.works.under_way, "the stop")
        assert {each.name: each.state for each in (await node.answer()).machines} == {"alma-1": "off", "alma": "off"}


async def test_by_a_plan_for_trial_a_server_does_nothing(node: Node) -> None:
    """A process that decides by the plan before may not know of it yet."""
    async with node.running(), node.serving(msgspec.structs.replace(PLAN, is_trial=True)) as talk:
        assert [each.name for each in (await talk.server()).machines] == ["alma"]
        assert isinstance(await node.said(Ask(1, 7, MASTER)), Answer)
        found = await node.do(Clone("alma-1", "alma", NAME))
        assert found == Results(machines_agent.TRIAL.format(held=1))


async def test_with_the_plan_off_a_server_still_tells_what_is_there(node: Node) -> None:
    async with node.running(), node.serving(OFF) as talk:
        assert [each.name for each in (await talk.server()).machines] == ["alma"]
        assert isinstance(await node.said(Ask(1, 7, MASTER)), Answer)
        found = await node.do(Clone("alma-1", "alma", NAME))
        assert found == Results(machines_agent.OFF.format(held=1))


async def test_a_node_that_is_no_server_says_so_and_is_done(node: Node) -> None:
    node.config = MachinesConfig()
    async with node.running():
        async with node.following(plan()) as talk:
            assert await talk.next() == State(word=state.OTHER_NODE, version=1)
            assert await talk.next() == Done(principal="ann")
        assert await node.said(Ask(1, 7, MASTER)) == NoServer()
        assert await node.do(Clone("alma-1", "alma", NAME)) == NoServer()
        assert await node.said(Drain(True), principal="ann", user="root") == Results(machines_agent.NO_SERVER)


async def test_a_newer_plan_counts_at_once(node: Node) -> None:
    async with node.running(), node.serving():
        always = msgspec.structs.replace(PLAN, always_on=("alma-1",))
        async with node.following(plan(2, always)) as talk:
            await talk.server()
            found = await node.do(Clone("alma-1", "alma", NAME))
            assert isinstance(found, Results)
            assert "always on" in found.results[0].fault


# -- whom it obeys --------------------------------------------------------------------------------------------------


async def test_only_the_node_that_the_plan_of_the_operator_names_and_only_by_the_plan(node: Node) -> None:
    clone = Clone("alma-1", "alma", NAME)
    async with node.running():
        assert await node.do(clone) == Results(machines_agent.NO_PLAN)
        async with node.serving():
            assert await node.do(clone, fence=Fence(2, 7)) == Results(machines_agent.OLDER.format(held=1, wanted=2))
            for master in (NAME, "10.0.0.1", "any host"):
                refused = Results(machines_agent.OTHER_MASTER.format(master=master))
                assert await node.do(clone, master=master) == refused
                assert await node.said(Ask(1, 7, master)) == refused
            assert await node.said(b"\xff") == Results(machines_agent.OTHER_RELEASE)
            assert await node.said(Ask(1, 7, MASTER), principal="mia") == "denied"
            assert await node.said(Ask(1, 7, MASTER), user="nobody") == "denied"
        node.revoked = revoking("ann", node.documents, "bob")
        found = await node.said(Ask(1, 7, MASTER), principal="bob")
        assert found == Results(machines_agent.NO_PLAN), "its operator counts no more"


async def test_the_key_of_the_queues_node_signs_no_plan(node: Node) -> None:
    async with node.running(), node.following(plan(by="queue")) as talk:
        assert await talk.next() == Done("denied", principal="queue", refused=True)


async def test_an_operator_drains_a_server_and_the_key_of_the_queues_node_does_not(node: Node) -> None:
    async with node.running(), node.serving() as talk:
        assert await node.said(Drain(True)) == Results(machines_agent.NOT_ROOT)
        assert await node.said(Drain(True), principal="ann", user="root") == Results(is_changed=True)
        assert (await node.answer()).is_drained
        found = await node.do(Clone("alma-1", "alma", NAME))
        assert isinstance(found, Results)
        assert found.results[0].fault == f"the server {NAME} is drained; nothing was started"
        while not (await talk.server()).is_drained:
            pass
        assert await node.said(Drain(False), principal="ann", user="root") == Results(is_changed=True)
        assert not (await node.answer()).is_drained


async def test_an_operator_whom_the_policy_allows_another_user_is_not_obeyed(node: Node) -> None:
    """As by a rule for all services, services = ["*"], as the operator's own user."""
    async with node.running(), node.serving():
        before = await node.answer()
        for given, fault in (
            (Drain(True), machines_agent.NOT_ROOT),
            (Ask(1, 9, MASTER), machines_agent.NOT_STEPS),
            (Do(1, 9, MASTER, ()), machines_agent.NOT_STEPS),
        ):
            for user in ("ann", *(("root",) if not isinstance(given, Drain) else ())):
                assert await node.said(given, principal="ann", user=user) == Results(fault)
        after = await node.answer()
        assert (after.life, after.is_drained) == (before.life, False)


async def test_what_was_heard_outlives_the_agent(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    async with node.running(), node.serving():
        assert (await node.answer(Fence(1, 50))).life == 50
        await node.said(Drain(True), principal="ann", user="root")
        node.host.power.close()
    monkeypatch.setattr(machines_agent, "_nodes", {})
    async with node.running(), node.serving():
        found = await node.answer(Fence(1, 7))
        assert (found.life, found.is_drained) == (50, True)
        said = await node.do(Stop("alma-1", NAME))
        assert isinstance(said, Results)
        assert "this server obeys life 50 of plan 1" in said.results[0].fault


# -- what hinders ---------------------------------------------------------------------------------------------------


async def test_a_server_without_libvirtd_says_so_and_the_node_decides_without_it(node: Node) -> None:
    node.config = MachinesConfig(uri=f"test+unix:///default?socket={node.top}/libvirt-sock")
    async with node.running(), node.serving() as talk:
        told = await talk.server()
        assert "install and start libvirtd there" in told.fault
        assert (told.at, told.machines) == (0.0, ())
        answer = await node.answer()
        assert answer.fault == told.fault
        found = await node.do(Clone("alma-1", "alma", NAME))
        assert isinstance(found, Results)
        assert found.fault == told.fault


@pytest.mark.parametrize(
    ("body", "cause"),
    [(b"{", "malformed"), (msgspec.json.encode(msgspec.structs.replace(PLAN, types=(ALMA, ALMA))), "malformed")],
)
async def test_a_plan_that_makes_no_sense_is_not_followed(node: Node, body: bytes, cause: str) -> None:
    document = signed(Signed(MACHINES, 1, NOW_MS, NEVER_MS, body))
    async with node.running(), node.following(document) as talk:
        assert await talk.next() == Done(cause, principal="ann")
        assert await node.said(Ask(1, 7, MASTER)) == Results(machines_agent.NO_PLAN)


async def test_a_directory_that_others_can_change_keeps_no_plan(node: Node) -> None:
    async with node.running():
        node.directory.chmod(0o770)
        async with node.following(plan()) as talk:
            said = await talk.next()
            assert isinstance(said, State)
            assert (said.word, "chmod 700" in said.detail) == (state.FAILED, True)
            assert await talk.next() == Done("failed", principal="ann")
        node.directory.chmod(0o700)
