"""The journal of the agent: what is known of a tag after any end of the process, and what a bad disk refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from signed_orders import NOW_MS, TAG

from subord.agent import journal
from subord.agent.journal import ENTRY_BYTES_MAX, KEEP_MS, Found, Journal, JournalError
from subord.core.carriage.engine.causes import BAD_MODE, CLOCK_BACK, NO_JOURNAL
from subord.core.carriage.engine.interface import Outcome

DIGEST, OTHER = b"d" * 32, b"o" * 32
END_MS = NOW_MS + 60_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "agent"
    made.mkdir(mode=0o700)
    return made


OPEN: list[Journal] = []


def opened(directory: Path) -> Journal:
    """As of a process that starts when the last one has ended."""
    while OPEN:
        OPEN.pop().close()
    OPEN.append(Journal(str(directory)))
    return OPEN[-1]


def begin(one: Journal, tag: bytes = TAG, *, end_ms: int = END_MS, now_ms: int = NOW_MS) -> None:
    one.begin(tag, DIGEST, end_ms, now_ms)


def refused(one: Journal, **given: int) -> str:
    with pytest.raises(JournalError) as found:
        begin(one, **given)
    return found.value.cause


@pytest.mark.parametrize("outcome", [Outcome(), Outcome(b"done"), Outcome(b"x" * 32768), Outcome(cause="failed")])
def test_an_outcome_is_known_after_a_restart(directory: Path, outcome: Outcome) -> None:
    one = opened(directory)
    assert one.find(TAG) is None
    begin(one)
    one.end(TAG, outcome)
    assert one.find(TAG) == Found(DIGEST, outcome)
    assert opened(directory).find(TAG) == Found(DIGEST, outcome)


def test_a_tag_that_was_begun_and_not_ended_has_no_outcome(directory: Path) -> None:
    begin(opened(directory))
    assert opened(directory).find(TAG) == Found(DIGEST, None)


@pytest.mark.parametrize("size", [0, 5, 13, 45, 47, 60])
def test_a_damaged_file_has_no_outcome(directory: Path, size: int) -> None:
    one = opened(directory)
    begin(one)
    one.end(TAG, Outcome(b"done"))
    (file,) = directory.iterdir()
    os.truncate(file, size)
    found = opened(directory).find(TAG)
    assert found is not None
    assert found.outcome is None


@pytest.mark.parametrize(
    "content",
    [b"", bytes(13), bytes(ENTRY_BYTES_MAX), journal.HEAD, journal.HEAD + bytes(32)],
    ids=["empty", "short", "zeros", "head", "no digest"],
)
def test_a_file_whose_head_was_not_written_is_of_an_unknown_order(directory: Path, content: bytes) -> None:
    """The name and the room were on the disk before the power failed."""
    (directory / f"{TAG.hex()}-{END_MS}").write_bytes(content)
    assert opened(directory).find(TAG) == Found(b"", None)


def test_a_file_that_is_gone_already_does_not_hinder_others(directory: Path) -> None:
    one = opened(directory)
    begin(one)
    (file,) = directory.iterdir()
    file.unlink()
    begin(one, b"later".ljust(16), end_ms=END_MS + KEEP_MS + 1, now_ms=END_MS + KEEP_MS)
    assert len(one) == 1


def test_a_flipped_bit_of_an_outcome_is_noticed(directory: Path) -> None:
    one = opened(directory)
    begin(one)
    one.end(TAG, Outcome(b"done"))
    (file,) = directory.iterdir()
    file.write_bytes(file.read_bytes().replace(b"done", b"gone"))
    assert opened(directory).find(TAG) == Found(DIGEST, None)


def test_a_tag_begins_once(directory: Path) -> None:
    begin(opened(directory))
    other = opened(directory)
    other._entries = {}  # as if its file had not been seen
    assert refused(other) == NO_JOURNAL


def test_tags_are_dropped_after_their_time_and_never_begun_again(directory: Path) -> None:
    """Also when the clock goes back, and after a restart."""
    one = opened(directory)
    begin(one)
    late_ms = END_MS + KEEP_MS
    begin(one, b"kept".ljust(16), end_ms=late_ms + 1, now_ms=late_ms - 1)
    assert len(one) == 2
    begin(one, b"later".ljust(16), end_ms=late_ms + 2, now_ms=late_ms)
    assert len(one) == 2
    assert one.find(TAG) is None
    for restarts in (False, True):
        one = opened(directory) if restarts else one
        assert refused(one, now_ms=NOW_MS) == CLOCK_BACK
        begin(one, bytes([restarts]) * 16, end_ms=END_MS + 1)


@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite", "fsync"])
def test_a_full_disk_refuses_the_order_and_leaves_nothing(
    directory: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    one = opened(directory)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        assert refused(one) == NO_JOURNAL
    assert list(directory.iterdir()) == []
    assert one.find(TAG) is None
    begin(one)


def test_a_disk_that_fails_after_the_file_refuses_the_order_too(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name may be lost in a power failure, so the order is not begun."""

    def broken(_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    one = opened(directory)
    with monkeypatch.context() as patched:
        patched.setattr(one, "_sync", lambda: broken(None))
        assert refused(one) == NO_JOURNAL
    assert list(directory.iterdir()) == []


def test_an_outcome_is_synchronised_on_demand(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, synced = opened(directory), list[str]()
    begin(one)
    with monkeypatch.context() as patched:
        patched.setattr(
            os, "fsync", lambda each: synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{each}")))
        )
        one.end(TAG, Outcome(b"done"))
        assert synced == []
        one.sync(TAG)
        one.sync(bytes([9] * 16))
    (file,) = directory.iterdir()
    assert synced == [file.name]


def test_the_room_for_the_outcome_is_taken_before(directory: Path) -> None:
    one = opened(directory)
    begin(one)
    (file,) = directory.iterdir()
    assert file.stat().st_size >= ENTRY_BYTES_MAX
    one.end(TAG, Outcome(b"done"))
    assert file.stat().st_size < 100


def test_it_is_bounded(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "ENTRIES_MAX", 2)
    one = opened(directory)
    begin(one)
    begin(one, b"2".ljust(16))
    with pytest.raises(JournalError, match="full"):
        begin(one, b"3".ljust(16))
    monkeypatch.setattr(journal, "ENTRIES_MAX", 9)
    monkeypatch.setattr(journal, "BYTES_MAX", ENTRY_BYTES_MAX)
    with pytest.raises(JournalError, match="full"):
        begin(one, b"3".ljust(16))


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_directory_that_others_can_write_to_does_not_count(directory: Path, mode: int) -> None:
    directory.chmod(mode)
    with pytest.raises(JournalError) as found:
        opened(directory).find(TAG)
    assert found.value.cause == BAD_MODE
    assert "chmod 700" in str(found.value)


def test_a_directory_that_opens_up_later_does_not_count(directory: Path) -> None:
    one = opened(directory)
    assert one.find(TAG) is None
    directory.chmod(0o777)
    assert refused(one) == BAD_MODE


def test_without_a_directory_there_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalError) as found:
        opened(tmp_path / "none").find(TAG)
    assert found.value.cause == NO_JOURNAL


def test_two_agents_do_not_share_a_journal(directory: Path) -> None:
    one = opened(directory)
    assert one.find(TAG) is None
    pid = os.fork()
    if pid == 0:
        try:
            Journal(str(directory)).find(TAG)
        except JournalError as error:
            os._exit(3 if error.cause == NO_JOURNAL else 4)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def test_other_files_are_left_alone(directory: Path) -> None:
    (directory / "revoked").write_bytes(b"x")
    one = opened(directory)
    begin(one)
    assert len(one) == 1


def test_a_directory_of_another_user_is_to_be_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """chmod alone would not help."""
    tmp_path.chmod(0o700)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(JournalError, match=f"mode 0700; chown {other}, and chmod 700"):
        Journal(str(tmp_path)).check()
