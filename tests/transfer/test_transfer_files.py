"""Files of jobs: two drivers with batch systems in memory, real archives, and a user whose files they are."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import passing_time
import pytest
import trio
import trio.testing

from subord.services.transfer.cells.interface import Being
from subord.services.transfer.jobs import End, Spec
from subord.services.transfer.local import AGAIN, EXIT, Answer
from subord.services.transfer.plan import TransferQueue
from tests.transfer.cell_in_memory import FakeJob
from tests.transfer.test_transfer_driver import QUEUE, Side, Starter, crossing, plan_of, until

USER = "nobody"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user"),
]


class Places:
    """Open to the user: the working directory at home, and the directory for files away."""

    def __init__(self, top: Path) -> None:
        self.work, self.away = top / "work", top / "away"
        for each in (top, self.work, self.away):
            each.mkdir(exist_ok=True)
            each.chmod(0o755)
        shutil.chown(self.work, USER)
        shutil.chown(self.away, USER)

    def write(self, path: str, text: str) -> Path:
        file = self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for each in (file, *file.parents):
            if self.work in each.parents:
                shutil.chown(each, USER)
        return file


@pytest.fixture
def places() -> Iterator[Places]:
    top = Path(tempfile.mkdtemp(prefix="subord-files-"))
    yield Places(top)
    shutil.rmtree(top)


@pytest.fixture
def clock() -> trio.testing.MockClock:
    return trio.testing.MockClock()


@pytest.fixture
async def sides(tmp_path: Path, places: Places, clock: trio.testing.MockClock) -> tuple[Side, Side]:
    await trio.lowlevel.checkpoint()
    passing_time.start(clock)
    return two_sides(tmp_path, places)


def two_sides(tmp_path: Path, places: Places) -> tuple[Side, Side]:
    found = []
    for name, other in (("one", "two"), ("two", "one")):
        folder = tmp_path / name
        folder.mkdir(mode=0o700, exist_ok=True)
        found.append(Side(plan_for(name, other, places), folder))
    here, there = found
    here.link.peer, there.link.peer = there.link, here.link
    return here, there


def plan_for(name: str, other: str, places: Places, **changed: Any) -> Any:
    own = {
        "queues": (TransferQueue(name=QUEUE, brings_files=True),),
        "users": (),
        "files_directory": str(places.away),
        **changed,
    }
    return plan_of(name, other, **own)


def spec(places: Places, **changed: Any) -> Spec:
    return Spec(user=USER, name="job", script="true\n", **{"directory": str(places.work), **changed})


def running(side: Side) -> list[FakeJob]:
    return [each for each in side.cell.jobs.values() if each.being == Being.RUNNING]


def came(directory: str, places: Places) -> dict[str, int]:
    """Files of the user, with their sizes."""
    top = Path(directory)
    assert places.away in top.parents or top == places.work
    files = [each for each in top.rglob("*") if each.is_file()]
    assert {each.owner() for each in files} == {USER}
    return {str(each.relative_to(top)): each.stat().st_size for each in files}


def results_of(directory: str, **texts: str) -> None:
    """The job writes them, as its user."""
    for name, text in texts.items():
        file = Path(directory, name)
        file.write_text(text)
        shutil.chown(file, USER)


async def test_files_go_along_and_results_come_back(sides: tuple[Side, Side], places: Places, clock: object) -> None:
    here, there = sides
    places.write("input", "seven")
    places.write("deep/down", "x" * 600_000)
    async with crossing(here, there) as _, trio.open_nursery() as nursery:
        starter = begun(here, places, nursery)
        await until(lambda: running(there), "it runs")
        (job,) = running(there)
        assert came(job.spec.directory, places) == {"input": 5, "deep/down": 600_000}
        results_of(job.spec.directory, result="forty-two", input="seven")
        there.cell.end("1001", End(status=3))
        await until(lambda: starter.end, "its end is told")
        assert starter.end == Answer(EXIT, 3)
        assert came(str(places.work), places)["result"] == 9, "before the end is told"
        here.cell.leaving.clear()
        await until(lambda: not os.listdir(places.away), "its directory away is removed")
        assert there.driver is not None
        assert here.driver is not None
        assert (here.driver.packing.faults.failed, there.driver.coming.faults.failed) == ({}, {})
        await until(lambda: not list(spooled(here) + spooled(there)), "nothing is left on the transfer hosts")
        nursery.cancel_scope.cancel()


def spooled(side: Side) -> list[Path]:
    return list((side.folder / "transfer" / "files").iterdir())


def begun(here: Side, places: Places, nursery: trio.Nursery, job: str = "12", **changed: Any) -> Any:
    starter = Starter(here, job)
    here.cell.add(job, spec(places, **changed))
    nursery.start_soon(starter.run)
    return starter


def spoil(what: str, places: Places) -> None:
    file = places.write("input", "x" * (2000 if what == "large" else 10))
    if what == "many":
        for number in range(30):
            places.write(f"f{number}", "")
    elif what == "unreadable":
        shutil.chown(file, "root")
        file.chmod(0o600)
    elif what == "pipe":
        os.mkfifo(places.work / "pipe")
    elif what == "setuid":
        file.chmod(0o4755)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("large", "at most 1000 may cross"),
        ("many", "at most 20 may cross"),
        ("unreadable", "Permission denied"),
        ("pipe", "no file or directory"),
        ("setuid", "gives its rights"),
        ("outside", "not below the working directory"),
    ],
)
async def test_what_cannot_cross_stays(
    what: str, reason: str, sides: tuple[Side, Side], places: Places, clock: object, *, caplog: Any
) -> None:
    here, there = sides
    here.plan = plan_for("one", "two", places, files_bytes_max=1000, files_max=20)
    spoil(what, places)
    paths = {"environment": (("SUBORD_FILES", "../input"),)} if what == "outside" else {}
    async with crossing(here, there) as _, trio.open_nursery() as nursery:
        starter = begun(here, places, nursery, **paths)
        await until(lambda: starter.end, "it goes home")
        assert starter.end.word == AGAIN
        nursery.cancel_scope.cancel()
    assert here.cell.kept == ["12"], "it does not leave again"
    assert there.cell.submitted == []
    assert reason in caplog.text


async def test_a_cluster_that_takes_no_files_gets_no_such_job(
    sides: tuple[Side, Side], places: Places, clock: object
) -> None:
    """It waits for `permit_s`, because a plan may be on its way there."""
    here, there = sides
    here.plan = plan_for("one", "two", places, permit_s=10)
    there.plan = plan_for("two", "one", places, files_directory="")
    async with crossing(here, there) as _, trio.open_nursery() as nursery:
        starter = begun(here, places, nursery)
        await until(lambda: starter.end, "it goes home")
        nursery.cancel_scope.cancel()
    assert (starter.end.word, here.cell.kept, there.cell.submitted) == (AGAIN, ["12"], [])


async def test_results_that_cannot_be_written_are_kept_away_and_the_end_is_told(
    sides: tuple[Side, Side], places: Places, clock: object
) -> None:
    here, there = sides
    places.write("input", "seven")
    async with crossing(here, there) as _, trio.open_nursery() as nursery:
        starter = begun(here, places, nursery)
        await until(lambda: running(there), "it runs")
        (job,) = running(there)
        results_of(job.spec.directory, result="x")
        shutil.chown(places.work, "root")
        there.cell.end("1001", End(status=5))
        await until(lambda: starter.end, "its end is told")
        assert starter.end == Answer(EXIT, 5)
        assert here.driver is not None
        (over,) = here.driver.sides.over
        assert "are kept in the other cluster" in over.reason
        assert came(job.spec.directory, places) == {"input": 5, "result": 1}
        faults = here.driver.packing.faults
        assert faults.failed == {"denied": 1}
        assert faults.last.startswith(f"job {over.key.job}: its results have not come: ")
        nursery.cancel_scope.cancel()


async def test_what_waits_to_be_fetched_is_told(sides: tuple[Side, Side], places: Places, clock: object) -> None:
    here, there = sides
    places.write("input", "seven")
    there.link.is_cut = True
    async with crossing(here, there) as _, trio.open_nursery() as nursery:
        starter = begun(here, places, nursery)
        assert here.driver is not None
        packing = here.driver.packing
        await until(lambda: packing.waiting()["jobs"], "its files are packed")
        await until(lambda: packing.disk_use and packing.disk_use.used, "the disk was looked at")
        assert packing.disk_use is not None
        waiting = packing.waiting()
        assert waiting == {"jobs": 1, "files": 1, "bytes": packing.disk_use.used, "results": 0}
        there.link.is_cut = False
        await until(lambda: running(there), "it runs")
        await until(lambda: not packing.waiting()["jobs"], "its files are fetched")
        there.cell.end("1001", End())
        await until(lambda: starter.end, "its end is told")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("step", ["packed", "unpacked", "ended"])
async def test_agents_that_die_go_on(step: str, sides: tuple[Side, Side], places: Places, clock: object) -> None:
    """The other one, or the same, at each step."""
    here, there = sides
    places.write("input", "seven")
    directory = ""
    starter = None
    async with trio.open_nursery() as outer:
        async with here.running():
            starter = begun(here, places, outer)
            if step == "packed":
                there.link.is_cut = True
            async with there.running():
                if step == "packed":
                    await until(lambda: [each for each in spooled(here) if each.suffix == ".chunks"], step)
                else:
                    await until(lambda: running(there), step)
                if step == "ended":
                    here.link.is_cut = True
                    (job,) = running(there)
                    directory = job.spec.directory
                    results_of(directory, result="x")
                    there.cell.end("1001", End(status=6))
        here.link.is_cut = there.link.is_cut = False
        async with here.running(), there.running():
            if step != "ended":
                await until(lambda: running(there), "it runs")
                (job,) = running(there)
                assert came(job.spec.directory, places) == {"input": 5}
                results_of(job.spec.directory, result="x")
                there.cell.end("1001", End(status=6))
            await until(lambda: starter.end, "its end is told")
        outer.cancel_scope.cancel()
    assert starter.end == Answer(EXIT, 6)
    assert came(str(places.work), places)["result"] == 1
    assert len(there.cell.submitted) == 1
