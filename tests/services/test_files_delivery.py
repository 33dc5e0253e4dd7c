"""A push on one node, with real files: what is written, what is refused, what is left by a process that is killed."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from loops import over

from subord.client.errors import CommandError
from subord.services.files import commands, delivery, records, staging
from subord.services.files.delivery import Delivery, recover
from subord.services.files.listing import contents, listed
from subord.services.files.manifest import STAGED, Entry, Manifest, digest_of, opening
from subord.services.files.outcome import Pushed
from subord.services.files.records import Records
from subord.services.files.staging import Owner
from subord.services.files.stream import Stream

TAG = bytes(range(16))
ENVIRONMENT = {b"PATH": os.environb[b"PATH"]}
OWN = Owner(os.geteuid(), os.getegid())
CHUNK = 1000


class Node:
    """Files to push, the target, and the directory of the agent."""

    def __init__(self, top: Path) -> None:
        self.source, self.target, self.agent = (top / each for each in ("source", "target", "agent"))
        for each in (self.source, self.target, self.agent):
            each.mkdir()
        self.check = self.after = ""

    def bundle(self, *names: str | bytes, to: Path | None = None) -> bytes:
        paths = [os.path.join(os.fsencode(self.source), os.fsencode(each)) for each in names]
        found = listed(paths or [os.fsencode(each) for each in sorted(self.source.iterdir())], keeps_owners=False)
        manifest = Manifest(
            os.fsencode(to or self.target), tuple(each.entry for each in found), self.check, self.after
        )
        return opening(manifest) + b"".join(contents(found))

    def run(self, bundle: bytes, pause: Callable[[], None] = lambda: None, **options: Any) -> Pushed:
        chunks = (bundle[at : at + CHUNK] for at in range(0, len(bundle), CHUNK))
        return Delivery(Records(str(self.agent)), TAG, OWN, ENVIRONMENT, pause).run(Stream(chunks), **options)

    def push(self, *names: str | bytes, **options: Any) -> Pushed:
        return self.run(self.bundle(*names), **options)

    @property
    def left(self) -> list[Path]:
        """What a push must not leave."""
        return [*self.target.rglob(os.fsdecode(STAGED) + "*"), *(self.agent / "files").glob("*")]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    assert made.left == []


def how(pushed: Pushed) -> tuple[str, int, int, int, int]:
    return pushed.how, pushed.made, pushed.replaced, pushed.adjusted, pushed.unchanged


def picture(top: Path) -> dict[str, Any]:
    """All that is below a directory: kind, mode, content."""
    found = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(top))] = (stat.filemode(status.st_mode), content)
    return found


def filled(top: Path, text: str = "new") -> None:
    (top / "d" / "e").mkdir(parents=True)
    (top / "d" / "e" / "deep").write_text(text * 1000)
    (top / "d" / "empty").touch()
    (top / "d" / "link").symlink_to("../../nowhere")
    (top / "with space").write_text(text)
    Path(os.fsdecode(os.fsencode(top) + b"/\xff")).write_text(text)
    (top / "run").write_text("#!/bin/sh\n" + text)
    (top / "run").chmod(0o750)


def test_everything_arrives_as_it_is(node: Node) -> None:
    filled(node.source)
    assert how(node.push()) == ("changed", 8, 0, 0, 0)
    assert picture(node.target) == picture(node.source)
    assert how(node.push()) == ("unchanged", 0, 0, 0, 8)


def test_what_differs_is_replaced_and_the_rest_stays(node: Node) -> None:
    filled(node.source)
    node.push()
    untouched = (node.target / "run").stat()
    (node.target / "d" / "e" / "deep").write_text("drift")
    (node.target / "d" / "link").unlink()
    (node.target / "d" / "other").write_text("of the node")
    (node.target / "d" / "e").chmod(0o700)
    assert how(node.push()) == ("changed", 1, 1, 1, 5)
    (node.target / "d" / "other").unlink()
    assert picture(node.target) == picture(node.source)
    after = (node.target / "run").stat()
    assert (after.st_ino, after.st_mtime_ns) == (untouched.st_ino, untouched.st_mtime_ns)


def test_a_reader_keeps_the_old_file(node: Node) -> None:
    (node.source / "a").write_text("new")
    (node.target / "a").write_text("old")
    with (node.target / "a").open() as file:
        node.push()
        assert file.read() == "old"
    assert (node.target / "a").read_text() == "new"


def test_holes_stay_holes(node: Node) -> None:
    with (node.source / "sparse").open("wb") as file:
        file.truncate(16 << 20)
        file.seek(8 << 20)
        file.write(b"middle")
    assert len(node.bundle()) < 200_000
    node.push()
    status = (node.target / "sparse").stat()
    assert status.st_size == 16 << 20
    assert status.st_blocks * 512 < 1 << 20
    with (node.target / "sparse").open("rb") as file:
        file.seek(8 << 20)
        assert file.read(7) == b"middle\0"
    assert how(node.push()) == ("unchanged", 0, 0, 0, 1)


def test_a_trial_changes_nothing(node: Node) -> None:
    filled(node.source)
    assert how(node.push(is_trial=True)) == ("would change", 8, 0, 0, 0)
    assert picture(node.target) == {}


# -- refused ------------------------------------------------------------------------------------------------


def _folder_in_the_way(node: Node) -> None:
    (node.target / "run").mkdir()


def _file_in_the_way(node: Node) -> None:
    (node.target / "d").write_text("file")


def _pipe_in_the_way(node: Node) -> None:
    os.mkfifo(node.target / "run")


def _link_in_the_way(node: Node) -> None:
    (node.target / "elsewhere").mkdir()
    (node.target / "d").symlink_to("elsewhere")


@over(
    ("spoil", "word"),
    [
        (_folder_in_the_way, "is a directory"),
        (_file_in_the_way, "not a directory"),
        (_pipe_in_the_way, "special file"),
        (_link_in_the_way, "symlink in the path"),
    ],
)
def test_another_kind_in_the_way_changes_nothing(
    spoil: Callable[[Node], None], word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    filled(node.source)
    spoil(node)
    before = sorted(os.listdir(node.target))
    assert node.push().how == word
    assert sorted(os.listdir(node.target)) == before
    assert node.left == []


def test_a_symlink_in_the_path_of_the_target_is_never_followed(node: Node, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(outside)
    (node.source / "a").write_text("new")
    for to in (tmp_path / "link", tmp_path / "link" / "in"):
        found = node.run(node.bundle(to=to))
        assert found.how == "symlink in the path"
        assert found.detail == str(to)
    assert list(outside.rglob("a")) == []


CALLS = ("open", "rename", "replace", "unlink", "mkdir", "symlink", "fsync", "fchmod", "pwrite", "ftruncate")


def counted(
    call: Callable[..., Any], count: Iterator[int], number: int, act: Callable[[], object]
) -> Callable[..., Any]:
    """`act` comes before the n-th of all calls."""

    def run(*words: Any, **options: Any) -> Any:
        if next(count) == number:
            act()
        return call(*words, **options)

    return run


def test_a_directory_that_becomes_a_symlink_on_the_way_leads_nowhere(tmp_path: Path) -> None:
    """The user of the directory swaps it before each call of the system in turn."""
    outside, number, words = tmp_path / "outside", 0, set()
    outside.mkdir()
    while True:
        number += 1
        top = tmp_path / str(number)
        top.mkdir()
        node = Node(top)
        filled(node.source)
        filled(node.target, "old")
        bundle, is_done = node.bundle(), list[bool]()
        rename, symlink = os.rename, os.symlink

        def swap(
            node: Node = node, is_done: list[bool] = is_done, rename: Any = rename, symlink: Any = symlink
        ) -> None:
            is_done.append(True)
            rename(node.target / "d", node.target.parent / "moved")
            symlink(outside, node.target / "d")

        with pytest.MonkeyPatch.context() as patched:
            count = itertools.count(1)
            for each in CALLS:
                patched.setattr(os, each, counted(getattr(os, each), count, number, swap))
            words.add(node.run(bundle).how)
        assert list(outside.iterdir()) == []
        if not is_done:
            break
    assert number > 60
    assert words == {"changed", "symlink in the path", "part done"}


def test_a_link_of_the_target_is_replaced_and_not_followed(node: Node, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("victim")
    (node.source / "a").write_text("new")
    (node.target / "a").symlink_to(victim)
    assert how(node.push()) == ("changed", 0, 1, 0, 0)
    assert not (node.target / "a").is_symlink()
    assert victim.read_text() == "victim"


def test_content_that_is_not_that_of_the_list(node: Node) -> None:
    filled(node.source)
    bundle = bytearray(node.bundle())
    bundle[-1] ^= 1
    found = node.run(bytes(bundle))
    assert (found.how, picture(node.target)) == ("hash mismatch", {})
    assert node.run(bytes(bundle[:-1])).how == "malformed"
    assert picture(node.target) == {}


@over(
    ("number", "word"),
    [(28, "disk full"), (122, "disk full"), (30, "read-only"), (1, "not permitted"), (5, "failed")],
)
def test_a_disk_that_takes_no_more(
    number: int, word: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    filled(node.source)
    write = os.pwrite

    def full(descriptor: int, data: bytes, at: int) -> int:
        if at:
            raise OSError(number, os.strerror(number))
        return write(descriptor, data[:10], at)

    bundle = node.bundle()
    with monkeypatch.context() as patched:
        patched.setattr(staging.os, "pwrite", full)
        assert node.run(bundle).how == word
    assert picture(node.target) == {}
    assert node.left == []


def test_no_directory(node: Node) -> None:
    (node.source / "a").write_text("new")
    assert node.run(node.bundle(to=node.target / "none")).how == "no directory"
    assert node.run(node.bundle(to=node.source / "a")).how == "not a directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_owners_and_modes(node: Node) -> None:
    (node.source / "a").write_text("new")
    os.chown(node.source / "a", 1, 2)
    (node.source / "a").chmod(0o4711)
    found = listed([os.fsencode(node.source / "a")], keeps_owners=True)
    manifest = Manifest(os.fsencode(node.target), tuple(each.entry for each in found))
    assert node.run(opening(manifest) + b"new").how == "changed"
    status = (node.target / "a").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1, 2, 0o4711)
    unknown = Entry(b"b", "file", 0o644, owner="no-such-user", digest=digest_of([]))
    assert node.run(opening(Manifest(os.fsencode(node.target), (unknown,)))).how == "no such user"


# -- commands -----------------------------------------------------------------------------------------------


def test_a_check_sees_the_new_file_before_it_counts(node: Node) -> None:
    (node.target / "a").write_text("old")
    (node.source / "a").write_text("bad")
    node.check = 'test "$SUBORD_TARGET" = "%s" && ! grep bad "$SUBORD_STAGED"' % (node.target / "a")
    found = node.push()
    assert (found.how, found.detail) == ("check failed", "exit code 1: bad")
    assert (node.target / "a").read_text() == "old"
    (node.source / "a").write_text("good")
    assert node.push().how == "changed"


def test_the_command_after_it_runs_once_and_only_for_a_change(node: Node, tmp_path: Path) -> None:
    (node.source / "a").write_text("new")
    node.after = f"cat {node.target}/a >> {tmp_path}/ran; echo said; false"
    found = node.push()
    assert (found.how, found.detail) == ("after failed", "exit code 1: said")
    assert node.push().how == "unchanged"
    assert (tmp_path / "ran").read_text() == "new"


def test_a_command_after_it_that_cannot_start_does_not_hide_what_is_in_place(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    (node.source / "a").write_text("new")
    node.after = "true"
    monkeypatch.setattr(commands, "failure", fail)
    found = node.push()
    assert (found.how, found.made) == ("after failed", 1)
    assert found.detail == "it has not run: [Errno 11] Resource temporarily unavailable"
    assert (node.target / "a").read_text() == "new"


def test_only_the_end_of_what_a_command_prints_is_held(node: Node) -> None:
    (node.source / "a").write_text("new")
    node.check = "yes | head -c 1000000; printf '%0250d' 7 >&2; exit 3"
    found = node.push()
    assert (found.how, found.detail) == ("check failed", f"exit code 3: {'7'.rjust(commands.SHOWN_BYTES, '0')}")


@over(
    "line",
    [
        "sleep 60 & echo $! > {pid}",
        "sleep 60 > /dev/null 2>&1 & echo $! > {pid}",
        "yes & echo $! > {pid}",
        "exec > /dev/null 2>&1; sleep 60 & echo $! > {pid}; sleep 0.3",
    ],
)
def test_a_process_that_is_left_in_the_background_holds_up_nothing(
    line: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pid = tmp_path_factory.mktemp("ran") / "pid"
    began, pauses = time.monotonic(), list[float]()
    assert commands.failure(line.format(pid=pid), ENVIRONMENT, lambda: pauses.append(0.0)) == ""
    assert time.monotonic() - began < 10
    assert len(pauses) < 1_000, "it waits, and does not ask all the time"
    with suppress(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_command_that_prints_without_an_end_ends_with_its_time() -> None:
    began = time.monotonic()

    def pause() -> None:
        if time.monotonic() > began + 0.3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        commands.failure("yes", ENVIRONMENT, pause)


def test_a_command_ends_with_its_time(node: Node) -> None:
    class OverError(Exception):
        pass

    (node.source / "a").write_text("new")
    node.check = "sleep 60"
    began = False

    def pause() -> None:
        if began:
            raise OverError

    run = commands.subprocess.Popen

    def popen(*words: Any, **options: Any) -> Any:
        nonlocal began
        began = True
        return run(*words, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commands.subprocess, "Popen", popen)
        with pytest.raises(OverError):
            node.push(pause=pause)
    assert picture(node.target) == {}


# -- ends on the way ----------------------------------------------------------------------------------------


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed before its n-th call of the system; False: it has ended before."""
    pid = os.fork()
    if pid == 0:
        count = itertools.count(1)
        for each in CALLS:
            setattr(os, each, counted(getattr(os, each), count, number, lambda: os.kill(os.getpid(), signal.SIGKILL)))
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process")  # of fork beside threads
def test_a_process_that_is_killed_leaves_the_old_or_the_new(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    number, seen = 0, set()
    while True:
        number += 1
        node = Node(tmp_path_factory.mktemp("node"))
        filled(node.source)
        (node.target / "with space").write_text("old")
        ran = node.target.parent / "ran"
        node.after = f"echo >> {ran}"
        bundle, old = node.bundle(), picture(node.target)
        is_killed = killed_at(number, lambda node=node, bundle=bundle: node.run(bundle))
        recover(str(node.agent))
        found = picture(node.target)
        assert node.left == []
        assert found in (old, picture(node.source)), number
        times = len(ran.read_text()) if ran.exists() else 0
        assert times <= 1
        assert not times or found != old
        seen.add((found == old, times))
        if not is_killed:
            break
    assert number > 60
    assert seen == {(True, 0), (False, 0), (False, 1)}


def test_a_record_that_cannot_be_used_is_no_obstacle(node: Node) -> None:
    (node.agent / "files").mkdir()
    broken = node.agent / "files" / TAG.hex()
    broken.write_bytes(b"\xff")
    recover(str(node.agent))
    broken.unlink()
    recover(str(node.agent))


# -- what cannot be undone or finished now ------------------------------------------------------------------------


forks = pytest.mark.filterwarnings("ignore:This process")  # of fork beside threads


def interrupted(node: Node, state: str, *, renamed: int = 0) -> Path:
    """A push whose process has ended in this state, after so many renames; where its command after it writes."""
    filled(node.source)
    ran = node.target.parent / "ran"
    node.after = f"echo >> {ran}"
    stop = {records.STAGING: (staging, "stage"), records.ACTIVATING: (os, "rename")}[state]
    real, calls = getattr(*stop), itertools.count(1)

    def end(*words: Any, **options: Any) -> None:
        if state == records.STAGING or renamed:
            real(*words, **options)
        if next(calls) >= renamed:
            os._exit(0)

    bundle = node.bundle()
    child = os.fork()
    if not child:
        setattr(*stop, end)
        node.run(bundle)
    os.waitpid(child, 0)
    (record,) = [each for _, each in Records(str(node.agent)).left()]
    assert record.state == state
    return ran


def is_left(node: Node) -> bool:
    return os.listdir(node.agent / "files") == [TAG.hex()]


def unmounted(folder: Path) -> Path:
    """Where it is now; an empty directory is in its place."""
    away = folder.with_name("away")
    folder.rename(away)
    folder.mkdir()
    return away


def mounted(node: Node, away: Path) -> None:
    node.target.rmdir()
    away.rename(node.target)


@forks
@pytest.mark.parametrize("renamed", [0, 1, 4])
def test_a_push_waits_for_a_file_system_that_is_not_mounted(
    node: Node, renamed: int, caplog: pytest.LogCaptureFixture
) -> None:
    ran = interrupted(node, records.ACTIVATING, renamed=renamed)
    away = unmounted(node.target)
    recover(str(node.agent))
    assert (picture(node.target), ran.exists(), is_left(node)) == ({}, False, True)
    assert "may not be mounted; it is left for a later start of the agent" in caplog.text
    mounted(node, away)
    recover(str(node.agent))
    assert picture(node.target) == picture(node.source)
    assert ran.read_text() == "\n"


@forks
def test_what_is_staged_waits_for_its_file_system(node: Node) -> None:
    interrupted(node, records.STAGING)
    away = unmounted(node.target)
    recover(str(node.agent))
    assert is_left(node)
    node.target.rmdir()  # the file system above is not mounted, either
    recover(str(node.agent))
    assert is_left(node)
    away.rename(node.target)
    recover(str(node.agent))
    assert picture(node.target) == {}


def recovered_without(name: bytes, code: int, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent starts while a directory cannot be opened."""
    real = os.open

    def fail(path: Any, *words: Any, **options: Any) -> int:
        if path == name:
            raise OSError(code, os.strerror(code))
        return real(path, *words, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fail)
        recover(str(node.agent))


@forks
@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ESTALE])
@pytest.mark.parametrize("state", [records.STAGING, records.ACTIVATING])
def test_a_target_that_cannot_be_opened_now_is_tried_again(
    node: Node, state: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(node, state)
    recovered_without(os.fsencode(node.target.name), code, node, monkeypatch)
    assert is_left(node)
    recover(str(node.agent))
    assert picture(node.target) == ({} if state == records.STAGING else picture(node.source))


@forks
def test_a_directory_below_the_target_that_cannot_be_opened_keeps_the_record(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node.target / "d").mkdir(mode=0o755)
    interrupted(node, records.STAGING)
    recovered_without(b"d", errno.EIO, node, monkeypatch)
    assert is_left(node)
    recover(str(node.agent))
    assert sorted(picture(node.target)) == ["d"]


@forks
def test_a_device_with_another_number_is_known_by_what_is_staged(node: Node) -> None:
    interrupted(node, records.ACTIVATING, renamed=1)
    ((tag, record),) = Records(str(node.agent)).left()
    Records(str(node.agent)).write(tag, msgspec.structs.replace(record, place=(1, 1)))
    recover(str(node.agent))
    assert picture(node.target) == picture(node.source)


@forks
def test_a_record_of_an_earlier_release_counts(node: Node) -> None:
    interrupted(node, records.ACTIVATING, renamed=1)
    path = node.agent / "files" / TAG.hex()
    path.write_bytes(msgspec.msgpack.encode(msgspec.msgpack.decode(path.read_bytes())[:6]))
    recover(str(node.agent))
    assert picture(node.target) == picture(node.source)


@forks
def test_a_step_that_has_neither_name_is_not_done(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    ran = interrupted(node, records.ACTIVATING, renamed=2)
    (node.target / "run").unlink()
    recover(str(node.agent))
    assert not ran.exists()
    assert "run is neither staged nor in place" in caplog.text


@forks
def test_a_push_that_can_never_be_finished_is_given_up(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    interrupted(node, records.ACTIVATING)
    unmounted(node.target)
    path = node.agent / "files" / TAG.hex()
    for age_s in (0.0, delivery.LEFT_S_MAX - 60):
        os.utime(path, (0, time.time() - age_s))
        recover(str(node.agent))
        assert is_left(node)
    os.utime(path, (0, time.time() - delivery.LEFT_S_MAX - 60))
    recover(str(node.agent))
    assert f"it is given up: delete what is left in {node.target} under names" in caplog.text


def test_what_is_left_is_bounded_in_number(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "LEFT_MAX", 2)
    kept = Records(str(node.agent))
    for number in range(4):
        kept.write(bytes([number]) * 16, records.Record("staging", bytes(node.target), (), (), "", (), (1, 1)))
        os.utime(node.agent / "files" / (bytes([number]) * 16).hex(), (0, time.time() - 100 * (number % 3)))
    recover(str(node.agent))
    assert sorted(os.listdir(node.agent / "files")) == ["00" * 16, "03" * 16]
    for name in os.listdir(node.agent / "files"):
        (node.agent / "files" / name).unlink()


def test_a_push_keeps_what_is_left_within_its_bound(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is done goes first, then the oldest, and never the push that is under way, also if its clock is behind."""
    monkeypatch.setattr(delivery, "LEFT_MAX", 3)
    (node.source / "a").write_text("a")
    (node.target / "away").mkdir()
    kept, folder, seen = Records(str(node.agent)), node.agent / "files", list[str]()
    for number, state in enumerate(["staging", "activating", "staging", "after", "staging"]):
        tag = bytes([number + 100]) * 16
        kept.write(tag, records.Record(state, bytes(node.target / "away"), ((b"", b"s", b"a"),), (), "", ()))
        os.utime(folder / tag.hex(), (0, time.time() - 1000 + 100 * number))
    (folder / "sets").mkdir()

    def check(*_: Any) -> str:
        seen.extend(sorted(os.listdir(folder)))
        return ""

    node.check = "true"
    monkeypatch.setattr(commands, "failure", check)
    monkeypatch.setattr(records, "_write_part", old(records._write_part))
    assert node.push().how == "changed"
    assert seen == [TAG.hex(), "66" * 16, "68" * 16, "sets"]
    assert f"{'67' * 16} is one of more than 3 that are left; it was done" in caplog.text
    assert f"it is given up: delete what is left in {node.target}/away under names" in caplog.text
    for each in folder.glob("6*"):
        each.unlink()
    (folder / "sets").rmdir()


def old(write: Callable[[str, bytes], None]) -> Callable[[str, bytes], None]:
    """Each file is as if it had been written long ago."""

    def written(path: str, data: bytes) -> None:
        write(path, data)
        os.utime(path, (0, 1))

    return written


# -- reading ------------------------------------------------------------------------------------------------


def test_a_file_that_changes_while_it_is_read_is_not_sent(node: Node) -> None:
    (node.source / "a").write_text("one")
    found = listed([os.fsencode(node.source / "a")], keeps_owners=False)
    (node.source / "a").write_text("two")
    with pytest.raises(CommandError, match="changed while it was read"):
        list(contents(found))


def test_what_cannot_be_sent(node: Node) -> None:
    os.mkfifo(node.source / "pipe")
    for name, words in (("pipe", "device, pipe or socket"), ("none", "No such file")):
        with pytest.raises(CommandError, match=words):
            listed([os.fsencode(node.source / name)], keeps_owners=False)


def test_the_last_name_of_a_path_counts(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(node.source)
    monkeypatch.chdir(node.source / "d" / "e")
    assert [each.entry.path for each in listed([b".", b"../empty", b"../e/deep"], keeps_owners=False)] == [
        b"e",
        b"e/deep",
        b"empty",
        b"deep",
    ]
