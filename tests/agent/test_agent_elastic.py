"""The plan of elastic growth at the agent, from the daemon's side: who manages, for how long, and who takes steps."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from agent_node import ANY_TIME, AgentNode, all_told
from conditions import IO_S, real_time, until
from fake_operators import signed
from signed_orders import NOW_MS, order

from subord.agent import judge, serving
from subord.config.schema import ElasticConfig
from subord.core.address.network import Network
from subord.core.carriage.documents import ELASTIC, NEVER_MS, Document, Documents
from subord.core.carriage.orders import Order
from subord.runtime.elastic import state
from subord.runtime.elastic.state import Poll, State
from subord.runtime.elastic.talk import decode_said, encode_poll_soon
from subord.runtime.frames import Frames, frame
from subord.runtime.orders.agent import Done, decode_done
from subord.runtime.record_file import RecordsError
from subord.services.acting import Context
from subord.services.batch.records import Done as Settled
from subord.services.batch.records import Outcome, Refused
from subord.services.elastic import agent as elastic_agent
from subord.services.elastic.managing import leftover, role
from subord.services.elastic.managing.advancing import begun, removed
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Plan
from subord.services.elastic.preparing import carrying
from subord.services.elastic.records import Records
from subord.services.elastic.stages import Record, Stage
from subord.services.elastic.task import USER, Result, Step, Task, decode_result, encode
from subord.services.role import GRACE_S
from tests.agent.test_agent_judge import revoking
from tests.services.test_files_sets import ME, POSITION

POLICY = f"""[[allow]]
principals = ["ann", "bob"]
services = ["elastic"]
users = ["{ME}"]

[[allow]]
principals = ["queue", "bob"]
services = ["elastic"]
users = ["{USER}"]
"""
NETWORK = Network.parse("127.0.0.0/24")
MASTER, OTHER = NETWORK.address_text_of(POSITION), NETWORK.address_text_of(POSITION + 1)
MANAGED = Plan(manager=POSITION, options=Options(max_nodes=4))
ELSEWHERE = Plan(manager=POSITION + 1, options=Options(max_nodes=4))
OFF = Plan(manager=0)
"""Without it a plan that is followed though it must not be would hang the test."""


class FakeManager:
    """Tells what the test says, until it is cancelled, and then needs `end_s` to end."""

    made: list[FakeManager]
    end_s = 0.0
    fault: Exception | None = None

    def __init__(
        self, cluster: Any, plan: Plan, tell: Callable[[State], Awaitable[None]], version: int, clock: Any
    ) -> None:
        self.cluster, self.plan, self.tell, self.version, self.clock = cluster, plan, tell, version, clock
        self.is_running = False
        self.asked = 0
        assert not any(each.is_running for each in self.made), "two managers at once"
        self.made.append(self)

    async def run(self) -> None:
        self.is_running = True
        try:
            await trio.lowlevel.checkpoint()
            if self.fault is not None:
                raise self.fault
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.end_s)
            self.is_running = False

    def poll_soon(self) -> None:
        self.asked += 1

    async def poll(self, time: float) -> None:
        poll = Poll(time, 3, 2, 1, 8, 60.0, 5.0, 0.5)
        await self.tell(State(word=state.MANAGES, version=self.version, at=time, polls=(poll,)))


class Talk:
    """A connection of the daemon."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._frames = Frames(stream)
        self.send = stream.send_all

    async def next(self) -> State | Done | None:
        with real_time():
            data = await self._frames.next(1 << 22)
        if data is None:
            return None
        said = decode_said(data)
        return decode_done(data) if said is None else said.state

    async def state(self) -> State:
        found = await self.next()
        assert isinstance(found, State), found
        return found


class Node(AgentNode[Talk]):
    """The agent of one node behind its socket, and the daemon's side."""

    judging = ANY_TIME

    def __init__(self, top: Path) -> None:
        (top / "agent").mkdir(mode=0o700)
        powers = dict.fromkeys(("ann", "bob", "mia", "queue"), "subord.elastic subord.plans subord.identity")
        super().__init__(top, top / "agent", policy=POLICY, powers=powers, talk=Talk)
        key = top / "key"
        key.touch(mode=0o600)
        self.config = ElasticConfig(batch="gridengine", key=str(key), start=("/bin/true",), stop=("/bin/true",))
        self.documents = Documents()

    @property
    def configured(self) -> dict[str, Any]:
        return {"node": MASTER, "elastic": self.config, "network": NETWORK}

    async def ended(self, document: Document) -> list[State | Done | None]:
        """All that is said of a plan."""
        async with self.following(document) as talk:
            return await all_told(talk)

    async def stepped(self, task: Task | bytes, tag: bytes, **given: Any) -> Result | str:
        payload = task if isinstance(task, bytes) else encode(task)
        self.agent.expect(tag)
        acted = await self.agent.act(
            order(payload, service="elastic", tag=tag, **{"user": USER, "principal": "queue", **given}), 5.0
        )
        found = None if acted.outcome.cause else decode_result(acted.outcome.result)
        return acted.outcome.cause if found is None else found


def plan(version: int = 1, what: Plan = MANAGED, by: str = "ann") -> Document:
    return signed(Order(ELASTIC, version, NOW_MS + version, NEVER_MS, msgspec.json.encode(what)), by)


def manager() -> FakeManager:
    return FakeManager.made[-1]


async def managing(version: int = 0) -> None:
    """The newest manager runs."""

    def is_running() -> bool:
        return bool(FakeManager.made) and manager().is_running and manager().version >= version

    await until(is_running, "the manager")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    for each in (judge, serving):
        monkeypatch.setattr(each, "ROOT", ME)
    monkeypatch.setattr(elastic_agent, "_nodes", {})
    monkeypatch.setattr(role, "Manager", FakeManager)
    for name, value in (("made", []), ("end_s", 0.0), ("fault", None)):
        monkeypatch.setattr(FakeManager, name, value, raising=False)
    return Node(tmp_path)


@pytest.fixture
def clock() -> trio.abc.Clock:
    """Half a minute of grace costs as long as threads and sockets may need."""
    return trio.testing.MockClock(autojump_threshold=IO_S)


# -- who manages ----------------------------------------------------------------------------------------------------


async def test_the_node_that_the_plan_names_manages_and_tells_each_state(node: Node) -> None:
    async with node.running(), node.following(plan(3)) as talk:
        assert await talk.state() == State(word=state.MANAGES, version=3, batch="gridengine")
        await managing()
        assert (manager().version, manager().plan) == (3, MANAGED)
        assert manager().cluster.kinds == {}
        await manager().poll(10.0)
        found = await talk.state()
        assert (found.at, [each.time for each in found.polls]) == (10.0, [10.0])
        await manager().poll(20.0)
        assert [each.time for each in (await talk.state()).polls] == [20.0], "each poll once"


async def test_a_daemon_may_ask_for_a_poll(node: Node) -> None:
    async with node.running(), node.following(plan()) as talk:
        await managing()
        await talk.send(frame(b"of another release") + frame(encode_poll_soon()))
        await until(lambda: manager().asked, "the poll")
        await talk.send(frame(encode_poll_soon()))
        await until(lambda: manager().asked == 2, "another one")
        assert manager().is_running


@pytest.mark.parametrize(("what", "word"), [(OFF, state.OFF), (ELSEWHERE, state.OTHER_NODE)])
async def test_another_node_says_so_and_is_done(node: Node, what: Plan, word: str) -> None:
    async with node.running():
        assert await node.ended(plan(1, what)) == [State(word=word, version=1), Done(principal="ann")]
    assert not FakeManager.made


async def test_a_plan_that_takes_the_cluster_away_ends_the_manager_first(node: Node) -> None:
    FakeManager.end_s = 0.2
    records = Records(str(node.directory))
    records.put(Record(name="node001", number=1, kind="", slots=4, stage=Stage.SERVING, entered_at=1.0, began_at=1.0))
    records.close()
    async with node.running(), node.following(plan()) as talk:
        await talk.state()
        await managing()
        (said, done) = await node.ended(plan(2, OFF))
        assert not manager().is_running, "works under way have ended"
        assert isinstance(said, State)
        assert (said.word, said.version) == (state.OFF, 2)
        assert said.detail.startswith(
            "1 node that this node has added stays: only a plan that names this node removes it"
        )
        assert done == Done(principal="ann")
        while isinstance(last := await talk.next(), State):
            pass
        assert last == Done(principal="ann")


class FakeBatch:
    """`fault`: of hosts; "hangs": it never answers."""

    def __init__(self, **faults: str) -> None:
        self.faults = faults
        self.undrained: list[str] = []

    async def undrain(self, host: str) -> Outcome:
        await trio.lowlevel.checkpoint()
        if self.faults.get(host) == "hangs":
            await trio.sleep_forever()
        if host in self.faults:
            return Refused(self.faults[host])
        self.undrained.append(host)
        return Settled(True)


def drained(node: Node, *records: Record) -> None:
    with closing(Records(str(node.directory))) as kept:
        kept.put(*records)


def draining(number: int, **changes: Any) -> Record:
    name = f"node{number:03}"
    return removed(begun(name, number, "", 4, 1.0), 2.0, "it is idle", **changes)


@pytest.mark.parametrize("what", [msgspec.structs.replace(MANAGED, manager=0), ELSEWHERE], ids=["off", "moved"])
async def test_drained_nodes_serve_again_when_this_node_manages_no_more(
    node: Node, what: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of an agent that has died since. Those that could not be added, or are lost, cannot serve."""
    batch = FakeBatch(node002="no such host")
    made = list[tuple[str, str]]()
    monkeypatch.setattr(leftover, "make_adapter", lambda name, queue, _: made.append((name, queue)) or batch)
    stopping = msgspec.structs.replace(draining(5), stage=Stage.STOPPING)
    drained(node, draining(1), draining(2), draining(3, is_undone=True), draining(4, is_lost=True), stopping)
    async with node.running():
        (said, _) = await node.ended(plan(1, what))
    assert isinstance(said, State)
    assert said.detail == (
        "5 nodes that this node has added stay, 4 of which do not serve: only a plan that names this node removes "
        "them; node002 stays drained: no such host"
    )
    assert (batch.undrained, made) == (["node001"], [("gridengine", "all.q")])
    with closing(Records(str(node.directory))) as kept:
        assert [each.stage for each in kept.all().values()] == ["serving", *["draining"] * 3, "stopping"]


async def test_a_batch_system_that_hangs_does_not_hold_up_the_next_plan(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftover, "make_adapter", lambda *_: FakeBatch(node001="hangs"))
    monkeypatch.setattr(leftover, "UNDRAIN_S", 0.5)
    drained(node, draining(1))
    async with node.running():
        (said, _) = await node.ended(plan(1, OFF))
        assert isinstance(said, State)
        assert said.detail.endswith("; node001 stays drained: the batch system has not answered in time")
        async with node.following(plan(2)) as talk:
            assert (await talk.state()).word == state.MANAGES


async def test_a_newer_plan_takes_over(node: Node) -> None:
    FakeManager.end_s = 0.2
    async with node.running(), node.following(plan()) as first:
        await first.state()
        await managing()
        async with node.following(plan(2)) as second:
            assert (await second.state()).version == 2
            await managing(2)
            while isinstance(last := await first.next(), State):
                pass
            assert last == Done(principal="ann")
            assert len(FakeManager.made) == 2


async def test_an_older_plan_is_never_followed(node: Node) -> None:
    """Also by the next process of the agent."""
    async with node.running():
        await node.ended(plan(2, OFF))
        assert await node.ended(plan(1)) == [Done("replayed", principal="ann")]
    async with node.running():
        assert await node.ended(plan(1)) == [Done("replayed", principal="ann")]
    assert not FakeManager.made


async def test_an_older_plan_counts_when_the_operator_of_the_newer_is_revoked(node: Node) -> None:
    async with node.running():
        await node.ended(plan(2, OFF, "bob"))
        node.revoked = revoking("bob", node.documents)
        async with node.following(plan(1)) as talk:
            assert (await talk.state()).word == state.MANAGES


@pytest.mark.parametrize(
    ("document", "cause"),
    [
        (plan(by="mia"), "denied"),
        (plan(by="queue"), "denied"),
        (plan(by="eve"), "unknown principal"),
        (signed(Order(ELASTIC, 1, NOW_MS, NEVER_MS, b"{")), "malformed"),
        (plan(what=Plan(manager=POSITION, options=Options(max_nodes=0))), "malformed"),
        (signed(Order("elastic/other", 1, NOW_MS, NEVER_MS, msgspec.json.encode(MANAGED))), "expired"),
    ],
    ids=["policy", "key of the queue's node", "operator", "body", "options", "name"],
)
async def test_a_plan_that_does_not_count_is_not_followed(node: Node, document: Document, cause: str) -> None:
    async with node.running():
        (done,) = await node.ended(document)
    assert isinstance(done, Done)
    assert done.cause == cause
    assert not FakeManager.made


# -- what hinders ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "what", "word"),
    [
        ({"batch": ""}, MANAGED, "elastic.batch is empty"),
        ({"key": ""}, MANAGED, "elastic.key is empty"),
        ({"key": "/no/key"}, MANAGED, "elastic.key /no/key cannot be read (No such file or directory)"),
        ({"start": ()}, MANAGED, "elastic.start is empty"),
        ({"stop": ("/no/program",)}, MANAGED, "elastic.stop: /no/program"),
        ({}, msgspec.structs.replace(MANAGED, kinds=("large",)), "elastic.kinds of this node does not have large"),
    ],
)
async def test_a_node_that_cannot_manage_says_why(node: Node, changes: dict[str, Any], what: Plan, word: str) -> None:
    node.config = msgspec.structs.replace(node.config, **changes)
    async with node.running():
        *_, said, done = await node.ended(plan(what=what))
    assert isinstance(said, State)
    assert said.word == state.FAILED
    assert said.detail.startswith(word)
    assert said.detail.endswith("no node is added or removed")
    assert done == Done("failed", principal="ann")
    assert not FakeManager.made


async def test_a_key_that_others_can_read_is_not_used(node: Node) -> None:
    os.chmod(node.config.key, 0o644)
    async with node.running():
        *_, said, _ = await node.ended(plan())
    assert isinstance(said, State)
    assert "can be read by other users: chmod 600 it" in said.detail


async def test_a_trial_needs_neither_key_nor_supplier(node: Node) -> None:
    node.config = ElasticConfig(batch="slurm")
    async with node.running(), node.following(plan(what=msgspec.structs.replace(MANAGED, is_trial=True))) as talk:
        assert (await talk.state()).is_trial
        await managing()


async def test_records_that_cannot_be_read_are_told(node: Node) -> None:
    FakeManager.fault = RecordsError("nodes.db is damaged")
    async with node.running():
        *_, said, done = await node.ended(plan())
    assert isinstance(said, State)
    assert (said.word, said.detail, done) == (state.FAILED, "nodes.db is damaged", Done("failed", principal="ann"))


async def test_a_bug_of_the_manager_ends_it_alone(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    FakeManager.fault = ZeroDivisionError()
    async with node.running():
        assert (await node.ended(plan()))[-1] == Done("failed", principal="ann")
        assert "a document of ann failed" in caplog.text
        FakeManager.fault = None
        async with node.following(plan()) as talk:
            await talk.state()
            await managing()


async def test_a_directory_that_others_can_change_keeps_no_plan(node: Node) -> None:
    async with node.running():
        node.directory.chmod(0o770)
        said, done = await node.ended(plan())
    assert isinstance(said, State)
    assert said.word == state.FAILED
    assert "chmod 700" in said.detail
    assert done == Done("failed", principal="ann")


# -- a daemon that is away ------------------------------------------------------------------------------------------


async def test_a_daemon_that_is_back_in_time_finds_the_manager_and_its_polls(
    node: Node, clock: trio.abc.Clock
) -> None:
    async with node.running():
        async with node.following(plan()) as talk:
            await talk.state()
            await managing()
            await manager().poll(10.0)
            await talk.state()
        await trio.sleep(GRACE_S - 1)
        await manager().poll(20.0)
        async with node.following(plan()) as talk:
            found = await talk.state()
            assert (found.at, [each.time for each in found.polls]) == (20.0, [10.0, 20.0])
            await trio.sleep(2 * GRACE_S)
            assert manager().is_running
            for each in range(250):
                await manager().tell(State(word=state.MANAGES, polls=(Poll(30.0 + each, 1, 1, 1, 1, 1, 1, 1),)))
            async with node.following(plan()) as other:
                polls = list[Poll]()
                while len(polls) < 252:
                    polls += (await other.state()).polls
                assert [each.time for each in polls][:3] == [10.0, 20.0, 30.0]
        assert len(FakeManager.made) == 1


async def test_without_a_daemon_nothing_is_managed_any_more(
    node: Node, clock: trio.abc.Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "subord")
    async with node.running():
        async with node.following(plan()) as talk:
            await talk.state()
            await managing()
        await trio.sleep(GRACE_S + 1)
        assert not manager().is_running
        assert "elastic: no daemon for 30 s" in caplog.text
        async with node.following(plan()) as talk:
            await talk.state()
            await managing()
        assert len(FakeManager.made) == 2


async def test_an_agent_that_is_to_end_lets_works_end(node: Node) -> None:
    FakeManager.end_s = 0.2
    async with node.running() as server, node.following(plan()) as talk:
        await talk.state()
        await managing()
        server.stop(10.0)
        assert await talk.next() is None, "nothing has failed"
        assert not manager().is_running


async def test_a_plan_whose_operator_is_revoked_is_followed_no_more(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends the connection when it knows; the agent may know before. A drained node serves again."""
    batch = FakeBatch()
    monkeypatch.setattr(leftover, "make_adapter", lambda *_: batch)
    drained(node, draining(1))
    async with node.running(), node.following(plan()) as talk:
        await talk.state()
        await managing()
        node.revoked = revoking("ann", node.documents, "bob")
        assert await node.ended(plan(2)) == [Done("revoked", principal="ann", refused=True)]
        await manager().poll(10.0)
        await until(lambda: not manager().is_running, "the end of the manager")
        while isinstance(last := await talk.next(), State):
            pass
        assert last == Done(principal="ann")
    assert batch.undrained == ["node001"]


# -- steps ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Steps that are carried out."""
    found = list[Task]()

    async def carry_out(task: Task, plan: Plan, config: ElasticConfig, context: Context) -> Result:
        assert plan == ELSEWHERE
        assert config.batch == "gridengine"
        assert context.user == USER
        found.append(task)
        await trio.lowlevel.checkpoint()
        return Result(is_changed=True, slots=8)

    monkeypatch.setattr(carrying, "carry_out", carry_out)
    return found


async def test_a_step_is_carried_out_by_the_plan_that_the_node_holds(node: Node, carried: list[Task]) -> None:
    async with node.running():
        await node.ended(plan(2, ELSEWHERE))
        task = Task(Step.MOUNTS, 2, OTHER)
        assert await node.stepped(task, b"1" * 16) == Result(is_changed=True, slots=8)
        older = Task(Step.USERS, 1, OTHER)
        assert await node.stepped(older, b"2" * 16) == Result(is_changed=True, slots=8), "the queue's node is late"
    async with node.running():
        assert await node.stepped(Task(Step.LEAVE, 2, OTHER), b"3" * 16) == Result(is_changed=True, slots=8)
    assert [each.step for each in carried] == [Step.MOUNTS, Step.USERS, Step.LEAVE]


async def test_without_the_plan_nothing_is_done(node: Node, carried: list[Task]) -> None:
    task = Task(Step.LOOK, 2, OTHER)
    async with node.running():
        assert await node.stepped(task, b"1" * 16) == Result(elastic_agent.NO_PLAN)
        await node.ended(plan(1, ELSEWHERE))
        found = await node.stepped(task, b"2" * 16)
        assert found == Result(elastic_agent.OLDER.format(held=1, wanted=2))
        node.revoked = revoking("ann", node.documents, "bob")
        found = await node.stepped(Task(Step.USERS, 1, OTHER), b"3" * 16, principal="bob")
        assert found == Result(elastic_agent.NO_PLAN), "its operator counts no more"
    assert not carried


async def test_only_for_the_node_that_the_plan_names(node: Node, carried: list[Task]) -> None:
    """Its directories are mounted; the key of the queue's node alone must not say which node it is."""
    async with node.running():
        await node.ended(plan(1, ELSEWHERE))
        for number, master in enumerate((MASTER, "10.0.0.1", "any host")):
            found = await node.stepped(Task(Step.MOUNTS, 1, master), b"%016d" % number)
            assert found == Result(elastic_agent.OTHER_MASTER.format(master=master))
    assert not carried


async def test_while_growth_is_off_a_node_only_answers(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    async def carry_out(task: Task, *_: Any) -> Result:
        await trio.lowlevel.checkpoint()
        assert task.step == Step.LOOK
        return Result(slots=8)

    monkeypatch.setattr(carrying, "carry_out", carry_out)
    async with node.running():
        await node.ended(plan(1, OFF))
        assert await node.stepped(Task(Step.LOOK, 1, OTHER), b"1" * 16) == Result(slots=8)
        found = await node.stepped(Task(Step.LEAVE, 1, OTHER), b"2" * 16)
        assert found == Result(elastic_agent.OFF.format(held=1))


async def test_steps_of_strangers_and_of_other_releases_are_refused(node: Node, carried: list[Task]) -> None:
    async with node.running():
        await node.ended(plan(1, ELSEWHERE))
        task = Task(Step.USERS, 1, OTHER)
        assert await node.stepped(task, b"1" * 16, principal="mia") == "denied"
        assert await node.stepped(task, b"2" * 16, user="nobody") == "denied"
        assert await node.stepped(b"\xff", b"3" * 16) == Result(elastic_agent.OTHER_RELEASE)
    assert not carried


async def test_an_operator_whom_the_policy_allows_another_user_orders_no_steps(
    node: Node, carried: list[Task]
) -> None:
    """As by a rule for all services, services = ["*"], as the operator's own user."""
    async with node.running():
        await node.ended(plan(1, ELSEWHERE))
        for number, step in enumerate((Step.LOOK, Step.USERS, Step.LEAVE)):
            found = await node.stepped(Task(step, 1, OTHER), b"%016d" % number, principal="ann", user=ME)
            assert found == Result(elastic_agent.NOT_STEPS)
    assert not carried


async def test_steps_of_one_node_do_not_overlap(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue's node asks again when a step takes long."""
    under_way = 0

    async def carry_out(*_: Any) -> Result:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        await trio.sleep(0.1)
        under_way -= 1
        return Result()

    monkeypatch.setattr(carrying, "carry_out", carry_out)
    async with node.running():
        await node.ended(plan(1, ELSEWHERE))
        found = list[Result | str]()

        async def step(number: int) -> None:
            found.append(await node.stepped(Task(Step.USERS, 1, OTHER), b"%016d" % number))

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(step, number)
        assert found == [Result()] * 3
