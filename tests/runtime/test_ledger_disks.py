"""Spools and sinks on a disk: bounds, order, names of records, what survives a process, and disks that fail."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from conditions import until
from order_stage import Stage, StageTree

from subord.config.schema import LedgerConfig
from subord.core.address.network import Network
from subord.core.carriage.ledger import bounds
from subord.core.carriage.ledger.bodies import Key, Record
from subord.core.carriage.ledger.interface import SinkIs, Spool, Spooled, Store, StoreEnded, Take, Taken
from subord.runtime.counters import Counters
from subord.runtime.ledger import schema
from subord.runtime.ledger.keeper import FULL, NO_DIRECTORY, LedgerKeeper
from subord.runtime.ledger.sinks import Row, Sink, SinkError, SqliteSink, open_sink
from subord.runtime.ledger.spool import SqliteSpool
from subord.sim.services.ledger import MemorySpool

NETWORK = Network.parse("10.0.0.0/24")


def records(*bodies: str) -> tuple[Record, ...]:
    return tuple(Record("test", each.encode()) for each in bodies)


COST = records("a")[0].cost_bytes


@pytest.fixture(params=["sqlite", "memory"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    """One that takes three records of one byte; the simulator's keeps the same rules."""
    if request.param == "sqlite":
        return SqliteSpool(tmp_path / "spool", 7, 3 * COST)
    found = MemorySpool(3 * COST)
    found.begin(7)
    return found


def test_a_spool_is_emptied_in_order_and_keeps_its_bound(spool: Spool) -> None:
    assert spool.oldest() is None
    assert spool.append(records("a", "b"))
    assert not spool.append(records("c", "d"))
    assert (spool.count, spool.used_bytes) == (2, 2 * COST)
    assert spool.oldest() == (7, 1, records("a", "b"))
    spool.delete(Key(1, 7, 1, 2))
    assert (spool.count, spool.used_bytes, spool.oldest()) == (0, 0, None)
    assert spool.append(records("c"))
    oldest = spool.oldest()
    assert oldest is not None
    assert oldest.records == records("c")
    assert oldest.first > 2  # no name is used twice


def test_a_spool_knows_when_its_oldest_record_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = int(time.time())
    spool = SqliteSpool(tmp_path / "spool", 7, 1 << 20)
    assert spool.oldest_at == 0
    spool.append(records("a"))
    spool.close()
    spool = SqliteSpool(tmp_path / "spool", 8, 1 << 20)
    assert before <= spool.oldest_at <= time.time()
    spool.delete(Key(1, 7, 1, 1))
    assert spool.oldest_at == 0
    monkeypatch.setattr(time, "time", lambda: 5.0)
    spool.append(records("b"))
    spool.append(records("c"))
    assert spool.oldest_at == 5


def test_a_spool_of_before_times_keeps_its_records(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "spool") as old:
        columns = "number integer primary key, life integer, sequence integer, kind text, body blob"
        old.execute(f"create table record ({columns}, unique (life, sequence))")
        old.execute("insert into record (life, sequence, kind, body) values (7, 1, 'test', x'61')")
    old.close()
    before = int(time.time())
    for life in (8, 9):
        spool = SqliteSpool(tmp_path / "spool", life, 1 << 20)
        assert spool.oldest() == (7, 1, records("a"))
        assert before <= spool.oldest_at <= time.time()
        assert spool.append(records("b"))
        spool.close()


def test_a_batch_has_one_life_and_no_gap(tmp_path: Path) -> None:
    first = SqliteSpool(tmp_path / "spool", 7, 1 << 20)
    first.append(records("a", "b", "c"))
    first.delete(Key(1, 7, 2, 1))
    first.close()
    second = SqliteSpool(tmp_path / "spool", 8, 1 << 20)
    second.append(records("d"))
    assert second.count == 3
    seen = []
    while (oldest := second.oldest()) is not None:
        seen.append(oldest)
        second.delete(Key(1, oldest.life, oldest.first, len(oldest.records)))
    assert seen == [(7, 1, records("a")), (7, 3, records("c")), (8, 1, records("d"))]


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    spool = SqliteSpool(tmp_path / "spool", 7, 1 << 26)
    spool.append(tuple(Record("test", bytes(1000)) for _ in range(2000)))
    oldest = spool.oldest()
    assert oldest is not None
    assert sum(each.cost_bytes for each in oldest.records) <= bounds.BATCH_BYTES_MAX
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o600


def test_what_was_accepted_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from subord.core.carriage.ledger.bodies import Record
from subord.runtime.ledger.spool import SqliteSpool
assert SqliteSpool(Path(sys.argv[1]), 7, 1 << 20).append((Record("test", b"a"),))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script, tmp_path / "spool"], check=False, timeout=60)
    oldest = SqliteSpool(tmp_path / "spool", 8, 1 << 20).oldest()
    assert oldest is not None
    assert oldest.records == records("a")


# -- sinks ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "sink") if request.param == "sqlite" else str(request.getfixturevalue("postgresql"))


def held(sink: Any) -> list[tuple[Any, ...]]:
    return sink._connection.execute(
        "select node, incarnation, sequence, kind, body from record order by 1, 2, 3"
    ).fetchall()


@pytest.mark.slow
def test_a_sink_has_each_name_once(place: str) -> None:
    rows = [Row("10.0.0.4", 1 << 41, each, "test", b"%d" % each) for each in range(1, 4)]
    sink = open_sink(place)
    sink.store(rows[:2])
    sink.store([*rows, rows[0]._replace(body=b"of another")])
    sink.store([rows[0]._replace(node="10.0.0.5")])
    sink.close()
    again = open_sink(place)
    assert held(again) == [*rows, rows[0]._replace(node="10.0.0.5")]
    again.close()


def test_a_database_of_before_versions_is_brought_up_and_keeps_its_records(place: str) -> None:
    row = Row("10.0.0.4", 7, 1, "test", b"a")
    sink = open_sink(place)
    sink.store([row])
    database = sink._connection  # type: ignore[attr-defined]
    database.execute("drop index record_by_time")
    if isinstance(database, sqlite3.Connection):
        database.execute("pragma user_version = 0")
        version = schema.version_of_sqlite
    else:
        database.execute("drop table subord_schema")
        version = schema.version_of_postgresql
    assert version(database) == 0
    for _ in range(2):  # two sinks of one server, one after the other
        again = open_sink(place)
        assert version(again._connection) == schema.VERSION  # type: ignore[attr-defined]
        again._connection.execute("drop index if exists record_by_time")  # type: ignore[attr-defined]
        assert row in held(again)
        again.close()
    sink.close()


def test_a_database_of_a_later_release_is_left_as_it_is(place: str) -> None:
    sink = open_sink(place)
    database = sink._connection  # type: ignore[attr-defined]
    is_file = isinstance(database, sqlite3.Connection)
    database.execute("pragma user_version = 99" if is_file else "insert into subord_schema values (99)")
    try:
        with pytest.raises(SinkError, match=r"schema 99 is of a later release .* nothing was changed"):
            open_sink(place)
    finally:
        database.execute(
            f"pragma user_version = {schema.VERSION}" if is_file else "delete from subord_schema where version = 99"
        )
        sink.close()


def test_sinks_that_open_one_server_at_once_both_can(postgresql: str) -> None:
    sink = open_sink(postgresql)
    sink._connection.execute("drop table record, subord_schema")  # type: ignore[attr-defined]
    sink.close()
    opened: list[Sink] = []
    threads = [threading.Thread(target=lambda: opened.append(open_sink(postgresql))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(opened) == 4
    for each in opened:
        each.close()


def test_a_sink_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="No such file"):
        open_sink(str(tmp_path / "absent" / "sink"))


def test_a_postgresql_that_is_not_there_says_why(postgresql: str, tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="socket"):
        open_sink(f"postgresql://subord@/postgres?host={tmp_path}")


# -- the keeper -----------------------------------------------------------------------------------------------


class Kept:
    """A keeper and what it tells the engine."""

    def __init__(self, directory: str, **config: Any) -> None:
        self.counters = Counters()
        self.keeper = LedgerKeeper(LedgerConfig(**config), directory, NETWORK, self.counters)
        self.keeper.part_of(StageTree(Stage({4: 0}), 4))
        self.told: list[Any] = []
        self.keeper.feed = self.told.append

    def do(self, action: Any) -> None:
        self.keeper.actions[type(action)](action)


async def test_records_are_accepted_read_and_deleted(tmp_path: Path, nursery: trio.Nursery) -> None:
    kept = Kept(str(tmp_path))
    nursery.start_soon(kept.keeper.run)
    await trio.testing.wait_all_tasks_blocked()
    assert kept.told == []  # there is no file of a spool
    assert await kept.keeper.append(records("a", "b")) == ""
    assert kept.told == [Spooled()]
    assert (kept.counters.records_accepted, kept.counters.spool_records) == (2, 2)
    kept.do(Take())
    await until(lambda: kept.told[1:] == [Taken(1, 1, records("a", "b"))], "the keeper told the engine")
    kept.do(Take(Key(4, 1, 1, 2)))
    await until(lambda: kept.told[2:] == [Taken()], "the keeper told the engine")
    assert (kept.counters.spool_records, kept.counters.spool_bytes) == (0, 0)


async def test_records_of_a_request_that_was_cancelled_are_read_too(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, may_end, append = Kept(str(tmp_path)), threading.Event(), SqliteSpool.append

    def slow(spool: SqliteSpool, given: tuple[Record, ...]) -> bool:
        began.set()
        return may_end.wait(10) and append(spool, given)

    began = threading.Event()
    monkeypatch.setattr(SqliteSpool, "append", slow)
    with trio.CancelScope() as scope:
        nursery.start_soon(kept.keeper.run)

        async def cancel() -> None:
            await until(began.is_set, "the thread has begun")
            scope.cancel()

        nursery.start_soon(cancel)
        await kept.keeper.append(records("a"))
    assert scope.cancelled_caught
    may_end.set()
    await until(lambda: kept.told == [Spooled()], "the keeper told the engine")
    assert (kept.counters.records_accepted, kept.counters.spool_records) == (1, 1)


async def test_a_new_process_continues_with_its_spool(tmp_path: Path, nursery: trio.Nursery) -> None:
    SqliteSpool(tmp_path / "spool.sqlite", 0, 1 << 20).append(records("a"))
    kept = Kept(str(tmp_path))
    nursery.start_soon(kept.keeper.run)
    await until(lambda: kept.told == [Spooled()], "the keeper told the engine")
    assert kept.counters.spool_records == 1


async def test_a_full_spool_refuses_and_is_counted(tmp_path: Path) -> None:
    kept = Kept(str(tmp_path), spool_bytes_max=65_536)
    large = tuple(Record("test", bytes(16_000)) for _ in range(4))
    assert await kept.keeper.append(large) == ""
    assert await kept.keeper.append(large) == FULL
    assert kept.counters.records_refused == 4


async def test_a_spool_that_cannot_be_opened_is_not_taken_for_an_empty_one(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    file = tmp_path / "spool.sqlite"
    file.write_text("no database " * 100)
    kept = Kept(str(tmp_path))
    assert kept.counters.spool_state == "keeps"
    nursery.start_soon(kept.keeper.run)
    await until(lambda: kept.counters.spool_state == "fails", "the spool fails")
    file.unlink()
    assert await kept.keeper.append(records("a")) == ""
    assert kept.counters.spool_state == "keeps"


async def test_without_a_directory_a_writer_is_told() -> None:
    assert await Kept("").keeper.append(records("a")) == NO_DIRECTORY


async def test_a_disk_that_fails_is_no_acknowledgement(tmp_path: Path, nursery: trio.Nursery) -> None:
    kept = Kept(str(tmp_path))
    nursery.start_soon(kept.keeper.run)
    await kept.keeper.append(records("a"))
    assert kept.keeper._spool is not None
    kept.keeper._spool.close()
    kept.do(Take(Key(4, 1, 1, 1)))
    await until(lambda: kept.told[1:] == [Taken(ok=False)], "the keeper told the engine")
    assert kept.counters.spool_state == "fails"
    assert "cannot be written" in await kept.keeper.append(records("b"))


async def test_a_sink_stores_what_waits_and_then_says_so(tmp_path: Path, nursery: trio.Nursery) -> None:
    kept = Kept("", sink=str(tmp_path / "sink"))
    nursery.start_soon(kept.keeper.run)
    await until(lambda: kept.told == [SinkIs(able=True)], "the keeper told the engine")
    keys = [Key(4, 1, first, 1) for first in (1, 2, 3)]
    for each in keys:
        kept.do(Store(each, records("a")))
    await until(lambda: kept.told[1:] == [StoreEnded(each) for each in keys], "the keeper told the engine")
    assert kept.counters.records_stored == 3
    with sqlite3.connect(tmp_path / "sink") as database:
        assert database.execute("select node, sequence from record").fetchall() == [
            ("10.0.0.4", n) for n in (1, 2, 3)
        ]


async def test_a_sink_that_fails_is_no_sink_until_it_is_opened_again(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subord.runtime.ledger.keeper.REOPEN_S", 0.01)
    kept = Kept("", sink=str(tmp_path / "sink"))
    nursery.start_soon(kept.keeper.run)
    await until(lambda: kept.told == [SinkIs(able=True)], "the keeper told the engine")

    def fail(_: Sink, rows: Any) -> None:
        raise SinkError("the disk is full")

    with monkeypatch.context() as failing:
        failing.setattr(SqliteSink, "store", fail)
        kept.do(Store(Key(4, 1, 1, 1), records("a")))
        await until(lambda: len(kept.told) >= 4, "the keeper told the engine")
    assert kept.told[1:4] == [StoreEnded(Key(4, 1, 1, 1), ok=False), SinkIs(able=False), SinkIs(able=True)]
    assert kept.counters.sink_state == "stores"


async def test_what_a_sink_says_of_itself(tmp_path: Path, nursery: trio.Nursery) -> None:
    for place, state in (("sink", "stores"), ("absent/sink", "fails")):
        kept = Kept("", sink=str(tmp_path / place))
        assert kept.counters.sink_state == ""
        nursery.start_soon(kept.keeper.run)
        await until(lambda kept=kept, state=state: kept.counters.sink_state == state, f"the sink {state}")
