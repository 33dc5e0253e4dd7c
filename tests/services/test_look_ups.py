"""Look-ups of users that hang, as those of a server that does not answer: what else the agent does goes on."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from conditions import until
from signed_orders import order

from subord.core.carriage.engine.frames import Order
from subord.services import looking
from subord.services.acting import Context
from subord.services.exec import agent as exec_agent
from subord.services.exec import outcome
from subord.services.exec.account import account_of
from subord.services.exec.outcome import Ended
from subord.services.exec.task import Run, encode
from subord.services.files import agent as files_agent
from subord.services.files import outcome as files_outcome
from subord.services.files.outcome import Pushed
from subord.services.files.task import Push
from subord.services.files.task import encode as encode_files
from tests.agent import test_agent_serving
from tests.agent.test_agent_judge import Operators
from tests.agent.test_agent_serving import TOUCHED, Stage, stage

__all__ = ["stage"]
ME = pwd.getpwuid(os.geteuid()).pw_name
HUNG_S_MAX = 10.0
"""So that a test ends also if the agent waits in its loop of events."""
DETAIL = "look-ups of users, homes and programs do not end in time"
PUSH = encode_files(Push(bytes(32), 1))


class Server:
    """The server of the users, which answers when it is released."""

    def __init__(self) -> None:
        self.asked = self.answered = 0
        self.answers = threading.Event()

    def account_of(self, name: str) -> Any:
        self.asked += 1
        self.answers.wait(HUNG_S_MAX)
        self.answered += 1
        return account_of(name)

    async def answer(self) -> None:
        """And let the look-ups end."""
        self.answers.set()
        await until(lambda: not looking._threads.borrowed_tokens, "all look-ups have ended")


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.answers.set()


def context(top: Path, left_s: float = 60.0) -> Context:
    return Context(ME, "ann", bytes(16), left_s, "10.0.0.7", str(top))


def run_order(number: int) -> Order:
    return order(encode(Run((b"true",))), service="exec", tag=number.to_bytes(16, "big"), left_s=60)


class ExecOperators(Operators):
    def __init__(self) -> None:
        super().__init__()
        self.powers["ann"] += " subord.exec"


async def test_hung_look_ups_of_many_orders_leave_the_journal_its_threads(
    stage: Stage, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More orders than all threads of trio."""
    policy = stage.top / "policy.toml"
    policy.write_text(policy.read_text().replace('"linger"', '"linger", "exec"'))
    monkeypatch.setattr(test_agent_serving, "Operators", ExecOperators)
    monkeypatch.setattr(exec_agent, "account_of", server.account_of)
    threads = int(trio.to_thread.current_default_thread_limiter().total_tokens)
    async with stage.running() as running, trio.open_nursery() as nursery:
        for number in range(threads + 1):
            nursery.start_soon(stage.act, run_order(number), 60)
        await until(lambda: server.asked >= looking.LOOKS_MAX, "they are under way")
        with trio.fail_after(HUNG_S_MAX / 2):
            assert await stage.act(stage.order(), 5) == TOUCHED
        assert len(running._running) == threads + 1
        nursery.cancel_scope.cancel()
    assert server.asked == looking.LOOKS_MAX
    await server.answer()


async def test_an_order_of_files_that_hangs_leaves_other_orders_their_limits(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_agent, "account_of", server.account_of)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files_agent.act, PUSH, context(tmp_path))
        await until(lambda: server.asked, "it is under way")
        command = Run((b"sleep", b"60"), time_ms=50)
        with trio.fail_after(HUNG_S_MAX / 2):
            found = outcome.decode(await exec_agent.act(encode(command), context(tmp_path)))
        assert isinstance(found, Ended)
        assert found.how == outcome.TIMED_OUT
        assert not server.answered
        nursery.cancel_scope.cancel()
    await server.answer()


async def test_a_directory_whose_server_hangs_does_not_hold_the_start_of_a_process(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That could not be ended before its time."""
    hung, real = os.fsencode(tmp_path / "hung"), os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: server.account_of(ME) if path == hung else real(path))
    task = encode(Run((b"true",), directory=hung))
    assert outcome.decode(await exec_agent.act(task, context(tmp_path, 0.2))) == Ended(
        outcome.NOT_STARTED, detail=DETAIL
    )
    assert server.asked == 1
    await server.answer()


async def test_an_order_without_a_look_up_in_time_says_so(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one has the only thread, and the others wait for it."""
    monkeypatch.setattr(looking, "_threads", trio.CapacityLimiter(1))
    for each in (exec_agent, files_agent):
        monkeypatch.setattr(each, "account_of", server.account_of)
    told: list[object] = []

    async def act(service: Any, payload: bytes, decode: Any) -> None:
        told.append(decode(await service.act(payload, context(tmp_path, 0.2))))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act, exec_agent, encode(Run((b"true",))), outcome.decode)
        nursery.start_soon(act, exec_agent, encode(Run((b"true",))), outcome.decode)
        nursery.start_soon(act, files_agent, PUSH, files_outcome.decode)
    assert told.count(Ended(outcome.NOT_STARTED, detail=DETAIL)) == 2
    assert told.count(Pushed(files_outcome.FAILED, detail=DETAIL)) == 1
    assert server.asked == 1
    await server.answer()
    assert await looking.looked_up(60.0, account_of, ME) == account_of(ME)
