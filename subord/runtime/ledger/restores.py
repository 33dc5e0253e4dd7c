"""A sink that notices when its database was restored to an earlier state, or replaced by another.

Each transaction of a sink adds one to a count in the database (`subord_sink`), then to one in the state directory
(marks.py), and is acknowledged after both. Inputs are the two counts and the ranges of the marks. Outputs are a
sentence for the log, and the ranges that are missing, in the table `subord_missing`. Nodes delete what is
acknowledged, so these do not come back. Invariants: what is missing is in the table before further records are
stored; a database that is as this node left it gets no row there; no record is stored twice or deleted.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from subord.runtime.ledger import missing
from subord.runtime.ledger.marks import Mark, Marks
from subord.runtime.ledger.missing import Range
from subord.runtime.ledger.sinks import Row, Run, Sink, SinkError, Step, open_sink

MARKS_FILE: Final = "stored.sqlite"
NAMED_MAX: Final = 5
"""Ranges that one line of the log names."""
UNNOTICED: Final = "node.state_directory is not set, so this node would not notice a restore of ledger.sink"
LOOK: Final = "the table subord_missing has all (docs/accounting.md, After a restore)"
_LAST: Final = """
select max(sequence) from record where node = {} and incarnation = {} and sequence between {} and {}
"""
_BEGIN: Final = """
insert into subord_sink (id, commits) values ({}, {}) on conflict (id) do update set commits = excluded.commits
"""


def open_watched(place: str, directory: str) -> WatchedSink:
    """`directory`: of the state; "": restores are not noticed. Raises SinkError."""
    sink = open_sink(place)
    marks = None
    try:
        marks = _open_marks(directory) if directory else None
        return WatchedSink(sink, place, marks)
    except BaseException:
        sink.close()
        if marks is not None:
            marks.close()
        raise


def _open_marks(directory: str) -> Marks:
    path = Path(directory) / MARKS_FILE
    with _failing(path):
        return Marks(path)


@contextmanager
def _failing(path: object = MARKS_FILE) -> Iterator[None]:
    """Makes a SinkError of what the file of marks raises."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        words = f"what this sink has stored cannot be read or written in {path}: {error}"
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            words += "; delete this file, then a restore to a state of before now is not noticed"
        raise SinkError(words) from None


class WatchedSink:
    """`missing`: records that the database lacks since restores. `found`: a sentence on what opening it has found;
    "": nothing."""

    def __init__(self, sink: Sink, place: str, marks: Marks | None) -> None:
        self._lock = threading.Lock()
        self._sink = sink
        self._marks = marks
        self._mark = Mark("", "", 0, 0, 0)
        self.found = ""
        with sink.transaction() as run:
            if marks is not None:
                self._compare(run, marks, hashlib.sha256(place.encode(errors="surrogateescape")).hexdigest())
            self.missing = missing.count_missing(run)
        if marks is not None:
            with _failing():
                marks.begin(*self._mark[:3])
        if self.missing and not self.found:
            self.found = f"ledger.sink lacks {_count(self.missing, 'record')} since it was restored: {LOOK}"
        self.found = self.found or ("" if marks else UNNOTICED)

    def _compare(self, run: Run, marks: Marks, place: str) -> None:
        """The state of the database, and the one in which this node left it."""
        held = dict(run("select id, commits from subord_sink").fetchall())
        with _failing():
            mark = _mark_of(marks.all(), held, place)
            marks.begin(mark.id, place, mark.commits)  # a disk that is full changes no database
        commits = held.get(mark.id, 0)
        if commits < mark.commits:
            lost = missing.merged(_lost(run, marks, mark.id, commits))
            self.found = _sentence(run, mark, lost, commits)
            missing.write(run, lost)
        elif mark.commits and commits > mark.commits + 1:
            self.found = f"{MARKS_FILE} is older than ledger.sink: a restore to a state between may not be noticed"
        commits = max(commits, mark.commits) + 1
        run(_BEGIN, mark.id, commits)
        self._mark = mark._replace(place=place, commits=commits)

    def store(self, rows: Sequence[Row]) -> None:
        """All of them in one transaction. Raises SinkError: none may be acknowledged."""
        with self._lock:
            if self._marks is None:
                self._sink.store(rows)
                return
            mark = self._mark._replace(commits=self._mark.commits + 1)
            self._sink.store(rows, Step(mark.id, self._mark.commits, mark.commits))
            with _failing():
                self._marks.add(mark.id, rows, mark.commits)
            self._mark = mark

    def close(self) -> None:
        """After a transaction that another thread has begun."""
        with self._lock:
            self._sink.close()
            if self._marks is not None:
                self._marks.close()


def _mark_of(marks: Sequence[Mark], held: Mapping[str, int], place: str) -> Mark:
    """Of the database at this place, else of one that was moved here, else a new one."""
    new = Mark(secrets.token_hex(16), place, 0, 0, 0)
    here = next((each for each in marks if each.place == place), None)
    return here or next((each for each in marks if each.id in held), new)


def _lost(run: Run, marks: Marks, database: str, commits: int) -> Iterator[Range]:
    """A sink gets the records of one life in order, so a range lacks its last ones. Those that were deleted on
    purpose are the first ones."""
    with _failing():
        stored = marks.after(database, commits)
    for each in stored:
        last = run(_LAST, *each).fetchone()[0]
        if last != each.last:
            yield each._replace(first=each.first if last is None else last + 1)


def _sentence(run: Run, mark: Mark, lost: Sequence[Range], commits: int) -> str:
    """What the log says of a restore."""
    words = "ledger.sink was restored to an earlier state, or replaced"
    if not lost:
        return f"{words}; it has all records that this node has stored"
    (newest,) = run("select max(stored_at) from record").fetchone()
    since = "" if newest is None else f" after {_time(newest)}"
    named = "; ".join(map(str, lost[:NAMED_MAX])) + ("; ..." if len(lost) > NAMED_MAX else "")
    earlier = " and earlier ones, which this node does not know any more" if commits < mark.forgotten else ""
    count = _count(sum(each.records for each in lost), "record")
    nodes = _count(len({each.node for each in lost}), "node")
    return (
        f"{words}: it lacks {count} of {nodes} that this node has stored{since} and until "
        f"{_time(mark.at)}{earlier}. Their nodes have deleted them, so they do not come back: {named}. {LOOK}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    """Any number may stand in a database."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "a time that no calendar has"
