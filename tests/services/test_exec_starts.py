"""Commands whose program is on a file system that hangs: what else the agent does goes on.

A lease (fcntl(2)) on a file holds everything up that opens it, as a server that does not answer does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from conditions import until

from subord.runtime.starting import start_programs_without_lock
from subord.services import looking
from subord.services.exec import agent as exec_agent
from subord.services.exec import outcome
from subord.services.exec.outcome import Ended
from subord.services.exec.task import Run, encode
from tests.services.test_look_ups import DETAIL, HUNG_S_MAX, context

pytestmark = pytest.mark.usefixtures("starts_of_the_agent")
HOLD_S = 60.0
TRIES_S = 2.0
HOLDER = f"""
import fcntl, os, select, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print(flush=True)
select.select([0], [], [], {HOLD_S})
"""


@pytest.fixture
def starts_of_the_agent() -> None:
    """Programs are started as in the agent's own process."""
    start_programs_without_lock()


@contextmanager
def hung(path: Path) -> Iterator[Callable[[], None]]:
    """Nothing can open the file, until the end or a call."""
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"\n"
        yield holder.stdin.close


def program(path: Path) -> Path:
    shutil.copy("/bin/true", path)
    path.chmod(0o755)
    return path


async def ran(top: Path, left_s: float, *words: str, **given: Any) -> Ended:
    payload = encode(Run(tuple(os.fsencode(each) for each in words), **given))
    found = outcome.decode(await exec_agent.act(payload, context(top, left_s)._replace(tag=os.urandom(16))))
    assert isinstance(found, Ended)
    return found


@pytest.mark.parametrize("how", ["path", "relative", "name", "trial"])
async def test_a_program_that_cannot_be_read_is_not_started(tmp_path: Path, how: str) -> None:
    """Its start could not be ended before its time."""
    (tmp_path / "bin").mkdir()
    path = program(tmp_path / "bin" / "hung")
    word = {"path": str(path), "relative": "./bin/hung"}.get(how, "hung")
    place = str(tmp_path / "bin") if how == "trial" else "bin"
    given = {
        "directory": os.fsencode(tmp_path),
        "environment": ((b"PATH", os.fsencode(f"/none:{place}")),),
        "is_trial": how == "trial",
    }
    with hung(path):
        assert await ran(tmp_path, 0.4, word, **given) == Ended(outcome.NOT_STARTED, detail=DETAIL)
    await until(lambda: not looking._threads.borrowed_tokens, "all look-ups have ended")
    assert (await ran(tmp_path, 60.0, word, **given)).how in (outcome.EXITED, outcome.TRIAL)


async def test_what_is_no_program_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o755)
    assert (await ran(tmp_path, 60.0, str(tmp_path / "pipe"))).how == outcome.NOT_EXECUTABLE
    secret = tmp_path / "file"
    secret.write_text("x")
    with hung(secret):
        assert (await ran(tmp_path, 60.0, str(secret))).how == outcome.NOT_EXECUTABLE


@pytest.mark.slow
async def test_a_start_that_hangs_holds_no_other_work(tmp_path: Path) -> None:
    """Here the program can be read, and its interpreter cannot."""
    interpreter, script = program(tmp_path / "interpreter"), tmp_path / "script"
    script.write_text(f"#!{interpreter}\n")
    script.chmod(0o755)
    longest, at = 0.0, time.monotonic()
    with hung(interpreter) as release:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ran, tmp_path, HOLD_S, str(script))
            with trio.move_on_after(TRIES_S):
                while True:
                    await trio.sleep(0.05)
                    longest, at = max(longest, time.monotonic() - at), time.monotonic()
            assert len(nursery.child_tasks) == 1
            assert (await ran(tmp_path, 60.0, "true")).how == outcome.EXITED
            assert len(nursery.child_tasks) == 1
            release()
    assert longest < TRIES_S


async def test_starts_that_hang_leave_others_their_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command for whose start none is left says so."""
    begun, released = list[object](), threading.Event()

    def start(*words: Any, **_: Any) -> None:
        begun.append(words)
        released.wait(HUNG_S_MAX)
        raise FileNotFoundError(2, "gone", b"true")

    monkeypatch.setattr(subprocess, "Popen", start)
    threads = int(trio.to_thread.current_default_thread_limiter().total_tokens)
    told: list[Ended] = []

    async def act(number: int) -> None:
        told.append(await ran(tmp_path, 60.0 if number <= threads else 0.4, "true"))

    try:
        async with trio.open_nursery() as nursery:
            for number in range(threads + 1):
                nursery.start_soon(act, number)
            await until(lambda: len(begun) >= exec_agent.STARTS_MAX, "they are under way")
            with trio.fail_after(HUNG_S_MAX / 2):
                await act(threads + 1)
                await trio.to_thread.run_sync(os.getpid)
            assert told == [Ended(outcome.NOT_STARTED, detail="starts of commands do not end in time")]
            assert len(begun) == exec_agent.STARTS_MAX
            released.set()
    finally:
        released.set()
    assert len(told) == threads + 2


@pytest.mark.parametrize(("version", "is_used"), [((3, 11, 2), False), ((3, 11, 3), False), ((3, 11, 4), True)])
def test_older_releases_of_python_fork(monkeypatch: pytest.MonkeyPatch, version: Any, is_used: bool) -> None:
    monkeypatch.setattr(subprocess, "_USE_VFORK", True)
    monkeypatch.setattr(sys, "version_info", version)
    start_programs_without_lock()
    assert is_used == subprocess._USE_VFORK  # type: ignore[attr-defined]
