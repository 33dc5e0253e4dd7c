"""Databases of sinks that are restored to an earlier state, replaced, moved or new: what is told, and what is not."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from conditions import until

from subord.config.schema import LedgerConfig
from subord.core.address.network import Network
from subord.core.carriage.ledger.bodies import Key, Record
from subord.core.carriage.ledger.interface import SinkIs, Store, StoreEnded
from subord.runtime.counters import Counters
from subord.runtime.ledger import marks, restores
from subord.runtime.ledger.keeper import LedgerKeeper
from subord.runtime.ledger.missing import Range, merged
from subord.runtime.ledger.restores import MARKS_FILE, WatchedSink, open_watched
from subord.runtime.ledger.sinks import POSTGRESQL, Row, SinkError

A, B = "10.0.0.4", "10.0.0.5"


def rows(node: str, first: int, last: int, life: int = 7) -> list[Row]:
    return [Row(node, life, each, "test", b"%d" % each) for each in range(first, last + 1)]


class Backups:
    """A database with its backups; `directory`: the state directory of the sink."""

    def __init__(self, place: str, folder: Path) -> None:
        self.place = place
        self.directory = str(folder / "state")
        self._folder = folder
        Path(self.directory).mkdir()
        self._is_server = place.startswith(POSTGRESQL)

    def open(self) -> WatchedSink:
        return open_watched(self.place, self.directory)

    def look(self) -> WatchedSink:
        """What a sink finds that opens it."""
        return self.store()

    def store(self, *given: list[Row]) -> WatchedSink:
        """Each in a transaction; the database is closed then."""
        sink = self.open()
        for each in given:
            sink.store(each)
        sink.close()
        return sink

    def save(self, name: str) -> None:
        if self._is_server:
            words = ["pg_dump", "--clean", "--if-exists", "--file", str(self._folder / name), self.place]
            subprocess.run(words, check=True, timeout=60)
        else:
            shutil.copy(self.place, self._folder / name)

    def restore(self, name: str) -> None:
        if self._is_server:
            words = ["psql", "--quiet", "--set=ON_ERROR_STOP=1", "--file", str(self._folder / name), self.place]
            subprocess.run(words, check=True, timeout=60, stdout=subprocess.DEVNULL)
        else:
            shutil.copy(self._folder / name, self._folder / "fresh")
            (self._folder / "fresh").rename(self.place)

    def empty(self) -> None:
        if self._is_server:
            self.run("drop table record, subord_schema, subord_sink, subord_missing")
        else:
            Path(self.place).unlink()

    def run(self, query: str) -> list[tuple[Any, ...]]:
        """What it answers."""
        if not self._is_server:
            with sqlite3.connect(self.place) as file:
                found = file.execute(query).fetchall()
            file.close()
            return found
        import psycopg

        with psycopg.connect(self.place, autocommit=True) as server:
            cursor = server.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    @property
    def missing(self) -> list[tuple[Any, ...]]:
        return self.run(
            "select node, incarnation, first_sequence, last_sequence from subord_missing order by 1, 2, 3"
        )


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Backups:
    """An empty database."""
    if request.param == "sqlite":
        return Backups(str(tmp_path / "sink"), tmp_path)
    found = Backups(str(request.getfixturevalue("postgresql")), tmp_path)
    found.run("drop table if exists record, subord_schema, subord_sink, subord_missing")
    return found


@pytest.mark.slow
def test_a_new_sink_and_one_as_it_was_left_have_nothing_to_tell(base: Backups) -> None:
    for _ in range(3):
        sink = base.store(rows(A, 1, 3))
        assert (sink.found, sink.missing) == ("", 0)
    assert base.missing == []


def test_a_database_of_before_knows_what_it_lacks(base: Backups) -> None:
    base.store(rows(A, 1, 3), rows(B, 1, 2))
    base.save("old")
    base.store(rows(A, 4, 9), rows(B, 1, 4, life=8), rows(A, 10, 10))
    base.restore("old")
    sink = base.store(rows(A, 11, 12))
    assert sink.missing == 11
    assert "was restored to an earlier state" in sink.found
    assert "it lacks 11 records of 2 nodes that this node has stored after 20" in sink.found
    assert f"{A} incarnation 7 sequence 4 to 10; {B} incarnation 8 sequence 1 to 4. " in sink.found
    assert base.missing == [(A, 7, 4, 10), (B, 8, 1, 4)]
    again = base.look()
    assert again.missing == 11
    assert "ledger.sink lacks 11 records since it was restored" in again.found
    assert base.run("select count(*), sum(sequence) from record where incarnation = 7 and node = '10.0.0.4'") == [
        (5, 1 + 2 + 3 + 11 + 12)
    ]


def test_an_empty_database_in_place_of_one_lacks_all(base: Backups) -> None:
    base.store(rows(A, 1, 3))
    base.empty()
    assert base.look().missing == 3
    assert base.missing == [(A, 7, 1, 3)]


def test_a_database_is_restored_twice_from_different_backups(base: Backups) -> None:
    base.store(rows(A, 1, 3))
    base.save("monday")
    base.store(rows(A, 4, 6))
    base.save("tuesday")
    base.store(rows(A, 7, 9))
    base.restore("monday")
    assert base.store(rows(A, 10, 12)).missing == 6
    base.restore("tuesday")
    assert base.store(rows(A, 13, 13)).missing == 6
    assert base.missing == [(A, 7, 7, 12)]


def test_records_that_come_back_are_not_missing(base: Backups) -> None:
    """Such as from a copy of the lost database."""
    base.store(rows(A, 1, 3))
    base.empty()
    assert base.store(rows(A, 2, 3)).missing == 3
    assert base.look().missing == 1
    assert base.store(rows(A, 1, 1)).missing == 1
    assert base.look().missing == 0
    assert base.missing == []


def test_what_was_deleted_on_purpose_is_not_missing(base: Backups) -> None:
    base.store(rows(A, 1, 5))
    base.run("delete from record where sequence <= 2")
    assert base.look().missing == 0
    base.save("old")
    base.store(rows(A, 6, 7))
    base.restore("old")
    assert base.look().missing == 2
    assert base.missing == [(A, 7, 6, 7)]


def test_a_restore_that_lacks_nothing_is_told(base: Backups) -> None:
    base.store(rows(A, 1, 5))
    base.save("old")
    base.look()
    base.restore("old")
    sink = base.look()
    assert sink.missing == 0
    assert sink.found.endswith("it has all records that this node has stored")


def test_a_restore_under_an_open_sink_stores_nothing(base: Backups) -> None:
    base.store(rows(A, 1, 3))
    base.save("old")
    sink = base.open()
    sink.store(rows(A, 4, 5))
    base.restore("old")
    with pytest.raises(SinkError, match=r"restored or replaced|moved or replaced|relation"):
        sink.store(rows(A, 6, 6))
    sink.close()
    assert base.look().missing == 2
    assert base.run("select max(sequence) from record") == [(3,)]


def test_a_process_that_ends_between_both_counts_lacks_nothing(
    base: Backups, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = base.open()

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as failing:
        failing.setattr(marks.Marks, "add", fail)
        with pytest.raises(SinkError, match=r"cannot be read or written in stored\.sqlite: disk I/O error"):
            sink.store(rows(A, 1, 3))
    sink.close()
    again = base.store(rows(A, 1, 3))
    assert (again.found, again.missing) == ("", 0)


def test_marks_that_cannot_be_written_change_no_database(base: Backups, monkeypatch: pytest.MonkeyPatch) -> None:
    base.store(rows(A, 1, 3))

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as failing:
        failing.setattr(marks.Marks, "begin", fail)
        for _ in range(3):
            with pytest.raises(SinkError, match="disk is full"):
                base.open()
    assert base.look().found == ""


def test_marks_that_are_older_than_the_database_are_told(base: Backups) -> None:
    base.store(rows(A, 1, 3))
    old = Path(base.directory, MARKS_FILE).read_bytes()
    base.store(rows(A, 4, 5), rows(A, 6, 7))
    Path(base.directory, MARKS_FILE).write_bytes(old)
    sink = base.look()
    assert sink.missing == 0
    assert f"{MARKS_FILE} is older than ledger.sink" in sink.found


def test_two_sinks_of_one_database_each_know_theirs(base: Backups, tmp_path: Path) -> None:
    other = Backups(base.place, tmp_path / base.directory)
    base.store(rows(A, 1, 3))
    other.store(rows(A, 4, 5))
    base.save("old")
    base.store(rows(A, 6, 7))
    other.store(rows(A, 7, 9))
    base.restore("old")
    assert base.look().missing == 2
    assert other.look().missing == 4
    assert base.look().missing == 4
    assert other.look().missing == 4


def test_another_database_is_a_new_one_and_a_moved_one_is_known(tmp_path: Path) -> None:
    base = Backups(str(tmp_path / "sink"), tmp_path)
    base.store(rows(A, 1, 3))
    base.save("old")
    base.store(rows(A, 4, 5))
    base.place = str(tmp_path / "new")
    assert base.store(rows(A, 6, 7)).found == ""
    base.place = str(tmp_path / "old")
    assert base.store(rows(A, 8, 8)).missing == 2
    base.place = str(tmp_path / "new")
    assert base.look().found == ""


def test_without_a_state_directory_it_is_said_that_a_restore_is_not_noticed(tmp_path: Path) -> None:
    sink = open_watched(str(tmp_path / "sink"), "")
    sink.store(rows(A, 1, 3))
    sink.close()
    assert sink.found == restores.UNNOTICED


def test_a_file_of_marks_that_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / MARKS_FILE).write_text("no database " * 100)
    with pytest.raises(SinkError, match=r"stored\.sqlite: .*; delete this file, then a restore"):
        open_watched(str(tmp_path / "sink"), str(tmp_path))


def test_marks_have_a_bound_and_say_what_they_forgot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "RANGES_MAX", 3)
    base = Backups(str(tmp_path / "sink"), tmp_path)
    base.store(*(rows(A, 1, 2, life=life) for life in range(1, 10)))
    with sqlite3.connect(Path(base.directory, MARKS_FILE)) as file:
        assert file.execute("select incarnation from stored order by 1").fetchall() == [(7,), (8,), (9,)]
    file.close()
    base.empty()
    sink = base.look()
    assert sink.missing == 6
    assert " and earlier ones, which this node does not know any more. " in sink.found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], []),
        ([Range(A, 7, 4, 6), Range(A, 7, 1, 3), Range(A, 7, 5, 5)], [Range(A, 7, 1, 6)]),
        ([Range(A, 7, 1, 3), Range(A, 8, 4, 6), Range(B, 7, 4, 6)], None),
        ([Range(A, 7, 1, 3), Range(A, 7, 5, 6)], None),
    ],
)
def test_ranges_count_each_record_once(given: list[Range], found: list[Range] | None) -> None:
    assert merged(given) == (given if found is None else found)


async def test_the_daemon_tells_of_a_restore_once(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its file is exchanged while it runs; the records of the request that meets this are not acknowledged."""
    monkeypatch.setattr("subord.runtime.ledger.keeper.REOPEN_S", 0.01)
    base = Backups(str(tmp_path / "sink"), tmp_path)
    base.store(rows("10.0.0.4", 1, 3))
    base.save("old")
    counters, told = Counters(), list[Any]()
    keeper = LedgerKeeper(LedgerConfig(sink=base.place), base.directory, Network.parse("10.0.0.0/24"), counters)
    keeper.feed = told.append
    nursery.start_soon(keeper.run)
    await until(lambda: told == [SinkIs(able=True)], "the sink is open")

    def give(key: Key) -> Callable[[], bool]:
        told.clear()
        keeper.actions[Store](Store(key, (Record("test", b"a"),)))
        return lambda: bool(told)

    await until(give(Key(4, 7, 4, 1)), "it is stored")
    base.restore("old")
    await until(give(Key(4, 7, 5, 1)), "it is answered")
    assert told[0] == StoreEnded(Key(4, 7, 5, 1), ok=False)
    await until(lambda: told[-1] == SinkIs(able=True), "the sink is open again")
    await until(give(Key(4, 7, 5, 1)), "it is stored")
    assert told == [StoreEnded(Key(4, 7, 5, 1))]
    assert counters.records_missing == 1
    assert caplog.text.count("it lacks 1 record of 1 node that") == 1
