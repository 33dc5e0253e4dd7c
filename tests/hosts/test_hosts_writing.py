"""Writes hosts files as they are found: with modes, links, mount points, full and read-only disks."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disks import KIB, Disk, apart, bind
from file_state import state_of

from subord.services.hosts import writing
from subord.services.hosts.table import Table, table_of
from subord.services.hosts.writing import FILE_BYTES_MAX, WritingError, write
from tests.hosts.test_hosts_block import BLOCK, DEBIAN, TABLE

LARGE = table_of((f"node{number:04}", f"10.0.{number // 256}.{number % 256}") for number in range(1, 2_001))
FRESH = DEBIAN + BLOCK


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text(DEBIAN)
    path.chmod(0o644)
    return path


def unchanged(path: Path, table: Table = TABLE) -> str:
    """The fault, after which the file is as it was, and nothing is beside it."""
    before, beside = path.read_bytes(), sorted(os.listdir(path.parent))
    with pytest.raises(WritingError) as caught:
        write(str(path), table, 7)
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == beside
    return str(caught.value)


def test_a_file_is_replaced_whole(hosts: Path) -> None:
    before = hosts.stat()
    with hosts.open() as reader:
        assert write(str(hosts), TABLE, 7) == ()
        assert reader.read() == DEBIAN
    assert hosts.read_text() == FRESH
    assert hosts.stat().st_ino != before.st_ino
    assert os.listdir(hosts.parent) == ["hosts"]


def test_what_is_there_is_not_written_again(hosts: Path) -> None:
    write(str(hosts), TABLE, 7)
    before = state_of(hosts)
    write(str(hosts), TABLE, 7)
    assert state_of(hosts) == before


def test_the_last_name_takes_the_block_away(hosts: Path) -> None:
    write(str(hosts), TABLE, 7)
    write(str(hosts), Table(), 8)
    assert hosts.read_text() == DEBIAN


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o664])
def test_the_mode_stays(hosts: Path, mode: int) -> None:
    hosts.chmod(mode)
    write(str(hosts), TABLE, 7)
    assert stat.S_IMODE(hosts.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(hosts: Path) -> None:
    os.chown(hosts, 12, 34)
    write(str(hosts), TABLE, 7)
    assert (hosts.stat().st_uid, hosts.stat().st_gid) == (12, 34)
    assert hosts.read_text() == FRESH


def test_attributes_stay(hosts: Path) -> None:
    try:
        os.setxattr(hosts, "user.label", b"x")
    except OSError:
        pytest.skip("the file system of the tests has no attributes")
    write(str(hosts), TABLE, 7)
    assert os.getxattr(hosts, "user.label") == b"x"


def test_a_link_stays_a_link(hosts: Path) -> None:
    link = hosts.parent / "link"
    link.symlink_to("hosts")
    write(str(link), TABLE, 7)
    assert link.is_symlink()
    assert hosts.read_text() == FRESH


def test_what_a_killed_agent_has_left_is_removed(hosts: Path) -> None:
    (hosts.parent / "hosts.subord-new").write_text("half")
    write(str(hosts), TABLE, 7)
    assert os.listdir(hosts.parent) == ["hosts"]


def test_a_change_by_another_program_is_kept(hosts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, times = writing._write_beside, 0

    def late(fresh: str, *rest: Any) -> None:
        nonlocal times
        times += 1
        beside(fresh, *rest)
        if times == 1:
            with hosts.open("a") as file:
                file.write("10.9.9.9 late\n")

    monkeypatch.setattr(writing, "_write_beside", late)
    write(str(hosts), TABLE, 7)
    assert hosts.read_text() == DEBIAN + "10.9.9.9 late\n" + BLOCK
    assert times == 2


def test_a_file_that_changes_all_the_time_is_left_alone(hosts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_is_changed", lambda *_: True)
    assert "other programs write it all the time" in unchanged(hosts)


# -- what cannot be written -----------------------------------------------------------------------------------------


def test_no_file(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    with pytest.raises(WritingError, match=r"No such file or directory\): make it, or correct elastic"):
        write(str(path), TABLE, 7)
    assert write(str(path), Table(), 7) == ()
    assert not path.exists()


def test_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(WritingError, match="is no file, and is unchanged: correct"):
            write(str(tmp_path / name), TABLE, 7)


def test_a_file_that_is_too_large(hosts: Path) -> None:
    with hosts.open("ab") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    assert "has more than 4194304 bytes, and is unchanged" in unchanged(hosts)


def test_a_damaged_block(hosts: Path) -> None:
    hosts.write_text(BLOCK + BLOCK)
    assert unchanged(hosts).startswith(f"{hosts} is unchanged: the lines `# BEGIN subord hosts table` and")


@apart
def test_a_full_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", 64 * KIB)
    hosts = disk.path / "hosts"
    hosts.write_text(DEBIAN)
    disk.fill()
    assert unchanged(hosts, LARGE).endswith("and is unchanged (No space left on device): make room there")
    disk.free()
    write(str(hosts), TABLE, 7)
    assert hosts.read_text() == FRESH


@apart
def test_a_read_only_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", 64 * KIB)
    hosts = disk.path / "hosts"
    hosts.write_text(DEBIAN)
    disk.close()
    assert "(Read-only file system): name its directory in ReadWritePaths= of subord-agent.service" in unchanged(
        hosts
    )


# -- where it is ----------------------------------------------------------------------------------------------------


def mounted(disk: Disk, at: Path) -> Path:
    """A file of the disk, mounted over another one, as containers have theirs."""
    source = disk.path / "hosts-of-container"
    source.write_text(DEBIAN)
    at.write_text("hidden\n")
    bind(source, at)
    return at


@apart
def test_a_mount_point_is_written_where_it_is(tmp_path: Path) -> None:
    hosts = mounted(Disk(tmp_path / "disk", 256 * KIB), tmp_path / "hosts")
    before = hosts.stat()
    write(str(hosts), LARGE, 7)
    assert hosts.read_text().startswith(DEBIAN + "# BEGIN")
    write(str(hosts), TABLE, 7)
    assert hosts.read_text() == FRESH
    write(str(hosts), Table(), 8)
    assert hosts.read_text() == DEBIAN
    assert hosts.stat().st_ino == before.st_ino
    assert sorted(os.listdir(tmp_path)) == ["disk", "hosts"]


@apart
def test_a_mount_point_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a byte is written: a reader would see it, and an agent that dies would leave it."""
    disk = Disk(tmp_path / "disk", 64 * KIB)
    hosts = mounted(disk, tmp_path / "hosts")
    disk.fill()
    monkeypatch.setattr(os, "pwrite", lambda *_: pytest.fail("it is written"))
    assert "(No space left on device): make room there" in unchanged(hosts, LARGE)


@apart
def test_a_mount_point_on_a_read_only_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", 64 * KIB)
    hosts = mounted(disk, tmp_path / "hosts")
    disk.close()
    assert "(Read-only file system)" in unchanged(hosts)


@apart
def test_a_file_in_a_folder_that_is_read_only(tmp_path: Path) -> None:
    """As with ReadWritePaths=/etc/hosts."""
    inner, outer = Disk(tmp_path / "inner", 64 * KIB), Disk(tmp_path / "outer", 64 * KIB)
    hosts = mounted(inner, outer.path / "hosts")
    outer.close()
    write(str(hosts), TABLE, 7)
    assert hosts.read_text() == FRESH


def refused(*_: object) -> None:
    raise OSError(errno.EBUSY, "busy")


class Failing:
    """The first call fails half way."""

    def __init__(self, call: Callable[..., int]) -> None:
        self._call = call
        self.calls = 0
        self.fails_always = False

    def __call__(self, descriptor: int, data: bytes, at: int) -> int:
        self.calls += 1
        if self.calls == 2 or (self.calls > 2 and self.fails_always):
            raise OSError(errno.EIO, "Input/output error")
        return self._call(descriptor, data[: len(data) // 2] if self.calls == 1 else data, at)


@pytest.mark.parametrize("fails_always", [False, True])
def test_a_disk_that_breaks_in_the_midst(hosts: Path, monkeypatch: pytest.MonkeyPatch, fails_always: bool) -> None:
    failing = Failing(os.pwrite)
    failing.fails_always = fails_always
    monkeypatch.setattr(os, "rename", refused)
    monkeypatch.setattr(os, "pwrite", failing)
    with pytest.raises(WritingError) as caught:
        write(str(hosts), TABLE, 7)
    if fails_always:
        assert "may be damaged: it cannot be written (Input/output error), and not put back either" in str(
            caught.value
        )
    else:
        assert "is unchanged (Input/output error)" in str(caught.value)
        assert hosts.read_text() == DEBIAN


def test_a_change_before_it_is_written_where_it_is(hosts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = 0

    def busy(*_: object) -> None:
        nonlocal times
        times += 1
        if times == 1:
            with hosts.open("a") as file:
                file.write("10.9.9.9 late\n")
        refused()

    monkeypatch.setattr(os, "rename", busy)
    write(str(hosts), TABLE, 7)
    assert hosts.read_text() == DEBIAN + "10.9.9.9 late\n" + BLOCK
