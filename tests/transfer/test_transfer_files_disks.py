"""Full disks under files of jobs, on both transfer hosts and of both users: what is said, and how it goes on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import passing_time
import pytest
import trio
import trio.testing
from disks import KIB, PAGE, Disk, apart

from subord.runtime.record_file import RecordsError
from subord.services.transfer.data import spool as spools
from subord.services.transfer.data.listing import DISK, FilesError
from subord.services.transfer.data.spool import FOLDER, PACKED, Spool
from subord.services.transfer.driving.driver import Driver, Site
from subord.services.transfer.jobs import End, Key
from subord.services.transfer.local import AGAIN, EXIT, Answer
from subord.services.transfer.records import Records
from tests.transfer.test_transfer_driver import Side, crossing, until
from tests.transfer.test_transfer_files import (
    USER,
    Places,
    begun,
    came,
    results_of,
    running,
    spooled,
    two_sides,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user"),
]
SIZE = 200_000
"""Of a file that has no room on a full disk."""
DISK_BYTES = 4096 * KIB


class Small:
    """Two clusters, whose spools and users have small disks of their own; `disks` by name."""

    def __init__(self, tmp_path: Path, places: Places, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(spools, "RESERVE_BYTES", 0)
        self.places = places
        self.disks = dict[str, Disk]()
        for name, path in (
            ("spool here", tmp_path / "one" / FOLDER),
            ("spool there", tmp_path / "two" / FOLDER),
            ("user here", places.work),
            ("user there", places.away),
        ):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.disks[name] = Disk(path, DISK_BYTES)
        for each in (places.work, places.away):
            shutil.chown(each, USER)
            each.chmod(0o755)
        self.here, self.there = two_sides(tmp_path, places)

    def fails(self, side: Side) -> int:
        """How often a disk was full."""
        driver = side.driver
        assert driver is not None
        return driver.packing.faults.failed[DISK] + driver.coming.faults.failed[DISK]


@contextmanager
def made(tmp_path: Path, patch: pytest.MonkeyPatch) -> Iterator[Small]:
    top = Path(tempfile.mkdtemp(prefix="subord-files-"))
    small = Small(tmp_path, Places(top), patch)
    try:
        yield small
    finally:
        for each in small.disks.values():
            each.end()
        shutil.rmtree(top)


def run(story: Callable[[Small], Awaitable[None]], tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir(mode=0o700)
    with made(tmp_path, patch) as site:
        _run(story, site)


def _run(story: Callable[[Small], Awaitable[None]], site: Small) -> None:
    clock = trio.testing.MockClock()

    async def timed() -> None:
        passing_time.start(clock)
        await story(site)

    trio.run(timed, clock=clock)


@pytest.mark.parametrize("name", ["spool there", "user there"])
@apart
def test_a_job_whose_files_have_no_room_away_runs_when_there_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(site: Small) -> None:
        here, there, places = site.here, site.there, site.places
        places.write("input", "x" * SIZE)
        site.disks[name].fill(8 * PAGE)
        async with crossing(here, there) as _, trio.open_nursery() as nursery:
            starter = begun(here, places, nursery)
            await until(lambda: site.fails(there), "it has no room")
            site.disks[name].free()
            await until(lambda: running(there), "it runs")
            (job,) = running(there)
            assert came(job.spec.directory, places) == {"input": SIZE}
            there.cell.end("1001", End(status=3))
            await until(lambda: starter.end, "its end is told")
            assert starter.end == Answer(EXIT, 3)
            nursery.cancel_scope.cancel()

    run(story, tmp_path, monkeypatch)


async def _with_results(site: Small, name: str, side: Side, is_freed: bool) -> str:
    """A job ends while a disk has no room; what is said at its end."""
    here, there, places = site.here, site.there, site.places
    places.write("input", "old")
    async with crossing(here, there) as _, trio.open_nursery() as nursery:
        starter = begun(here, places, nursery)
        await until(lambda: running(there), "it runs")
        (job,) = running(there)
        results_of(job.spec.directory, result="x" * SIZE)
        site.disks[name].fill(8 * PAGE)
        there.cell.end("1001", End(status=5))
        await until(lambda: site.fails(side), "there is no room")
        if is_freed:
            assert not starter.end
            site.disks[name].free()
        await until(lambda: starter.end, "its end is told")
        assert starter.end == Answer(EXIT, 5)
        assert here.driver is not None
        (over,) = here.driver.sides.over
        if is_freed:
            assert came(str(places.work), places) == {"input": 3, "result": SIZE}
        else:
            assert came(job.spec.directory, places) == {"input": 3, "result": SIZE}
            assert [each.suffix for each in spooled(here) + spooled(there)].count(f".{PACKED}") <= 1
        nursery.cancel_scope.cancel()
    return over.reason


@pytest.mark.parametrize(("name", "is_here"), [("spool there", False), ("spool here", True), ("user here", True)])
@apart
def test_results_that_have_no_room_come_when_there_is(
    name: str, is_here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(site: Small) -> None:
        assert await _with_results(site, name, site.here if is_here else site.there, is_freed=True) == ""

    run(story, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["spool there", "spool here"])
@apart
def test_results_that_never_have_room_stay_and_the_end_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(site: Small) -> None:
        side = site.here if name == "spool here" else site.there
        reason = await _with_results(site, name, side, is_freed=False)
        assert "are kept in the other cluster" in reason
        assert "the transfer host has room for" in reason

    run(story, tmp_path, monkeypatch)


@apart
def test_a_job_whose_files_cannot_be_packed_stays_and_the_next_one_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(site: Small) -> None:
        here, there, places = site.here, site.there, site.places
        places.write("input", "x" * SIZE)
        disk = site.disks["spool here"]
        disk.fill(8 * PAGE)
        async with crossing(here, there) as _, trio.open_nursery() as nursery:
            starter = begun(here, places, nursery)
            await until(lambda: starter.end, "it goes home")
            assert (starter.end.word, here.cell.kept, there.cell.submitted) == (AGAIN, ["12"], [])
            await until(lambda: not [each for each in spooled(here) if PACKED in each.name], "nothing is left")
            here.cell.leaving.clear()
            disk.free()
            begun(here, places, nursery, job="13")
            await until(lambda: running(there), "the next one runs")
            nursery.cancel_scope.cancel()

    run(story, tmp_path, monkeypatch)


@apart
def test_a_spool_that_turns_read_only_does_not_end_the_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(site: Small) -> None:
        here, there, places = site.here, site.there, site.places
        places.write("input", "seven")
        async with crossing(here, there) as _, trio.open_nursery() as nursery:
            starter = begun(here, places, nursery)
            await until(lambda: running(there), "it runs")
            (job,) = running(there)
            for name in ("spool here", "spool there"):
                site.disks[name].close()
            here.cell.leaving.clear()
            there.cell.end("1001", End(status=5))
            await until(lambda: "Read-only file system" in caplog.text, "it is said")
            for name in ("spool here", "spool there"):
                site.disks[name].open()
            await until(lambda: starter.end, "its end is told")
            await until(lambda: not os.listdir(Path(job.spec.directory).parent), "its directory is removed")
            await until(lambda: not spooled(here) + spooled(there), "nothing is left")
            nursery.cancel_scope.cancel()

    run(story, tmp_path, monkeypatch)


@apart
def test_a_spool_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(site: Small) -> None:
        here = site.here
        records = Records(str(here.folder))
        site.disks["spool here"].close()
        try:
            with pytest.raises(RecordsError, match="Read-only file system"):
                await Driver.begun(here.plan, Site(records, here.cell, here.link, here.socket))
        finally:
            records.close()

    for name in ("one", "two"):
        (tmp_path / name).mkdir(mode=0o700)
    with made(tmp_path, monkeypatch) as site:
        (site.here.folder / FOLDER / "left.new").touch()
        _run(story, site)


@apart
def test_a_spool_leaves_room_for_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "RESERVE_BYTES", 64 * KIB)
    disk = Disk(tmp_path / "disk", 256 * KIB)
    spool = Spool(disk.path)
    spool.demand_room(100 * KIB)
    with pytest.raises(FilesError, match="has room for") as found:
        spool.demand_room(250 * KIB)
    assert found.value.cause == DISK
    disk.fill(64 * KIB)
    with pytest.raises(FilesError):
        spool.demand_room(PAGE)
    with pytest.raises(FilesError), spool.opened(Key("one", "1", 0, 1), PACKED, PAGE):
        pass
    assert not list(spool.keys(PACKED))
