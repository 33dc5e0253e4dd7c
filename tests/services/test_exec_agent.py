"""`subord exec` on one node, with real processes: how they end, what they get, what is cut and kept, what is left."""

from __future__ import annotations

import errno
import os
import pwd
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from conditions import until
from disks import PAGE, Disk, apart

from subord.services.acting import Context
from subord.services.exec import account, kept, outcome, session
from subord.services.exec.agent import act
from subord.services.exec.outcome import Ended, Piece
from subord.services.exec.task import Fetch, List, Run, Stop, Task, encode

TAG = bytes(range(16))
ME = pwd.getpwuid(os.geteuid()).pw_name
NOBODY = "nobody"
TOP = str(Path(__file__).resolve().parents[2])


def context(directory: Path, user: str = ME, tag: bytes = TAG) -> Context:
    return Context(user, "ann", tag, 60.0, "10.0.0.7", str(directory))


async def ran(top: Path, *words: str | bytes, user: str = ME, tag: bytes = TAG, **given: Any) -> Ended:
    task = Run(tuple(map(os.fsencode, words)), **given)
    found = outcome.decode(await act(encode(task), context(top, user, tag)))
    assert isinstance(found, Ended)
    return found


def real(path: str | Path) -> str:
    return os.path.realpath(path)


def files(top: Path) -> list[Path]:
    return sorted(top.iterdir())


async def sh(top: Path, script: str, **given: Any) -> Ended:
    return await ran(top, "sh", "-c", script, **given)


@pytest.mark.parametrize(
    ("words", "how", "code"),
    [
        (("true",), "exited", 0),
        (("sh", "-c", "exit 3"), "exited", 3),
        (("sh", "-c", "kill -9 $$"), "killed", 137),
        (("sh", "-c", "kill $$"), "killed", 143),
        (("no-such-command",), "not found", 127),
        (("/no/such/command",), "not found", 127),
        (("/etc/passwd",), "not executable", 126),
        (("/etc",), "not executable", 126),
    ],
)
async def test_how_it_ends(tmp_path: Path, words: tuple[str, ...], how: str, code: int) -> None:
    ended = await ran(tmp_path, *words)
    assert (ended.how, ended.code) == (how, code)


async def test_both_outputs_and_the_input(tmp_path: Path) -> None:
    ended = await sh(tmp_path, "cat; echo oops >&2", stdin=b"from afar\0\xff")
    assert ended.output.head == b"from afar\0\xff"
    assert ended.errors.head == b"oops\n"
    assert not ended.is_kept


async def test_a_command_that_does_not_read_its_input_is_no_fault(tmp_path: Path) -> None:
    assert (await ran(tmp_path, "true", stdin=bytes(30_000))).code == 0


async def test_a_long_command(tmp_path: Path) -> None:
    ended = await ran(tmp_path, "printf", "%s", "x" * 5_000)
    assert ended.output.head == b"x" * 5_000


async def test_words_need_not_be_text(tmp_path: Path) -> None:
    assert (await ran(tmp_path, "printf", "%s", b"\xff \n")).output.head == b"\xff \n"


async def test_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "x")
    environment = ((b"COLOUR", b"red"), (b"LANG", b"C"), (b"SUBORD_NODE", b"forged"))
    ended = await ran(tmp_path, "env", environment=environment)
    found = dict(line.split("=", 1) for line in ended.output.head.decode().splitlines())
    home, shell = pwd.getpwnam(ME).pw_dir, pwd.getpwnam(ME).pw_shell
    assert found == {
        "PATH": account.PATH,
        "HOME": home,
        "USER": ME,
        "LOGNAME": ME,
        "SHELL": shell,
        "LANG": "C",
        "COLOUR": "red",
        "SUBORD_TAG": TAG.hex(),
        "SUBORD_NODE": "10.0.0.7",
        "SUBORD_PRINCIPAL": "ann",
    }


async def test_the_place_the_mask_and_the_descriptors(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(partial(os.umask, os.umask(0o077)))
    home = pwd.getpwnam(ME).pw_dir
    ended = await sh(tmp_path, "pwd -P; umask; ls /proc/self/fd | wc -l")
    assert ended.output.head.decode().split() == [real(home), "0022", "4"]
    ended = await sh(tmp_path, "pwd -P", directory=os.fsencode(tmp_path))
    assert ended.output.head.decode().strip() == real(tmp_path)
    ended = await sh(tmp_path, "true", directory=b"/no/such/place")
    assert (ended.how, ended.code) == ("no directory", 126)


async def test_an_unknown_user(tmp_path: Path) -> None:
    ended = await ran(tmp_path, "true", user="no-such-user")
    assert (ended.how, ended.code, ended.detail) == ("no such user", 125, "no-such-user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")
async def test_another_user(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """With its own groups alone, and in / where it has no home."""
    request.addfinalizer(partial(os.setgroups, os.getgroups()))
    os.setgroups([4, 24])
    ended = await sh(tmp_path, "id -un; id -G; pwd; echo $HOME $USER", user=NOBODY)
    found = pwd.getpwnam(NOBODY)
    groups = " ".join(map(str, os.getgrouplist(NOBODY, found.pw_gid)))
    assert ended.output.head.decode().splitlines() == [NOBODY, groups, "/", f"{found.pw_dir} {NOBODY}"]
    assert (await ran(tmp_path, "cat", "/etc/shadow", user=NOBODY)).code == 1


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to lose its rights")
async def test_an_agent_that_may_not_become_the_user(tmp_path: Path) -> None:
    """As with the unit that is delivered, which has no capability."""
    code = (
        "import sys, trio; from pathlib import Path; import tests.services.test_exec_agent as t\n"
        "e = trio.run(lambda: t.ran(Path(sys.argv[1]), 'true', user='nobody')); print(e.how, e.code)"
    )
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    words = [*drop, sys.executable, "-c", code, str(tmp_path)]
    path = os.pathsep.join([TOP, f"{TOP}/tests/helpers"])
    done = await trio.run_process(words, capture_stdout=True, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.stdout.decode().split("\n")[0] == "user not permitted 125"


# -- output -------------------------------------------------------------------------------------------------


async def fetched(directory: Path, stream: int, user: str = ME) -> bytes:
    data = b""
    while True:
        task = Fetch(TAG, stream, len(data))
        found = outcome.decode(await act(encode(task), context(directory, user, bytes(16))))
        assert isinstance(found, Piece), found
        data += found.data
        if len(data) == found.size:
            return data


async def test_much_output_is_cut_in_the_middle_and_kept(tmp_path: Path) -> None:
    ended = await sh(tmp_path, "seq 100000; echo done >&2", output_bytes=1_000)
    whole = "".join(f"{number}\n" for number in range(1, 100_001)).encode()
    assert ended.output.head == whole[:497]
    assert ended.output.tail == whole[-498:]
    assert ended.output.cut == len(whole) - 995
    assert ended.errors == outcome.Part(b"done\n")
    assert ended.is_kept
    assert await fetched(tmp_path, 1) == whole
    assert await fetched(tmp_path, 2) == b"done\n"


async def test_a_stream_without_output_is_kept_too(tmp_path: Path) -> None:
    assert (await sh(tmp_path, "seq 1000", output_bytes=256)).is_kept
    assert await fetched(tmp_path, 2) == b""


async def test_kept_output_is_for_its_user_alone(tmp_path: Path) -> None:
    await sh(tmp_path, "seq 1000", output_bytes=256)
    if os.geteuid() == 0:
        found = outcome.decode(await act(encode(Fetch(TAG, 1)), context(tmp_path, NOBODY)))
        assert isinstance(found, Ended)
        assert found.how == "not kept"
    (folder,) = files(tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in files(folder)} == {0o600}


async def test_output_that_fits_is_kept_only_if_wanted(tmp_path: Path) -> None:
    assert not (await sh(tmp_path, "echo x")).is_kept
    assert files(tmp_path) == []
    assert (await sh(tmp_path, "echo x", keeps_all=True)).is_kept
    assert await fetched(tmp_path, 1) == b"x\n"


async def test_a_disk_without_room_loses_output_and_ends_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "STREAM_BYTES_MAX", 5_000)
    ended = await sh(tmp_path, "seq 10000", output_bytes=1_000)
    assert (ended.code, ended.is_kept) == (0, False)
    assert sum(each.stat().st_size for each in files(tmp_path / "output")) == 5_000
    (tmp_path / "output" / "x").mkdir()
    ended = await sh(tmp_path, "seq 10000", output_bytes=1_000)  # the file of the tag is there already
    assert (ended.code, ended.is_kept) == (0, False)


async def test_a_full_disk_loses_output_and_ends_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept.os, "write", full)
    ended = await sh(tmp_path, "seq 10000; echo done >&2", output_bytes=1_000)
    assert (ended.code, ended.is_kept, ended.errors.head) == (0, False, b"done\n")
    assert ended.output.cut > 40_000


@apart
def test_a_real_disk_that_fills_up_gets_its_room_back(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "agent", 64 * PAGE)
    for pages in (0, 1, 10):
        disk.fill(pages * PAGE)
        before = disk.free_bytes
        script = "seq 100000; echo done >&2"
        ended = trio.run(partial(sh, disk.path, script, tag=bytes([pages]) * 16, output_bytes=1_000))
        assert (ended.code, ended.is_kept, ended.errors.head) == (0, False, b"done\n")
        assert disk.free_bytes >= before - PAGE  # the other stream may be kept
    disk.close()
    assert trio.run(partial(sh, disk.path, "seq 10000", output_bytes=1_000)).code == 0
    disk.open()
    disk.free()
    assert trio.run(partial(sh, disk.path, "seq 10000", output_bytes=1_000)).is_kept


def kept_files(top: Path, count: int) -> Path:
    """A folder with so many files of 10 bytes, the oldest first."""
    folder = top / "output"
    folder.mkdir()
    for number in range(count):
        file = folder / str(number)
        file.write_bytes(bytes(10))
        os.utime(file, (1_000 + number, 1_000 + number))
    return folder


def test_old_and_too_many_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "STREAM_BYTES_MAX", 10)
    monkeypatch.setattr(kept, "ALL_BYTES_MAX", 50)
    folder = kept_files(tmp_path, 8)
    assert kept.make_room(str(folder), 1_010)
    assert sorted(each.name for each in folder.iterdir()) == ["4", "5", "6", "7"]
    assert kept.make_room(str(folder), 1_006 + kept.KEEP_S)
    assert sorted(each.name for each in folder.iterdir()) == ["7"]


def test_a_file_that_cannot_be_deleted_gives_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next ones go instead; if none can, output is lost and the bound holds."""
    monkeypatch.setattr(kept, "STREAM_BYTES_MAX", 10)
    monkeypatch.setattr(kept, "ALL_BYTES_MAX", 50)
    folder, stuck, real = kept_files(tmp_path, 5), {"0", "1"}, os.unlink

    def unlink(path: str) -> None:
        if os.path.basename(path) in stuck:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        real(path)

    monkeypatch.setattr(kept.os, "unlink", unlink)
    assert kept.make_room(str(folder), 1_010)
    assert sorted(each.name for each in folder.iterdir()) == ["0", "1", "3", "4"]
    said = f"2 files of kept output cannot be deleted; the first: [Errno 1] Operation not permitted: '{folder}/0'"
    assert said in caplog.text
    stuck |= {"3", "4", "5"}
    (folder / "5").write_bytes(bytes(10))
    assert not kept.make_room(str(folder), 1_010)
    lost = kept.Sink(str(tmp_path), TAG, 0, 1)
    lost.write(b"x")
    assert not lost.is_whole
    assert size_of(folder) == 50


def size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


def test_commands_that_run_at_once_keep_no_more_than_all_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """All begin before any has much output."""
    monkeypatch.setattr(kept, "STREAM_BYTES_MAX", 10)
    monkeypatch.setattr(kept, "ALL_BYTES_MAX", 59)
    sinks = [kept.Sink(str(tmp_path), bytes([number]) * 16, 0, 1) for number in range(8)]
    for each in sinks:
        request.addfinalizer(each.close)
        each.write(b"x")
    for each in sinks:
        each.write(b"y" * 9)
    assert [each.is_whole for each in sinks] == [True] * 5 + [False] * 3
    assert size_of(tmp_path / "output") == 50
    sinks[0].close()
    with_room = kept.Sink(str(tmp_path), bytes([9]) * 16, 0, 1)
    request.addfinalizer(with_room.close)
    with_room.write(b"z" * 10)
    assert with_room.is_whole
    assert not os.path.exists(kept.path_of(str(tmp_path), bytes([0]) * 16, 0, 1)), "only this one was closed"
    assert size_of(tmp_path / "output") == 50


def test_what_a_running_command_keeps_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """It is the oldest file; short kept files go before it."""
    monkeypatch.setattr(kept, "STREAM_BYTES_MAX", 10)
    monkeypatch.setattr(kept, "ALL_BYTES_MAX", 30)
    running = kept.Sink(str(tmp_path), TAG, 0, 1)
    request.addfinalizer(running.close)
    running.write(b"x")
    path = kept.path_of(str(tmp_path), TAG, 0, 1)
    os.utime(path, (0, 0))
    for number in range(8):
        ended = kept.Sink(str(tmp_path), bytes([number + 1]) * 16, 0, 1)
        ended.write(b"y" * 10)
        assert ended.is_whole
        ended.close()
    running.write(b"z" * 9)
    assert running.is_whole
    assert kept.piece(path, 0, 10) == (10, b"xzzzzzzzzz")
    assert size_of(tmp_path / "output") == 30


# -- the end of all processes --------------------------------------------------------------------------------

TREE = """
trap '' TERM
(sleep 60; echo) &
timeout 60 sleep 60 &
sh -c "trap '' TERM; sleep 60 & wait; sleep 60" &
echo $$; echo ready > {file}
while :; do sleep 60; done
"""
"""Grandchildren, one in a process group of its own (timeout), and two that ignore SIGTERM."""


@pytest.mark.slow
async def test_a_timeout_ends_every_process(tmp_path: Path) -> None:
    began = trio.current_time()
    ended = await sh(tmp_path, TREE.format(file=tmp_path / "ready"), time_ms=2000)
    assert (ended.how, ended.code) == ("timed out", 124)
    assert trio.current_time() - began < 30
    leader = int(ended.output.head)
    assert session.members(leader) == []


async def test_a_cancelled_order_ends_every_process(tmp_path: Path) -> None:
    pids: list[int] = []
    async with trio.open_nursery() as nursery:
        script = f"echo $$ > {tmp_path}/pid; " + TREE.format(file=tmp_path / "ready")
        nursery.start_soon(sh, tmp_path, script)
        await until((tmp_path / "ready").exists, "it runs")
        pids.append(int((tmp_path / "pid").read_text()))
        await until(lambda: len(session.members(pids[0])) >= 6, "all of them run")
        nursery.cancel_scope.cancel()
    assert session.members(pids[0]) == []


async def test_an_order_that_is_cancelled_while_it_is_ended_leaves_no_process(tmp_path: Path) -> None:
    """Its time is over, and its first process has ended; a child takes longer."""
    child = f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 0.1; done"
    script = f'echo $$ > {tmp_path}/pid; sh -c "{child}" & wait'
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(sh, tmp_path, script, time_ms=400))
        await until((tmp_path / "ready").exists, "it runs")
        leader = int((tmp_path / "pid").read_text())
        await until(lambda: leader not in session.members(leader), "the first process has ended")
        nursery.cancel_scope.cancel()
    assert session.members(leader) == []


async def test_a_stopped_process_is_ended(tmp_path: Path) -> None:
    """It sees SIGTERM first."""
    ended = await sh(tmp_path, "trap 'echo told; exit' TERM; kill -STOP $$", time_ms=200)
    assert (ended.how, ended.output.head) == ("timed out", b"told\n")


@pytest.mark.slow
async def test_each_process_sees_one_sigterm(tmp_path: Path) -> None:
    """A second one would hurry a program that is ending in order. One is in the group of the command, one is not."""
    patient = "trap 'echo told' TERM; while :; do sleep 0.02; done"
    script = f'sh -c "{patient}" & set -m; sh -c "{patient}" & set +m; {patient}'
    ended = await sh(tmp_path, script, time_ms=300)
    assert (ended.how, ended.output.head) == ("timed out", b"told\n" * 3)


async def test_what_is_left_in_the_background_does_not_hold_the_order(tmp_path: Path) -> None:
    """It goes on, as after the end of an ssh session."""
    began = trio.current_time()
    ended = await sh(tmp_path, "sleep 60 & echo $$ $!")
    assert (ended.code, trio.current_time() - began < 3) == (0, True)
    leader, left = map(int, ended.output.head.split())
    assert session.members(leader) == [left]
    os.kill(left, signal.SIGKILL)


async def test_the_output_before_a_timeout_is_told(tmp_path: Path) -> None:
    ended = await sh(tmp_path, "echo begun; sleep 60", time_ms=300)
    assert (ended.how, ended.output.head) == ("timed out", b"begun\n")


async def told(top: Path, task: Task, user: str = ME) -> Any:
    return outcome.decode(await act(encode(task), context(top, user, bytes(16))))


async def test_a_command_is_listed_and_ended(tmp_path: Path) -> None:
    found: list[Ended] = []

    async def run() -> None:
        found.append(await sh(tmp_path, f"echo begun; touch {tmp_path}/ready; sleep 60"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await until((tmp_path / "ready").exists, "it runs")
        (command,) = (await told(tmp_path, List())).commands
        assert (command.tag, command.principal, command.user) == (TAG, "ann", ME)
        assert command.words.startswith("sh -c 'echo begun; touch")
        assert (await told(tmp_path, Stop(bytes(16)))).how == "not running"
        if os.geteuid() == 0:
            assert (await told(tmp_path, Stop(TAG), NOBODY)).how == "not running"
            assert (await told(tmp_path, List(), NOBODY)).commands == ()
        assert (await told(tmp_path, Stop(TAG))).code == 0
    assert (found[0].how, found[0].code, found[0].output.head) == ("stopped", 143, b"begun\n")
    assert (await told(tmp_path, List())).commands == ()


async def test_a_command_is_listed_and_ended_before_its_start_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process runs while the agent waits for the thread that has started it."""
    found, open_process, goes_on = list[Ended](), trio.lowlevel.open_process, trio.Event()

    async def slow(*words: Any, **given: Any) -> trio.Process:
        process = await open_process(*words, **given)
        await goes_on.wait()
        return process

    async def run() -> None:
        found.append(await sh(tmp_path, f"touch {tmp_path}/ready; sleep 60"))

    monkeypatch.setattr(trio.lowlevel, "open_process", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await until((tmp_path / "ready").exists, "it runs")
        assert [each.tag for each in (await told(tmp_path, List())).commands] == [TAG]
        assert (await told(tmp_path, Stop(TAG))).code == 0
        goes_on.set()
    assert [each.how for each in found] == ["stopped"]
    assert (await told(tmp_path, List())).commands == ()


# -- other payloads -----------------------------------------------------------------------------------------


async def test_a_trial_runs_nothing(tmp_path: Path) -> None:
    ended = await ran(tmp_path, "touch", str(tmp_path / "x"), is_trial=True)
    assert (ended.how, ended.code) == ("would run", 0)
    assert files(tmp_path) == []
    assert (await ran(tmp_path, "no-such-command", is_trial=True)).how == "not found"
    assert (await ran(tmp_path, "true", is_trial=True, directory=b"/no/such")).how == "no directory"


async def test_a_payload_of_a_later_release_does_nothing(tmp_path: Path) -> None:
    fields = msgspec.msgpack.decode(encode(Run((b"touch", os.fsencode(tmp_path / "x")))))
    for payload in (msgspec.msgpack.encode([*fields, True]), b"", b"\xff"):
        found = outcome.decode(await act(payload, context(tmp_path)))
        assert isinstance(found, Ended)
        assert found.how == "other release"
    assert files(tmp_path) == []


async def test_the_audit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "subord")
    await ran(tmp_path, "printf", "\033[2J" + "y" * 300)
    first, last = (each.getMessage() for each in caplog.records)
    assert first.startswith(f"exec of ann as {ME} runs printf '?[2Jyyy")
    assert first.endswith(f"... (313 characters) (tag {TAG.hex()})")
    assert last.startswith(f"exec of ann as {ME} ended, exited (0): printf")
