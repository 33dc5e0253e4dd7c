"""The journal on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from subord.core.members.journal import Event
from subord.runtime.state import journal_file as module
from subord.runtime.state.journal_file import FILE_NAME, JournalFile

MS = 1_800_000_000_000


def items(first: int, count: int = 1) -> list[bytes]:
    return [Event(MS + n, 1, n, "missing", 5).item for n in range(first, first + count)]


def opened(directory: Path, network: str = "10.0.0.0/24") -> JournalFile:
    return JournalFile(str(directory), network, 254)


async def test_events_are_read_again_and_appended(tmp_path: Path) -> None:
    path, held = tmp_path / FILE_NAME, opened(tmp_path)
    sizes = []
    for n in range(1, 4):
        held.journal.merge(items(n))
        await held.save()
        sizes.append(path.stat().st_size)
        assert opened(tmp_path).journal.items() == items(1, n)
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] == len(items(1)[0]) + 2
    assert path.stat().st_mode & 0o777 == 0o600
    inode = path.stat().st_ino
    again = opened(tmp_path)
    again.journal.merge(items(9))
    await again.save()
    assert path.stat().st_ino == inode  # appended
    assert len(opened(tmp_path).journal) == 4


async def test_a_record_that_was_broken_off_is_left_out_and_written_over(tmp_path: Path) -> None:
    path, held = tmp_path / FILE_NAME, opened(tmp_path)
    held.journal.merge(items(1, 3))
    await held.save()
    path.write_bytes(path.read_bytes()[:-5])
    again = opened(tmp_path)
    assert again.journal.items() == items(1, 2)
    again.journal.merge(items(7))
    await again.save()
    assert opened(tmp_path).journal.items() == [*items(1, 2), *items(7)]


async def test_a_file_of_another_network_is_replaced(tmp_path: Path) -> None:
    held = opened(tmp_path)
    held.journal.merge(items(1))
    await held.save()
    other = opened(tmp_path, "10.9.0.0/24")
    assert len(other.journal) == 0
    other.journal.merge(items(2))
    await other.save()
    assert len(opened(tmp_path).journal) == 0
    assert opened(tmp_path, "10.9.0.0/24").journal.items() == items(2)


async def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subord.core.members.journal.EVENTS_MAX", 10)
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 1000)
    held = opened(tmp_path)
    for n in range(100):
        held.journal.merge(items(n))
        await held.save()
        assert (tmp_path / FILE_NAME).stat().st_size <= 1000
    assert opened(tmp_path).journal.items() == items(90, 10)


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\xff" * 5000])
async def test_garbage_is_ignored(tmp_path: Path, content: bytes) -> None:
    held = opened(tmp_path)
    held.journal.merge(items(1))
    await held.save()
    path = tmp_path / FILE_NAME
    head = path.read_bytes()[:24]
    for each in (content, head + content, head + b"\x00\x32" + bytes(50)):
        path.write_bytes(each)
        assert len(opened(tmp_path).journal) == 0


async def test_a_disk_that_refuses_is_tried_again(tmp_path: Path) -> None:
    held = opened(tmp_path / "later")
    held.journal.merge(items(1))
    await held.save()
    (tmp_path / "later").mkdir()
    held.journal.merge(items(2))
    await held.save()
    assert len(opened(tmp_path / "later").journal) == 2


async def test_without_a_directory_nothing_is_saved() -> None:
    held = JournalFile("", "10.0.0.0/24", 254)
    held.journal.merge(items(1))
    await held.save()
