"""What this node as a sink has stored: names of records and a count of transactions, in a file outside the database.

Inputs are the records that a transaction has stored; outputs are the ranges that transactions after a given one have
stored. Every call blocks on the disk. Invariants: what a sink has acknowledged is in the file, unless it is one of
ranges that were forgotten; at most RANGES_MAX ranges of a database are kept, those of the last transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from subord.runtime.ledger.missing import Range
from subord.runtime.ledger.sinks import Row
from subord.runtime.ledger.spool import opened

RANGES_MAX: Final = 100_000
"""A life of a node has one range, and one more each time that another sink has taken its records meanwhile."""
_DATABASES: Final = """
create table if not exists database (
  id text primary key, place text not null, commits integer not null, forgotten integer not null, at integer not null
)
"""
_STORED: Final = """
create table if not exists stored (
  id text not null, node text not null, incarnation integer not null, first integer not null, last integer not null,
  commits integer not null, primary key (id, node, incarnation, first)
)
"""
_BY_COMMITS: Final = "create index if not exists stored_by_commits on stored (id, commits)"
_BEGIN: Final = """
insert into database values (:id, :place, :commits, 0, :at)
on conflict (id) do update set place = :place, commits = :commits, at = :at
"""
_BEFORE: Final = """
select first, last from stored where id = ? and node = ? and incarnation = ? and first <= ?
order by first desc limit 1
"""
_WRITE: Final = """
insert into stored values (?, ?, ?, ?, ?, ?)
on conflict (id, node, incarnation, first) do update set last = max(last, excluded.last), commits = excluded.commits
"""
_COUNT: Final = "select count(*) from stored where id = ?"
_OLDEST: Final = "select rowid, commits from stored where id = ? order by commits limit ?"
_FORGOTTEN: Final = "update database set forgotten = max(forgotten, ?) where id = ?"


class Mark(NamedTuple):
    """A database, as this node left it. `place`: where it was. `commits`: the count of its transactions. `forgotten`:
    the last of which not all ranges are known. `at`: when it was last written, since 1970."""

    id: str
    place: str
    commits: int
    forgotten: int
    at: int


class Marks:
    """Of one node. Raises OSError and sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        self._connection = opened(path)
        for each in (_DATABASES, _STORED, _BY_COMMITS):
            self._connection.execute(each)
        self._ranges = 0  # of the database that is used

    def all(self) -> list[Mark]:
        """The databases that this node has used, the last first."""
        rows = self._connection.execute("select id, place, commits, forgotten, at from database order by at desc")
        return [Mark._make(row) for row in rows]

    def begin(self, database: str, place: str, commits: int) -> None:
        """It is used now."""
        words = {"id": database, "place": place, "commits": commits, "at": int(time.time())}
        with self._connection:
            self._connection.execute("begin immediate")
            self._connection.execute(_BEGIN, words)
        self._ranges = int(self._connection.execute(_COUNT, (database,)).fetchone()[0])

    def add(self, database: str, rows: Sequence[Row], commits: int) -> None:
        """A transaction of the database that is used has stored these."""
        with self._connection:
            self._connection.execute("begin immediate")
            new = sum(self._add_range(database, each, commits) for each in _runs(rows))
            forgotten = self._forget(database, self._ranges + new - RANGES_MAX)
            query = "update database set commits = ?, at = ? where id = ?"
            self._connection.execute(query, (commits, int(time.time()), database))
        self._ranges += new - forgotten

    def _add_range(self, database: str, run: Range, commits: int) -> bool:
        """Whether it is a new one, and not more of the one before."""
        before = self._connection.execute(_BEFORE, (database, *run[:3])).fetchone()
        is_new = before is None or before[1] + 1 < run.first
        first = run.first if is_new else before[0]
        self._connection.execute(_WRITE, (database, run.node, run.incarnation, first, run.last, commits))
        return is_new

    def _forget(self, database: str, number: int) -> int:
        """Those of the oldest transactions. Returns how many."""
        rows = self._connection.execute(_OLDEST, (database, number)).fetchall() if number > 0 else []
        for rowid, commits in rows:
            self._connection.execute("delete from stored where rowid = ?", (rowid,))
            self._connection.execute(_FORGOTTEN, (commits, database))
        return len(rows)

    def after(self, database: str, commits: int) -> list[Range]:
        """What transactions after this one have stored, and what came before in the same ranges."""
        query = "select node, incarnation, first, last from stored where id = ? and commits > ?"
        return [Range._make(row) for row in self._connection.execute(query, (database, commits))]

    def close(self) -> None:
        self._connection.close()


def _runs(rows: Sequence[Row]) -> Iterator[Range]:
    """The names of records as ranges."""
    found: Range | None = None
    for each in rows:
        if found is not None and found[:2] == each[:2] and each.sequence == found.last + 1:
            found = found._replace(last=each.sequence)
            continue
        if found is not None:
            yield found
        found = Range(each.node, each.incarnation, each.sequence, each.sequence)
    if found is not None:
        yield found
