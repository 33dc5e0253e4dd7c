"""The records of nodes on a disk, and the clock."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from subord.runtime.record_file import RecordsError
from subord.services.elastic.clock import Clock, booted_at
from subord.services.elastic.managing.advancing import begun
from subord.services.elastic.records import Counters, Records
from subord.services.elastic.stages import Record, Stage

NOW = 1_800_000_000.0


def record(number: int, **changes: Any) -> Record:
    return replace(begun(f"node{number:03}", number, "small", 4, NOW), **changes)


def test_records_and_counters_outlive_a_process(tmp_path: Path) -> None:
    first = Records(str(tmp_path))
    assert (first.all(), first.counters()) == ({}, Counters(0, 0, 0, -inf))
    one = record(1, stage=Stage.SERVING, address="10.0.0.1", paid_since=NOW, fault="ä", is_undone=True, is_lost=True)
    first.put(one, record(2), counters=Counters(2, 1, 1, NOW))
    first.put(record(2, tries=1))
    first.drop("node003")
    first.close()
    again = Records(str(tmp_path))
    assert again.all() == {"node001": one, "node002": record(2, tries=1)}
    assert again.counters() == Counters(2, 1, 1, NOW)
    again.drop("node001", counters=Counters(2, 2, 1, NOW + 1))
    assert (list(again.all()), again.counters().removed) == (["node002"], 2)
    again.close()
    assert (tmp_path / "elastic").stat().st_mode & 0o777 == 0o700


def test_a_change_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    wrong: Any = Counters("x", 0, 0, object())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        records.put(record(1), record(2), counters=wrong)
    assert records.all() == {}
    records.put(record(1))
    assert list(records.all()) == ["node001"]
    records.close()


DIES = """
import os, signal, sys
from subord.services.elastic.managing.advancing import begun
from subord.services.elastic.records import Records
records = Records(sys.argv[1])
for number in range(1, 1000):
    records.put(*(begun(f"node{number}-{each}", number, "", 1, 1.0) for each in range(3)))
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_written_is_there_after_a_kill(tmp_path: Path) -> None:
    place = os.pathsep.join(filter(None, sys.path))
    ended = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False, env={"PYTHONPATH": place})
    assert ended.returncode == -signal.SIGKILL
    records = Records(str(tmp_path))
    assert len(records.all()) == 60
    records.close()


def test_a_damaged_file_is_left_as_it_is(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    records.put(record(1))
    records.close()
    path = tmp_path / "elastic" / "nodes.db"
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(RecordsError, match=r"is damaged: .*; nothing was deleted, and no node is added or removed"):
        Records(str(tmp_path))
    assert path.read_bytes() == b"nonsense" * 1000


@pytest.mark.parametrize("body", [b"{}", b"\xff", b'{"name": 5}', b"[" * 100_000])
def test_a_damaged_record_is_named(tmp_path: Path, body: bytes) -> None:
    records = Records(str(tmp_path))
    records.put(record(1), record(2))
    with sqlite3.connect(records.path) as connection:
        connection.execute("update node set body = ? where name = 'node002'", (body,))
    connection.close()
    with pytest.raises(RecordsError, match="is damaged: the record of the node node002"):
        records.all()
    records.close()


def test_a_file_of_a_later_release_is_left_as_it_is(tmp_path: Path) -> None:
    Records(str(tmp_path)).close()
    with sqlite3.connect(tmp_path / "elastic" / "nodes.db") as connection:
        connection.execute("pragma user_version = 2")
    connection.close()
    with pytest.raises(RecordsError, match="is of a later release, with schema 2; nothing was changed"):
        Records(str(tmp_path))


def test_a_disk_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "elastic").write_text("a file")
    with pytest.raises(RecordsError, match=r"cannot be made: .*: make room on the disk, or correct"):
        Records(str(tmp_path))


def test_a_full_disk_leaves_the_records_as_they_were(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    records.put(record(1))
    records._file.connection.execute("pragma max_page_count = 4")
    with pytest.raises(RecordsError, match=r"cannot be read or written: .*full; the records stay as they were"):
        records.put(*(record(number, fault="x" * 400) for number in range(2, 99)))
    assert list(records.all()) == ["node001"]
    records.close()


# -- the clock ------------------------------------------------------------------------------------------------------


async def test_an_hour_passes_in_a_minute(autojump_clock: Any) -> None:
    clock = Clock(lambda: NOW + trio.current_time(), rate=60, origin=NOW - 60)
    assert clock.now() == NOW + 59 * 60 + trio.current_time() * 60
    before, shown = trio.current_time(), clock.now()
    await clock.sleep(3600)
    assert trio.current_time() - before == pytest.approx(60)
    assert clock.now() - shown == pytest.approx(3600)
    assert clock.real(clock.shown(NOW + 5)) == pytest.approx(NOW + 5)


def test_an_ordinary_clock_shows_the_time_of_the_machine() -> None:
    clock = Clock(lambda: NOW)
    assert clock.now() == clock.shown(NOW) == clock.real(NOW) == NOW
    assert clock.shown(NOW - 100) == NOW - 100


def test_since_when_the_machine_runs(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu 1 2\nbtime 1700000000\nprocesses 5\n")
    assert booted_at(str(stat)) == 1_700_000_000
    stat.write_text("cpu 1 2\nbtime x\n")
    assert booted_at(str(stat)) == booted_at(str(tmp_path / "none")) == 0
    assert booted_at() > 0
