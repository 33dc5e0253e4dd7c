"""The spool of this node: a file of SQLite in the state directory. Every call blocks on the disk.

Inputs are records of writers, and what sinks have stored; output is the next batch. What `append` has accepted is on
the disk (synchronous=FULL) and survives the process. Invariants: the bytes of the records never exceed their bound,
and no two records of one life have the same sequence.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from typing import Final

from subord.core.carriage.ledger import bounds
from subord.core.carriage.ledger.batching import fitting, has_room
from subord.core.carriage.ledger.bodies import Key, Record
from subord.core.carriage.ledger.interface import Oldest
from subord.core.view import Incarnation
from subord.runtime.state.whole import for_the_owner

BUSY_S_MAX: Final = 5.0  # a thread of the node before, in the same process, may still write
TABLE: Final = """
create table if not exists record (
  number integer primary key, life integer not null, sequence integer not null, kind text not null,
  body blob not null, at integer not null, unique (life, sequence)
)
"""
INSERT: Final = "insert into record (life, sequence, kind, body, at) values (?,?,?,?,?)"
MEASURE: Final = "select count(*), sum(? + length(cast(kind as blob)) + length(body)) from record"


def opened(path: Path) -> sqlite3.Connection:
    """A database of its owner alone, that any thread may use, one at a time. Raises OSError and sqlite3.Error."""
    open(path, "ab", opener=for_the_owner).close()
    connection = sqlite3.connect(path, timeout=BUSY_S_MAX, isolation_level=None, check_same_thread=False)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    return connection


class SqliteSpool:
    """A spool (core/carriage/ledger/interface.py). `life`: of this node. Raises OSError and sqlite3.Error."""

    def __init__(self, path: Path, life: Incarnation, bytes_max: int) -> None:
        self._lock = threading.Lock()
        self._life = life
        self._bytes_max = bytes_max
        self._connection = opened(path)
        self._connection.execute(TABLE)
        self._know_times()
        last = self._connection.execute("select max(sequence) from record where life = ?", (life,)).fetchone()[0]
        self._last = last or 0
        self.used_bytes, self.count = 0, 0
        self.oldest_at = 0.0
        """When the oldest record was written, since 1970; 0: there is none."""
        self._measure()

    def _know_times(self) -> None:
        """Earlier releases did not write when a record came; such a record counts from now on."""
        names = {row[1] for row in self._connection.execute("pragma table_info(record)")}
        if "at" not in names:
            self._connection.execute(f"alter table record add at integer not null default {int(time.time())}")

    def _measure(self) -> None:
        self.count, used = self._connection.execute(MEASURE, (bounds.RECORD_COST_BYTES,)).fetchone()
        self.used_bytes = used or 0
        found = self._connection.execute("select at from record order by number limit 1").fetchone()
        self.oldest_at = float(found[0]) if found else 0.0

    def append(self, records: tuple[Record, ...]) -> bool:
        """All of them, durably; False: there is no room for all, and none is kept."""
        with self._lock:
            if not has_room(self.used_bytes, self._bytes_max, records):
                return False
            first = self._last + 1
            self._last += len(records)  # also if the write fails: a sequence is never used twice
            now = int(time.time())
            rows = [(self._life, first + at, each.kind, each.body, now) for at, each in enumerate(records)]
            with self._connection:
                self._connection.execute("begin immediate")
                self._connection.executemany(INSERT, rows)
            self.count += len(records)
            self.used_bytes += sum(each.cost_bytes for each in records)
            self.oldest_at = self.oldest_at or float(now)
            return True

    def delete(self, key: Key) -> None:
        """Those that a sink has stored."""
        with self._lock:
            of = key.life, key.first, key.first + key.count - 1
            with self._connection:
                self._connection.execute("begin immediate")
                self._connection.execute("delete from record where life = ? and sequence between ? and ?", of)
            self._measure()

    def oldest(self) -> Oldest | None:
        """The next batch, within the bounds of one."""
        with self._lock:
            query = "select life, sequence, kind, body from record order by number limit ?"
            rows = self._connection.execute(query, (bounds.BATCH_RECORDS_MAX,)).fetchall()
        if not rows:
            return None
        life, first = rows[0][:2]
        run = [row for at, row in enumerate(rows) if row[:2] == (life, first + at)]
        records = tuple(Record(kind, body) for _, _, kind, body in run)
        return Oldest(life, first, records[: fitting(records)])

    def close(self) -> None:
        with self._lock:
            self._connection.close()
