"""The methods of a transfer queue as processes, against a real socket."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

import subord
from subord.services.transfer import answering
from subord.services.transfer.answering import Caller, Shares, Tell
from subord.services.transfer.jobs import SCRIPT_BYTES_MAX, Wanted
from subord.services.transfer.local import (
    ACCEPTED,
    AGAIN,
    ERROR,
    EXIT,
    SENT,
    SIGNAL,
    STATUS_AGAIN,
    STATUS_ERROR,
    Answer,
    Sense,
    Start,
    Want,
    answer_in,
    line_of,
    request_in,
)
from subord.services.transfer.methods import METHODS
from subord.services.transfer.methods.asked import STATE
from subord.services.transfer.methods.sensing import NONE_GOES

SOURCE = str(Path(subord.__file__).parents[1])
COMMAND = ("-m", "subord", "transfer")
WAIT_S_MAX = 60.0
ENDED = Answer(EXIT)


@dataclass
class Agent:
    """Answers with `end` as soon as `is_over`. `attempt`: 0: it accepts nothing."""

    end: Answer = ENDED
    is_over: trio.Event = field(default_factory=trio.Event)
    attempt: int = 1
    started: list[tuple[Caller, Start]] = field(default_factory=list)
    wanted: list[Want] = field(default_factory=list)
    taken: list[tuple[Answer, bool]] = field(default_factory=list)
    gone: int = 0

    async def start(self, caller: Caller, request: Start, tell: Tell) -> Answer:
        self.started.append((caller, request))
        if self.attempt:
            await tell(Answer(ACCEPTED, self.attempt))
            await tell(Answer(SENT))
        try:
            await self.is_over.wait()
        except trio.Cancelled:
            self.gone += 1
            raise
        return self.end

    async def told(self, _request: Start, answer: Answer, *, is_taken: bool) -> None:
        self.taken.append((answer, is_taken))

    async def want(self, _caller: Caller, request: Want) -> None:
        if request.job == "13":
            raise ValueError("the job 13 is not known")
        self.wanted.append(request)

    async def sense(self) -> int:
        return 7


@asynccontextmanager
async def serving(path: Path, agent: Agent) -> Any:
    async with trio.open_nursery() as nursery:
        await nursery.start(answering.serve, answering.bound(path), agent)
        yield agent
        nursery.cancel_scope.cancel()


def words(method: str, path: Path, *rest: str) -> list[str]:
    return [sys.executable, *COMMAND, method, "--socket", str(path), *rest]


def environment(**changed: str) -> dict[str, str]:
    return {"PATH": os.defpath, "PYTHONPATH": SOURCE, "JOB_ID": "12", "SGE_TASK_ID": "undefined", **changed}


async def ran(*command: str, given: str = "", **changed: str) -> subprocess.CompletedProcess[bytes]:
    with trio.fail_after(WAIT_S_MAX):
        return await trio.run_process(
            list(command),
            stdin=given.encode(),
            env=environment(**changed),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(WAIT_S_MAX):
        while not condition():  # noqa: ASYNC110 - other processes make it true
            await trio.sleep(0.02)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        *((Answer(EXIT, number), number) for number in (0, 1, 7, 99, 255)),
        (Answer(AGAIN), STATUS_AGAIN),
        (Answer(ERROR), STATUS_ERROR),
    ]
    + [(Answer(SIGNAL, number), -number) for number in (1, 2, 9, 11, 13, 15)],
    ids=str,
)
async def test_a_starter_ends_as_the_job_has_ended(tmp_path: Path, end: Answer, code: int) -> None:
    async with serving(tmp_path / "socket", Agent(end)) as agent:
        agent.is_over.set()
        done = await ran(*words("start", tmp_path / "socket", "sleep", "1"))
        await until(lambda: agent.taken)
        assert agent.taken == [(end, True)]
    assert (done.returncode, done.stderr) == (code, b"")


async def test_a_starter_ends_by_a_signal_that_its_parent_ignores(tmp_path: Path) -> None:
    """As a batch daemon that nohup has started."""
    async with serving(tmp_path / "socket", Agent(Answer(SIGNAL, 1))) as agent:
        agent.is_over.set()
        ignoring = ("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")
        done = await ran(*ignoring, *words("start", tmp_path / "socket", "sleep", "1"))
    assert (done.returncode, done.stderr) == (-1, b"")


async def test_the_agent_learns_what_the_batch_system_knows(tmp_path: Path) -> None:
    script = tmp_path / "job_scripts" / "12"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho ü\n", encoding="utf-8")
    async with serving(tmp_path / "socket", Agent()) as agent:
        agent.is_over.set()
        about = {"SGE_TASK_ID": "5", "SGE_STDOUT_PATH": "/o", "SGE_STDERR_PATH": "/e", "NSLOTS": "3"}
        about |= {"QUEUE": "transfer", "RESTARTED": "1", STATE: f"{os.getpid()} 5 1 2"}
        await ran(*words("start", tmp_path / "socket", str(script), "an argument", "--help"), **about)
        ((caller, request),) = agent.started
    told = Start(job="12", task=5, queue="transfer", may_have_run=True, script="#!/bin/sh\necho ü\n", slots=3)
    assert request == replace(told, output="/o", errors="/e")
    assert caller.uid == os.getuid()


@pytest.mark.parametrize(
    ("content", "words_of_it"), [(b"\xff\xfe", "UTF-8"), (b"x" * (SCRIPT_BYTES_MAX + 1), "more than")]
)
async def test_a_script_that_cannot_be_told_is_said_to_be_so(
    tmp_path: Path, content: bytes, words_of_it: str
) -> None:
    script = tmp_path / "job_scripts" / "12"
    script.parent.mkdir()
    script.write_bytes(content)
    async with serving(tmp_path / "socket", Agent(Answer(AGAIN))) as agent:
        agent.is_over.set()
        await ran(*words("start", tmp_path / "socket", str(script)))
        ((_, request),) = agent.started
    assert request.script == ""
    assert words_of_it in request.obstacle


async def test_a_method_waits_as_a_shell(tmp_path: Path) -> None:
    """And its end is noticed, as that of a method that the batch system has killed."""
    async with serving(tmp_path / "socket", Agent()) as agent, trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            words("start", tmp_path / "socket", "sleep", "1"), env=environment(), stdin=subprocess.DEVNULL
        )
        await until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sh\n")
        assert agent.gone == 0
        process.kill()
        await process.wait()
        await until(lambda: agent.gone)
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_starter_asks_again_when_the_agent_is_back(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    process = await trio.lowlevel.open_process(words("start", path, "sleep"), env=environment(NSLOTS="2"))
    async with serving(path, Agent(attempt=41)) as agent:  # the method is there first
        await until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sh\n")
    async with serving(path, Agent(Answer(EXIT, 6))) as again:
        await until(lambda: again.started)
        assert again.started[0][1] == replace(agent.started[0][1], attempt=41, was_sent=True)
        again.is_over.set()
        with trio.fail_after(WAIT_S_MAX):
            assert await process.wait() == 6


def children(pid: int) -> dict[int, str]:
    """The names of the programs of its children, by their numbers."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            if int(rest.split()[1]) == pid:
                found[int(path.parent.name)] = name
    return found


async def test_a_waiter_pauses_whatever_path_the_user_has(tmp_path: Path) -> None:
    """Otherwise interpreters would start without end."""
    path = tmp_path / "socket"
    async with serving(path, Agent(attempt=41)) as agent:
        process = await trio.lowlevel.open_process(words("start", path, "sleep"), env=environment(PATH="/none"))
        await until(lambda: agent.started)
    await until(lambda: "sleep" in children(process.pid).values())
    process.kill()
    await process.wait()


@pytest.mark.slow
async def test_a_waiter_waits_while_its_interpreter_is_replaced(tmp_path: Path) -> None:
    """127 would be the status of a job that runs on elsewhere."""
    path, python, pauses = tmp_path / "socket", tmp_path / "python", set[int]()
    interpreter = os.path.realpath(sys.executable)  # noqa: ASYNC240 - a test
    python.symlink_to(interpreter)
    lines = [str(python), *words("start", path, "sleep")[1:]]
    async with serving(path, Agent(attempt=41)) as agent:
        found = os.pathsep.join([SOURCE, *sys.path[1:]])
        process = await trio.lowlevel.open_process(lines, env=environment(PYTHONPATH=found))
        await until(lambda: agent.started)
        await until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sh\n")
        python.unlink()

    def has_looked_twice() -> bool:
        pauses.update(children(process.pid))
        assert process.poll() is None
        return len(pauses) > 2

    await until(has_looked_twice)
    python.symlink_to(interpreter)
    async with serving(path, Agent(Answer(EXIT, 6))) as again:
        again.is_over.set()
        with trio.fail_after(WAIT_S_MAX):
            assert await process.wait() == 6
    assert again.started[0][1].attempt == 41


def broken(folder: Path) -> str:
    """A path of modules, one of which cannot be imported."""
    folder.mkdir()
    (folder / "msgspec.py").write_text("raise ImportError('half unpacked')\n")
    return os.pathsep.join([str(folder), SOURCE])


async def test_a_starter_that_cannot_be_imported_puts_its_job_into_the_error_state(tmp_path: Path) -> None:
    done = await ran(*words("start", tmp_path / "socket", "sleep"), PYTHONPATH=broken(tmp_path / "new"))
    assert (done.returncode, done.stderr) == (
        STATUS_ERROR,
        b"subord transfer start: ImportError: half unpacked\n",
    )


async def test_a_starter_that_has_asked_before_tries_on_while_files_are_replaced(tmp_path: Path) -> None:
    """Its job may run elsewhere."""
    path = tmp_path / "socket"
    again = ("sh", "-c", f'export {STATE}="$$ 41 1 1"; exec "$@"', "sh", *words("start", path, "sleep"))
    process = await trio.lowlevel.open_process(
        again, env=environment(PYTHONPATH=broken(tmp_path / "new")), stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    with trio.fail_after(WAIT_S_MAX):
        assert b"half unpacked; it asks again" in await process.stderr.receive_some(1000)
    (tmp_path / "new" / "msgspec.py").unlink()
    async with serving(path, Agent(Answer(EXIT, 6))) as agent:
        agent.is_over.set()
        with trio.fail_after(WAIT_S_MAX):
            assert await process.wait() == 6
    assert (agent.started[0][1].attempt, agent.started[0][1].was_sent) == (41, True)


async def test_a_path_that_is_no_text_is_told_as_an_obstacle(tmp_path: Path) -> None:
    """And does not leave a method that asks for ever."""
    async with serving(tmp_path / "socket", Agent(Answer(AGAIN))) as agent:
        agent.is_over.set()
        done = await ran(*words("start", tmp_path / "socket", "sleep"), SGE_STDOUT_PATH="/scratch/\udcff")
        ((_, request),) = agent.started
    assert (done.returncode, request.output) == (STATUS_AGAIN, "")
    assert request.obstacle == "the path of its output is no text in UTF-8"


@pytest.mark.slow
async def test_a_starter_that_was_not_answered_asks_again(tmp_path: Path) -> None:
    """The agent may have the job on its disk."""
    path = tmp_path / "socket"
    process = await trio.lowlevel.open_process(words("start", path, "sleep"), env=environment())
    async with serving(path, Agent(attempt=0)) as agent:
        await until(lambda: agent.started)
    async with serving(path, Agent(Answer(EXIT, 3))) as again:
        again.is_over.set()
        with trio.fail_after(WAIT_S_MAX):
            assert await process.wait() == 3


@pytest.mark.parametrize(
    ("method", "wanted"),
    [("suspend", Wanted.SUSPENDED), ("resume", Wanted.RUN), ("terminate", Wanted.DELETED)],
)
async def test_what_is_wanted_is_told(tmp_path: Path, method: str, wanted: Wanted) -> None:
    async with serving(tmp_path / "socket", Agent()) as agent:
        done = await ran(*words(method, tmp_path / "socket", "99999999"), SGE_TASK_ID="4")
        assert (done.returncode, agent.wanted) == (0, [Want(job="12", task=4, wanted=wanted)])
        unknown = await ran(*words(method, tmp_path / "socket"), JOB_ID="13")
        assert unknown.returncode == 1
        assert b"the job 13 is not known" in unknown.stderr


async def test_the_sensor_speaks_the_protocol_of_execd(tmp_path: Path) -> None:
    async with serving(tmp_path / "socket", Agent()):
        done = await ran(*words("sensor", tmp_path / "socket", "away"), given="\n\nquit\n\n")
    assert done.stdout.decode() == "begin\nglobal:away:7\nend\n" * 2
    silent = await ran(*words("sensor", tmp_path / "socket", "away"), given="\n")
    assert silent.stdout.decode() == f"begin\nglobal:away:{NONE_GOES}\nend\n"


async def test_methods_without_a_job_complain(tmp_path: Path) -> None:
    for method, code in (("start", STATUS_ERROR), ("suspend", 1)):
        done = await ran(*words(method, tmp_path / "socket"), JOB_ID="")
        assert done.returncode == code
        assert b"JOB_ID" in done.stderr
    for bad in (["start"], ["sensor", "--json", "x"], ["suspend", "--help", "x"]):
        done = await ran(sys.executable, *COMMAND, *bad)
        assert done.returncode == (STATUS_ERROR if bad == ["start"] else 2), "2 would be the status of the job"
        assert b"expected `subord transfer %s --socket PATH" % bad[0].encode() in done.stderr


@pytest.mark.slow
async def test_methods_have_help() -> None:
    for method in METHODS:
        done = await ran(sys.executable, *COMMAND, method, "--help")
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"usage: subord transfer %s [-h] --socket PATH" % method.encode() in done.stdout


async def test_what_is_no_request_is_answered_and_harms_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path / "socket", Agent()):
        for line in (b"\n", b"{}\n", b'{"type":"start","job":"a b"}\n', b"\xff\n", b'{"type":"sense","x":1}\n'):
            stream = await trio.open_unix_socket(str(tmp_path / "socket"))
            await stream.send_all(line)
            with trio.fail_after(WAIT_S_MAX):
                assert (await stream.receive_some(1000)).startswith(b"wrong ")
            await stream.aclose()
        (await trio.open_unix_socket(str(tmp_path / "socket"))).socket.close()
        assert (await ran(*words("sensor", tmp_path / "socket", "away"), given="\n")).stdout.count(b":7\n") == 1


def test_one_user_has_half_of_what_there_is_at_most() -> None:
    shares = Shares(10)
    assert [shares.take(7) for _ in range(6)] == [True] * 5 + [False]
    assert [shares.take(8, amount) for amount in (6, 4, 1, 1)] == [False, True, True, False]
    assert not shares.take(0), "all have no more than there is"
    shares.give(8, 5)
    assert not shares.take(7)
    assert shares.take(0, 5), "root has no bound of its own"


async def test_connections_of_one_user_leave_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "socket"
    uids = iter([1000] * 5 + [1001] * 3)
    caller = answering._caller
    monkeypatch.setattr(answering, "CONNECTIONS_MAX", 6)
    by_stream = dict[trio.SocketStream, int]()

    def made_up(stream: trio.SocketStream) -> Caller:
        if stream not in by_stream:
            by_stream[stream] = next(uids)
        return Caller(caller(stream).pid, by_stream[stream])

    monkeypatch.setattr(answering, "_caller", made_up)
    heard = []
    async with serving(path, Agent(attempt=4)), AsyncExitStack() as streams:
        for _ in range(8):
            stream = await streams.enter_async_context(await trio.open_unix_socket(str(path)))
            await stream.send_all(line_of(Start(job="12")))
            with trio.fail_after(WAIT_S_MAX):
                try:
                    heard.append(bool(await stream.receive_some(10)))
                except trio.BrokenResourceError:
                    heard.append(False)
    assert heard == [True] * 3 + [False] * 2 + [True] * 3


async def test_requests_that_are_being_read_have_a_bound_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sends slowly keeps what was read in memory."""
    monkeypatch.setattr(answering, "REQUESTS_BYTES_MAX", 300_000)
    async with serving(tmp_path / "socket", Agent(Answer(AGAIN))) as agent:
        agent.is_over.set()
        with trio.fail_after(WAIT_S_MAX):
            async with await trio.open_unix_socket(str(tmp_path / "socket")) as slow:
                with pytest.raises(trio.BrokenResourceError):
                    await slow.send_all(b"x" * 1_000_000)
            assert (await ran(*words("start", tmp_path / "socket", "sleep"))).returncode == STATUS_AGAIN


def test_connections_leave_files_for_the_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, most in ((1024, 768), (16_384, 8192), (100, 16), (resource.RLIM_INFINITY, 8192)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert answering._connections_max() == most


def test_requests_and_answers_are_read_as_they_were_written() -> None:
    for request in (Start(job="1"), Want(job="1", task=2, wanted=Wanted.RUN), Sense()):
        assert request_in(line_of(request)) == request
    for answer in (Answer(EXIT, 3), Answer("wrong", reason="so it is"), Answer(SIGNAL, 9)):
        assert answer_in(answer.line()) == answer
    with pytest.raises(ValueError, match="no answer"):
        answer_in(b"nonsense 1\n")


async def test_a_method_begins_cheaply(tmp_path: Path) -> None:
    """Processor time of the cheapest of some runs: other programs may keep the machine busy."""
    costs = []
    async with serving(tmp_path / "socket", Agent()):
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            await ran(*words("suspend", tmp_path / "socket"))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            costs.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(costs) < 0.1
    done = await ran(sys.executable, "-X", "importtime", *COMMAND, "start", "--socket", "/none", JOB_ID="")
    for module in (b"trio", b"argparse", b"asyncio", b"subord.cli.", b"subord.client"):
        assert b"| " + module not in done.stderr.replace(b"  ", b"")
