"""Records of commands of `subord exec`: what they say, also of commands that are cancelled; none is waited for."""

from __future__ import annotations

import os
import pwd
import threading
import time
from pathlib import Path

import pytest
import trio
from conditions import until

from subord.services.account import of_commands
from subord.services.account.record import Job
from subord.services.acting import Context
from subord.services.exec import outcome
from subord.services.exec.agent import act
from subord.services.exec.outcome import Ended
from subord.services.exec.task import Run, encode
from subord.services.looking import LookError
from tests.api.served_ledger import FakeLedger

ME = pwd.getpwuid(os.geteuid()).pw_name
TAG = bytes(range(16))


async def ran(top: Path, socket: str, *words: str, accounts: bool = True, **given: object) -> Ended:
    task = Run(tuple(map(os.fsencode, words)), **given)  # type: ignore[arg-type]
    context = Context(ME, "ann@example.org", TAG, 60.0, "10.0.0.7", str(top), socket, accounts)
    found = outcome.decode(await act(encode(task), context))
    assert isinstance(found, Ended)
    return found


async def record_of(ledger: FakeLedger) -> Job:
    await until(lambda: bool(ledger.requests), "the record is there")
    ((record,),) = ledger.requests
    assert record.kind == "command"
    (job,) = ledger.jobs
    assert job is not None
    return job


@pytest.mark.parametrize(
    ("words", "status", "number"),
    [
        (("true",), 0, None),
        (("sh", "-c", "exit 3"), 3, None),
        (("sh", "-c", "kill -9 $$"), None, 9),
        (("no-such-command",), 127, None),
    ],
)
async def test_a_command_gets_a_record(
    tmp_path: Path, socket: str, ledger: FakeLedger, *, words: tuple[str, ...], status: int | None, number: int | None
) -> None:
    before = time.time()
    await ran(tmp_path, socket, *words)
    job = await record_of(ledger)
    assert (job.id, job.user, job.account, job.host) == (TAG.hex(), ME, "ann@example.org", "10.0.0.7")
    assert (job.status, job.signal, job.has_failed) == (status, number, words != ("true",))
    assert job.labels["command"].startswith(words[0])
    assert job.started is not None
    assert before <= job.started <= job.ended <= time.time()


async def test_a_command_that_is_cancelled_gets_one(tmp_path: Path, socket: str, ledger: FakeLedger) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ran, tmp_path, socket, "sh", "-c", f"touch {tmp_path}/begun; exec sleep 60")
        await until((tmp_path / "begun").exists, "it runs")
        nursery.cancel_scope.cancel()
    job = await record_of(ledger)
    assert (job.status, job.signal) == (None, 15)


async def test_a_command_that_could_not_be_started_was_not_ended(
    tmp_path: Path, socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_start(*_: object) -> None:
        raise LookError("starts of commands do not end in time")

    monkeypatch.setattr("subord.services.exec.agent._started", no_start)
    assert (await ran(tmp_path, socket, "true")).how == "not started"
    job = await record_of(ledger)
    assert (job.status, job.signal) == (125, None)


async def test_a_command_whose_time_is_over_gets_one(tmp_path: Path, socket: str, ledger: FakeLedger) -> None:
    assert (await ran(tmp_path, socket, "sleep", "60", time_ms=100)).how == "timed out"
    assert (await record_of(ledger)).status == 124


async def test_words_that_are_no_text_and_long(tmp_path: Path, socket: str, ledger: FakeLedger) -> None:
    await ran(tmp_path, socket, "true", "\x1b[31m\udcff", "x" * 1000)
    job = await record_of(ledger)
    assert len(job.labels["command"]) == 64
    assert job.labels["command"].isprintable()


async def test_nothing_is_written_unless_the_configuration_says_so(
    tmp_path: Path, socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_commands, "write", None)
    assert (await ran(tmp_path, socket, "true", accounts=False)).code == 0
    assert (await ran(tmp_path, socket, "true", is_trial=True)).how == "would run"
    assert ledger.requests == []


async def test_a_command_does_not_wait_for_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = threading.Event()

    def slow(*_: object, **__: object) -> None:
        may_end.wait(60)

    monkeypatch.setattr(of_commands, "change", slow)
    assert (await ran(tmp_path, "", "true")).code == 0
    may_end.set()
    monkeypatch.undo()

    def no_threads(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as failing:
        failing.setattr(of_commands, "write", no_threads)
        assert (await ran(tmp_path, "", "true")).code == 0
    assert "can't start new thread" in caplog.text
    assert (await ran(tmp_path, str(tmp_path / "absent"), "true")).code == 0
    await until(lambda: f"no record of the command with tag {TAG.hex()} is written" in caplog.text, "it is logged")
