"""The records of jobs that cross on a disk, and seeds of the campaign with real files."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
from loops import over

from subord.runtime.record_file import RecordsError
from subord.services.transfer import away, home
from subord.services.transfer.cells.interface import Being
from subord.services.transfer.exchange import Stage
from subord.services.transfer.jobs import End, Key, Spec, Usage, Wanted
from subord.services.transfer.records import LAYOUT, Records
from subord.services.transfer.states import AwayRecord, Doom, HomeRecord, HomeState
from tests.transfer.campaign import Stage as Play

KEY = Key("alpha", "7", 3, 1_800_000_000_000)
SPEC = Spec(
    user="ada", name="ä", script="#!/bin/sh\nexit 3\n", environment=(("A", "b c"),), requests=(("h_rt", "60"),)
)
AWAY = AwayRecord(
    key=KEY,
    stage=Stage.HERE,
    wanted=Wanted.SUSPENDED,
    life=5,
    user="bob",
    id="21",
    being=Being.RUNNING,
    is_released=True,
    has_run=True,
    was_stopped=True,
    must_exist=True,
    doom=Doom.FAILED,
    reason="ß",
)
HOME = HomeRecord(
    key=KEY,
    state=HomeState.ENDED,
    queue="transfer",
    spec=SPEC,
    first_life=9,
    seen=Stage.ENDED,
    is_bound=True,
    end=End(status=3, usage=Usage(host="h1", cpu_s=1.5, memory_bytes=1 << 40)),
)


def test_records_outlive_a_process(tmp_path: Path) -> None:
    first = Records(str(tmp_path))
    begun = first.begin(1000)
    assert (begun.life, begun.home, begun.away) == (1000, home.Kept(), away.Kept())
    other = Key("alpha", "8", 0, 1)
    written = first.write(home.Changes({KEY: HOME}, (77, 3)), away.Changes({KEY: AWAY, other: AWAY}, 1000))
    assert written == 1
    assert first.write(home.Changes({}), away.Changes({})) == 1, "nothing to write"
    assert first.write(home.Changes({}), away.Changes({other: None})) == 2
    first.close()
    again = Records(str(tmp_path))
    begun = again.begin(500)
    assert begun.life == 1001, "above the earlier one, although the clock was set back"
    assert begun.home == home.Kept((HOME,), 77, 3)
    assert begun.away == away.Kept((AWAY,), 2, 1000)
    again.close()
    assert (tmp_path / "transfer").stat().st_mode & 0o777 == 0o700


OVER = msgspec.structs.replace(HOME, is_bound=False, is_told=True)
CAME = msgspec.structs.replace(AWAY, key=Key("beta", "3", 0, 5))
WENT = msgspec.structs.replace(CAME, stage=Stage.ENDED, end=End())


@over(
    ("record", "names", "under_way"),
    [
        (HOME, ("alpha", "gamma"), 1),
        (HOME, ("omega", "beta"), 1),
        (CAME, ("alpha", "gamma"), 1),
        (CAME, ("omega", "beta"), 0),
        (CAME, ("alpha", "beta"), 0),
        (OVER, ("omega", "beta"), 0),
        (WENT, ("alpha", "gamma"), 0),
    ],
)
def test_a_plan_with_other_names_waits_for_the_jobs_of_the_names_before(
    record: HomeRecord | AwayRecord, names: tuple[str, str], under_way: int, tmp_path: Path
) -> None:
    """Another peer would say that it does not have them, and they would run twice."""
    folder = tempfile.mkdtemp(dir=tmp_path)
    records = Records(folder)
    records.begin(1)
    assert records.rename("alpha", "beta") == ""
    of_home = {record.key: record} if isinstance(record, HomeRecord) else {}
    of_away = {record.key: record} if isinstance(record, AwayRecord) else {}
    records.write(home.Changes(of_home, (77, 3)), away.Changes(of_away))
    fault = records.rename(*names)
    assert bool(fault) == bool(under_way)
    if under_way:
        assert f"are not over ({under_way})" in fault
        assert 'cluster = "alpha" and the peer "beta"' in fault
        names = ("alpha", "beta")
    records.close()
    records = Records(folder)
    assert records.rename(*names) == "", "it is on the disk"
    begun = records.begin(2)
    is_left = bool(under_way) or record == CAME
    assert bool(begun.home.records or begun.away.records) == is_left
    assert begun.home.peer_life == (77 if names[1] == "beta" else 0), "of another peer nothing was heard"
    records.close()


DIES = """
import os, signal, sys
from subord.services.transfer import away, home
from subord.services.transfer.jobs import Key
from subord.services.transfer.records import Records
from subord.services.transfer.states import HomeRecord, HomeState
records = Records(sys.argv[1])
records.begin(1)
for number in range(1, 1000):
    keys = [Key("alpha", str(number), task, 1) for task in range(3)]
    changes = {each: HomeRecord(key=each, state=HomeState.WAITING) for each in keys}
    records.write(home.Changes(changes), away.Changes({}))
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_written_is_there_after_a_kill(tmp_path: Path) -> None:
    place = os.pathsep.join(filter(None, sys.path))
    ended = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False, env={"PYTHONPATH": place})
    assert ended.returncode == -signal.SIGKILL
    records = Records(str(tmp_path))
    assert len(records.begin(2).home.records) == 60
    records.close()


def test_a_damaged_file_is_left_as_it_is(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    records.begin(1)
    records.write(home.Changes({KEY: HOME}), away.Changes({}))
    records.close()
    with sqlite3.connect(records.path) as connection:
        connection.execute("update home set body = '{'")
    connection.close()
    again = Records(str(tmp_path))
    with pytest.raises(RecordsError, match="is damaged"):
        again.begin(2)
    again.close()
    records.path.write_bytes(b"no database at all, but longer than a header" * 9)
    with pytest.raises(RecordsError, match="is damaged"):
        Records(str(tmp_path))
    assert records.path.read_bytes().startswith(b"no database")


def test_a_file_of_a_later_release(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    records.close()
    with sqlite3.connect(records.path) as connection:
        connection.execute(f"pragma user_version = {LAYOUT.version + 1}")
    connection.close()
    with pytest.raises(RecordsError, match="later release"):
        Records(str(tmp_path))


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "transfer").write_text("a file")
    with pytest.raises(RecordsError, match="cannot be made"):
        Records(str(tmp_path))


class Files:
    """The records of a simulated agent in a real file, which is opened anew by each life, and copies of the file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records = Records(str(directory))
        self.copies = list[bytes]()

    def begin(self, at_ms: int) -> object:
        self.records.close()
        self.records = Records(str(self.directory))
        return self.records.begin(at_ms)

    def write(self, of_home: home.Changes, of_away: away.Changes) -> int:
        return self.records.write(of_home, of_away)

    def copy(self) -> None:
        self.copies = [*self.copies[-60:], self.records.path.read_bytes()]

    def restore(self, copy: bytes) -> None:
        self.records.close()
        self.records.path.write_bytes(copy)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [13, 17])
def test_the_simulated_clusters_with_real_files(seed: int, tmp_path: Path) -> None:
    play = Play(seed)
    for number, agent in enumerate(play.agents):
        agent.disk = Files(tmp_path / str(number))
        agent.boot()
    play.run()
    for agent in play.agents:
        agent.disk.records.close()
    assert all(play.world.counts[each] for each in ("abroad", "forgets", "restored"))
