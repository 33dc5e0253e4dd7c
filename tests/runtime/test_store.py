"""The saved neighbourhood: loaded, ignored when it does not fit, and failures that are logged once."""

from __future__ import annotations

import json
import stat
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from disks import PAGE, Disk, apart

from subord.core.events import Neighbourhood
from subord.core.messages import Terms
from subord.runtime.state.store import FILE_NAME, Store

TERMS = Terms("10.0.0.0/24", 8, 8, "ip", "complete", "lan")
SAVED = Neighbourhood(1_700_000_000_000, 1, (1, 2, 3), standing=130)


def store(directory: Path | str) -> Store:
    return Store(str(directory), TERMS, 7)


def test_what_was_saved_is_loaded(tmp_path: Path, warnings: list[str]) -> None:
    store(tmp_path).save(SAVED)
    assert store(tmp_path).load() == SAVED
    assert [each.name for each in tmp_path.iterdir()] == [FILE_NAME]
    assert warnings == []


@pytest.mark.parametrize("left_behind", [FILE_NAME, "neighbourhood.new"])
def test_only_the_owner_may_read_it(tmp_path: Path, left_behind: str) -> None:
    """The next save also narrows the mode of an existing file."""
    wide = tmp_path / left_behind
    wide.touch()
    wide.chmod(0o644)
    store(tmp_path).save(SAVED)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert store(tmp_path).load() == SAVED


@apart
def test_a_disk_that_takes_nothing_keeps_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "state", 16 * PAGE)
    one, next_of = store(disk.path), msgspec.structs.replace
    one.save(SAVED)
    for fault, mend, number in ((disk.fill, disk.free, 1), (disk.close, disk.open, 2)):
        fault()
        one.save(next_of(SAVED, incarnation=number))
        mend()
        assert [each.name for each in disk.path.iterdir()] == [FILE_NAME]
        assert store(disk.path).load() != next_of(SAVED, incarnation=number)
        one.save(next_of(SAVED, incarnation=number))
        assert store(disk.path).load() == next_of(SAVED, incarnation=number)


def test_a_first_start_logs_nothing(tmp_path: Path, warnings: list[str]) -> None:
    assert store(tmp_path).load() is None
    assert warnings == []


def test_without_a_directory_nothing_is_saved_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store("").save(SAVED)
    assert store("").load() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("terms", "position"),
    [
        (TERMS, 8),
        (Terms("10.0.1.0/24", 8, 8, "ip", "complete", "lan"), 7),
        (Terms("10.0.0.0/24", 4, 8, "ip", "complete", "lan"), 7),
    ],
)
def test_a_file_of_other_settings_is_ignored(
    tmp_path: Path, warnings: list[str], terms: Terms, position: int
) -> None:
    store(tmp_path).save(SAVED)
    assert Store(str(tmp_path), terms, position).load() is None
    assert warnings == []


def corrupt(**changes: Any) -> bytes:
    """A valid file except for `changes`."""
    inside = {"incarnation": 5, "leader": 1, "peers": [1], **changes}
    return json.dumps(
        {"format": 1, "terms": msgspec.to_builtins(TERMS), "position": 7, "neighbourhood": inside}
    ).encode()


def test_the_helper_of_the_next_test_makes_a_valid_file(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(corrupt())
    assert store(tmp_path).load() == Neighbourhood(5, 1, (1,))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"[" * 10_000,
        b"x" * 100_000,
        corrupt()[:-5],
        corrupt(leader="10.0.0.1"),
        corrupt(incarnation=-1),
        corrupt(incarnation=1 << 64),
        corrupt(incarnation=10**30),
        corrupt(standing=-1),
        corrupt(standing=256),
    ],
)
def test_a_corrupt_file_is_ignored_with_a_warning(tmp_path: Path, warnings: list[str], data: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(data)
    assert store(tmp_path).load() is None
    assert len(warnings) == 1
    assert f"{tmp_path / FILE_NAME} is not usable and is ignored: " in warnings[0]
    store(tmp_path).save(SAVED)
    assert store(tmp_path).load() == SAVED


def test_a_missing_state_directory_is_logged_with_the_remedy(tmp_path: Path, warnings: list[str]) -> None:
    late = tmp_path / "none"
    kept = store(late)
    assert kept.load() is None
    kept.save(SAVED)
    (warning,) = warnings
    assert warning == (
        f"cannot save the neighbourhood: the directory {late} does not exist; "
        "create it or correct node.state_directory; continuing without"
    )
    late.mkdir()
    kept.save(SAVED)
    assert store(late).load() == SAVED


@pytest.mark.parametrize("number", [1, 5])
def test_a_full_disk_is_logged_once_and_the_old_file_stays(tmp_path: Path, warnings: list[str], number: int) -> None:
    kept = store(tmp_path)
    kept.save(SAVED)
    fresh = (tmp_path / FILE_NAME).with_suffix(".new")
    for each in range(number):
        fresh.symlink_to("/dev/full")
        kept.save(Neighbourhood(each, 2, ()))
        assert not fresh.is_symlink()
    assert len(warnings) == 1
    assert warnings[0].endswith("No space left on device; continuing without")
    assert store(tmp_path).load() == SAVED
    kept.save(Neighbourhood(number - 1, 2, ()))
    assert store(tmp_path).load() == Neighbourhood(number - 1, 2, ())


def test_a_read_only_directory_is_logged_once(warnings: list[str]) -> None:
    kept = store("/sys")  # not writable, even for root
    assert kept.load() is None
    for each in range(3):
        kept.save(Neighbourhood(each, 1, ()))
    assert len(warnings) == 1
    assert "continuing without" in warnings[0]


def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.save(SAVED)
    (tmp_path / FILE_NAME).unlink()
    kept.save(SAVED)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_never_sees_a_partial_file(tmp_path: Path, warnings: list[str]) -> None:
    peers = tuple(range(1, 2000))
    store(tmp_path).save(Neighbourhood(0, 1, peers))
    enough = threading.Event()

    def save_again_and_again() -> None:
        kept = store(tmp_path)
        for each in count():
            if enough.is_set():
                return
            kept.save(Neighbourhood(each, 1, peers))

    writer = threading.Thread(target=save_again_and_again)
    writer.start()
    seen, deadline = set(), time.monotonic() + 60
    try:
        while len(seen) < 50 and writer.is_alive() and time.monotonic() < deadline:
            loaded = store(tmp_path).load()
            assert loaded is not None
            assert loaded.peers == peers
            seen.add(loaded.incarnation)
    finally:
        enough.set()
        writer.join()
    assert len(seen) == 50
    assert warnings == []
