"""The document of shares at the agent, from the daemon's side: what is measured and set, and what is put back."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from agent_node import AgentNode
from conditions import IO_S, real_time
from fake_cgroups import CLASSES, FakeNode
from fake_operators import CLUSTER, signed
from signed_orders import NOW_MS, TAG, order

from subord.agent import judge, serving
from subord.agent.judge import Judge
from subord.config.schema import SharesConfig
from subord.core.carriage.documents import Document, Documents
from subord.core.carriage.shares.plan import order_of
from subord.runtime.frames import Frames, frame
from subord.runtime.orders.agent import Done, decode_done
from subord.runtime.shares.talk import Ask, Give, Said, decode_said, encode_talk
from subord.services.acting import recover_all
from subord.services.shares import agent as shares_agent
from subord.services.shares.actuators import putting_back
from subord.services.shares.actuators.actuator import Actuator
from tests.agent.test_agent_judge import revoking
from tests.services.test_files_sets import ME

WEB, BATCH, REST = "/apps/web-1", "/apps/batch", "/apps/other"
GROUPS = WEB, BATCH, REST
WANTED = (("web", 60_000), ("batch", 30_000), ("rest", 10_000))
POLICY = f'[[allow]]\nprincipals = ["ann", "bob"]\nservices = ["shares"]\nusers = ["{ME}"]\n'
SET = [6000, 3000, 1000]
BEFORE = [1024, 2048, 512]
TURNS_MAX = 1_000_000
"""Without it a document that is followed though it must not be would hang the test."""


class Talk:
    """A connection of the daemon."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._frames = Frames(stream)

    async def give(self, *row: int) -> None:
        await self.stream.send_all(frame(encode_talk(Give(row))))

    async def next(self) -> bytes:
        data = await self._frames.next(1 << 16)
        assert data is not None
        return data

    async def ask(self) -> Said:
        await self.stream.send_all(frame(encode_talk(Ask())))
        data = await self.next()
        found = decode_said(data)
        assert found is not None, decode_done(data)
        return found

    async def end(self) -> Done | None:
        data = await self._frames.next(1 << 16)
        return None if data is None else decode_done(data)


class Stage(AgentNode[Talk]):
    """The agent of one node behind its socket, and the daemon's side."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = FakeNode(top)
        for path, weight in zip(GROUPS, BEFORE, strict=True):
            self.node.group(path, weight)
        powers = dict.fromkeys(("ann", "bob", "mia"), "subord.shares subord.identity")
        super().__init__(top, self.node.state, policy=POLICY, powers=powers, talk=Talk)
        self.config = SharesConfig(classes=CLASSES)
        monkeypatch.setattr(shares_agent, "_nodes", {})
        monkeypatch.setattr(shares_agent, "Actuator", partial(Actuator, root=str(self.node.root)))
        recover = putting_back.recover
        monkeypatch.setattr(putting_back, "recover", lambda path: recover(path, str(self.node.root)))

    @property
    def configured(self) -> dict[str, Any]:
        return {"shares": self.config}

    async def prepare(self) -> None:
        await trio.to_thread.run_sync(recover_all, str(self.node.state))

    async def ended(self, document: Document) -> Done | None:
        with real_time():
            async with self.following(document) as talk:
                return await talk.end()

    @property
    def weights(self) -> list[int]:
        return self.node.weights(*GROUPS)

    def grown(self, *seconds: float) -> None:
        for path, each in zip(GROUPS, seconds, strict=True):
            self.node.used(path, each)


def plan(version: int = 1, by: str = "ann", shares: tuple[tuple[str, int], ...] = WANTED) -> Document:
    return signed(order_of(version, NOW_MS + version, 1000, shares), by)


async def at_once(condition: Callable[[], bool]) -> None:
    """Without a change of the clock, which stands still while a task can run."""
    for _ in range(TURNS_MAX):
        with suppress(ValueError):  # a file that is being written
            if condition():
                return
        await trio.lowlevel.checkpoint()
    raise AssertionError("it does not come")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    for each in (judge, serving):
        monkeypatch.setattr(each, "ROOT", ME)
    return Stage(tmp_path, monkeypatch)


@pytest.fixture
def clock() -> trio.abc.Clock:
    """Half a minute of grace costs as long as threads and sockets may need."""
    return trio.testing.MockClock(autojump_threshold=IO_S)


async def test_weights_are_set_and_usage_is_told(stage: Stage, clock: trio.abc.Clock) -> None:
    async with stage.running(), stage.following(plan()) as talk:
        assert await talk.ask() == Said(), "nothing was given yet, and there is no earlier reading"
        await talk.give(60_000, 30_000, 10_000)
        await talk.ask()
        assert stage.weights == SET
        await trio.sleep(2.0)
        stage.grown(1.0, 0.5, 0.1)
        said = await talk.ask()
        assert said.allocation == (60_000, 30_000, 10_000)
        assert [round(each / 1000) for each in said.usage] == [25, 12, 2], "of two processors for 2 s"
        assert said.needy == (False, False, False)
        assert not said.fault


async def test_what_was_given_is_the_mean_over_the_time(stage: Stage, clock: trio.abc.Clock) -> None:
    async with stage.running(), stage.following(plan()) as talk:
        await talk.give(60_000, 30_000, 10_000)
        await talk.ask()
        await trio.sleep(3.0)
        await talk.give(20_000, 30_000, 50_000)
        await at_once(lambda: stage.weights[2] == 5000)
        await trio.sleep(1.0)
        said = await talk.ask()
    assert [round(each / 1000) for each in said.allocation] == [50, 30, 20]


async def test_off_puts_back_what_was_there(stage: Stage) -> None:
    async with stage.running():
        async with stage.following(plan()) as talk:
            await talk.give(60_000, 30_000, 10_000)
            await talk.ask()
            assert stage.weights == SET
            assert await stage.ended(plan(2, shares=())) == Done(principal="ann")
            assert stage.weights == BEFORE
            assert await talk.end() == Done(principal="ann"), "its document is followed no more"
        assert stage.weights == BEFORE


@pytest.mark.parametrize("document", [plan(2), plan(2, shares=())])
async def test_a_disk_that_takes_nothing_is_said(stage: Stage, document: Document) -> None:
    (stage.node.state / "shares").touch()
    async with stage.running(), stage.following(document) as talk:
        data = await talk.next()
        said = decode_said(data)
        assert said is not None
        assert said.fault.startswith("the document cannot be kept in ")
        assert said.fault.endswith(
            "Not a directory; nothing was changed: make room there, or correct agent.state_directory"
        )
        assert await talk.end() == Done("failed", principal="ann")


async def test_a_directory_that_others_can_change_is_refused(stage: Stage) -> None:
    """They could exchange what is put back."""
    async with stage.running():
        stage.node.state.chmod(0o777)
        async with stage.following(plan()) as talk:
            said = decode_said(await talk.next())
            assert said is not None
            assert said.fault == (
                f"{stage.node.state} does not count: user {os.geteuid()} owns it, mode 0777; nothing was "
                f"changed: chown {os.geteuid()}, and chmod 700"
            )
            assert await talk.end() == Done("failed", principal="ann")
        assert stage.weights == BEFORE


async def test_another_document_takes_over_without_a_change_between(stage: Stage) -> None:
    async with stage.running(), stage.following(plan()) as first:
        await first.give(60_000, 30_000, 10_000)
        await first.ask()
        async with stage.following(plan(2)) as second:
            await second.ask()
            assert await first.end() == Done(principal="ann")
            assert stage.weights == SET
            await second.give(10_000, 30_000, 60_000)
            await second.ask()
            assert stage.weights == SET[::-1]


async def test_a_daemon_that_is_back_in_time_finds_the_weights(
    stage: Stage, clock: trio.abc.Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "subord")
    async with stage.running():
        async with stage.following(plan()) as talk:
            await talk.give(60_000, 30_000, 10_000)
            await talk.ask()
        await trio.sleep(shares_agent.GRACE_S - 1)
        assert stage.weights == SET
        async with stage.following(plan()) as talk:
            await talk.ask()
            await trio.sleep(2.0)
            assert stage.weights == SET
        assert "put back" not in caplog.text
        await trio.sleep(shares_agent.GRACE_S + 1)
        await at_once(lambda: stage.weights == BEFORE)
    assert "shares: no daemon for 30 s: the weights from before are put back" in caplog.text


async def test_an_agent_that_is_to_end_puts_back_first(stage: Stage) -> None:
    async with stage.running() as server, stage.following(plan()) as talk:
        await talk.give(60_000, 30_000, 10_000)
        await talk.ask()
        began = trio.current_time()
        server.stop(10.0)
        assert await talk.end() is None, "nothing has failed"
        assert stage.weights == BEFORE
        assert trio.current_time() - began < 8, "sooner than it is ended"


async def test_an_agent_that_is_to_end_while_off_waits_for_its_turn_puts_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document before is followed no more then, so nothing else puts back."""
    put_back, waits = shares_agent._Node.put_back, trio.Event()

    async def late(*words: Any) -> bool:
        waits.set()
        await trio.sleep(0.1)
        return await put_back(*words)

    monkeypatch.setattr(shares_agent._Node, "put_back", late)
    async with stage.running() as server, stage.following(plan()) as talk:
        await talk.give(60_000, 30_000, 10_000)
        await talk.ask()
        async with stage.following(plan(2, shares=())) as off:
            await waits.wait()
            server.stop(10.0)
            await off.end()
    assert stage.weights == BEFORE


async def test_a_document_that_comes_while_the_agent_ends_is_not_followed(
    stage: Stage, clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_document = Judge.judge_document
    async with stage.running() as server:

        async def late(*words: Any) -> Any:
            server.stop(10.0)
            return await judge_document(*words)

        monkeypatch.setattr(Judge, "judge_document", late)
        began = trio.current_time()
        assert await stage.ended(plan()) is None
        assert trio.current_time() - began < 1


async def test_a_document_that_comes_as_the_grace_ends_finds_the_weights(
    stage: Stage, clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its turn comes before that of putting back, which must not come at all then."""
    restored = list[int]()
    restore = Actuator.restore
    monkeypatch.setattr(Actuator, "restore", lambda self: (restored.append(1), restore(self))[1])
    async with stage.running():
        async with stage.following(plan()) as talk:
            await talk.give(60_000, 30_000, 10_000)
            await talk.ask()
        await trio.sleep(shares_agent.GRACE_S - 1)
        turn = shares_agent._nodes[str(stage.node.state)]._turn
        await turn.acquire()
        async with stage.following(plan(2)) as talk:
            await talk.give(10_000, 30_000, 60_000)
            await trio.sleep(2.0)
            turn.release()
            await talk.ask()
            assert stage.weights == SET[::-1]
            assert not restored


async def test_the_next_agent_puts_back_after_a_crash(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Actuator, "restore", lambda _: ())
    async with stage.running(), stage.following(plan()) as talk:
        await talk.give(60_000, 30_000, 10_000)
        await talk.ask()
    assert stage.weights == SET
    async with stage.running():
        assert stage.weights == BEFORE


REFUSED = [
    (plan(1, "mia"), "denied"),
    (plan(1, "zoe"), "unknown principal"),
    (plan()._replace(version=9), "altered"),
    (plan()._replace(signature=b""), "unsigned"),
]


@pytest.mark.parametrize(("document", "cause"), REFUSED, ids=[cause for _, cause in REFUSED])
async def test_what_no_operator_has_signed_changes_nothing(stage: Stage, document: Document, cause: str) -> None:
    async with stage.running():
        done = await stage.ended(document)
        assert done is not None
        assert (done.cause, done.refused) == (cause, True)
    assert stage.weights == BEFORE


async def test_an_earlier_document_does_not_count_again(stage: Stage) -> None:
    async with stage.running():
        async with stage.following(plan(2)) as talk:
            await talk.ask()
        assert await stage.ended(plan(1)) == Done("replayed", principal="ann")
    async with stage.running():
        assert await stage.ended(plan(1)) == Done("replayed", principal="ann"), "also after a restart"
        documents = Documents()
        stage.revoked = revoking("ann", documents, "bob")
        async with stage.following(plan(1, "bob")) as talk:
            await talk.ask()


async def test_a_document_of_a_former_cluster_holds_none_of_the_present_one_back(stage: Stage) -> None:
    async with stage.running(), stage.following(plan(2)) as talk:
        await talk.ask()
    stage.cluster = ("other", CLUSTER[1])
    later = signed(plan(1).order, cluster=stage.cluster)
    async with stage.running():
        async with stage.following(later) as talk:
            await talk.ask()
        assert await stage.ended(plan(2)) == Done("altered", principal="ann", refused=True), "of the other cluster"


async def test_a_class_without_group_leaves_its_tickets_to_the_others(stage: Stage, clock: trio.abc.Clock) -> None:
    stage.node.remove(REST)
    async with stage.running(), stage.following(plan()) as talk:
        await talk.give(60_000, 30_000, 10_000)
        assert (await talk.ask()).notes == ("class rest has no group on this node now; its tickets go to the others",)
        stage.node.group(REST)
        await trio.sleep(1.0)
        assert (await talk.ask()).notes == ()
        assert stage.node.weight(REST) == SET[2], "a group that comes later"


async def test_an_unknown_class_is_told_and_nothing_is_set(stage: Stage) -> None:
    async with stage.running(), stage.following(plan(shares=(("web", 60_000), ("night", 40_000)))) as talk:
        await talk.give(60_000, 40_000)
        said = await talk.ask()
        assert said.fault.startswith("this node does not know the class night; nothing was changed")
        assert said.branch is None
    assert stage.weights == BEFORE


async def test_no_group_at_all_is_told_until_there_is_one(stage: Stage, clock: trio.abc.Clock) -> None:
    for each in GROUPS:
        stage.node.remove(each)
    async with stage.running(), stage.following(plan()) as talk:
        await talk.give(60_000, 30_000, 10_000)
        assert "none of the classes has a group" in (await talk.ask()).fault
        stage.node.group(WEB)
        stage.node.group(BATCH)
        await trio.sleep(1.0)
        assert not (await talk.ask()).fault
        assert stage.node.weights(WEB, BATCH) == SET[:2]


async def test_a_fault_ends_when_its_cause_does_also_before_the_first_row(stage: Stage) -> None:
    before = stage.node.state / "shares/before.json"
    before.parent.mkdir()
    before.write_text("{")
    async with stage.running(), stage.following(plan()) as talk:
        assert "delete the file" in (await talk.ask()).fault
        before.unlink()
        assert not (await talk.ask()).fault


async def test_no_classes_here_is_a_fault_and_no_end(stage: Stage) -> None:
    stage.config = SharesConfig()
    async with stage.running(), stage.following(plan()) as talk:
        await talk.give(60_000, 30_000, 10_000)
        assert (await talk.ask()).fault == "this node has no classes: name them in shares.classes"


@pytest.mark.parametrize("row", [(50_000, 50_000), (60_000, 30_000, 9_999)])
async def test_a_row_that_is_none_ends_the_connection(stage: Stage, row: tuple[int, ...]) -> None:
    async with stage.running(), stage.following(plan()) as talk:
        await talk.give(*row)
        assert await talk.end() == Done("malformed", principal="ann")
        await at_once(lambda: stage.weights == BEFORE)


async def test_shares_are_no_order(stage: Stage) -> None:
    """A daemon that sends one, signed as it may be, is told so; nothing is begun."""
    async with stage.running():
        stage.agent.expect(TAG)
        acted = await stage.agent.act(order(service="shares", user=ME), 5.0)
    assert (acted.outcome.cause, acted.begun) == ("not offered", False)
