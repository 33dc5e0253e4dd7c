"""Where a sink stores records: a file of SQLite, or a database of PostgreSQL. Every call blocks.

Input are records with their names: the address of the node, its incarnation, and the sequence; a name that the
database has already is passed over. Invariants: what `store` was given is on the disk when it returns, in the
database that has this name then; nothing is stored in a database that is not in the state of the given step.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from subord.runtime.ledger import schema
from subord.runtime.ledger.spool import opened

if TYPE_CHECKING:
    import psycopg

POSTGRESQL: Final = ("postgresql://", "postgres://")
CONNECT_S_MAX: Final = 5
SQLITE_INSERT: Final = "insert or ignore into record (node, incarnation, sequence, kind, body) values (?,?,?,?,?)"
POSTGRESQL_INSERT: Final = b"""
insert into record (node, incarnation, sequence, kind, body) values (%s,%s,%s,%s,%s) on conflict do nothing
"""


class SinkError(Exception):
    """The database does not take records now. The words say why."""


class Row(NamedTuple):
    node: str
    incarnation: int
    sequence: int
    kind: str
    body: bytes


class Step(NamedTuple):
    """A transaction of one sink (restores.py): its count in the database goes from `before` to `after`."""

    sink: str
    before: int
    after: int


Run = Callable[..., Any]
"""A query in which {} are the places of values, and the values; returns a cursor."""


class Sink(Protocol):
    """A database of records."""

    def store(self, rows: Sequence[Row], step: Step | None = None) -> None:
        """All of them in one transaction. Raises SinkError: none is stored, or not in the database of this name."""

    def transaction(self) -> AbstractContextManager[Run]:
        """Raises SinkError: nothing is changed."""

    def close(self) -> None: ...


def open_sink(place: str) -> Sink:
    """`place`: a path, or a URL of PostgreSQL. Raises SinkError."""
    return PostgresqlSink(place) if place.startswith(POSTGRESQL) else SqliteSink(Path(place))


@contextmanager
def _closing_on_failure(connection: sqlite3.Connection | psycopg.Connection[Any]) -> Iterator[None]:
    """A sink that fails is opened again and again."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _advance(run: Run, step: Step | None) -> None:
    """Raises SinkError: the database is not in the state in which this sink left it."""
    if step is None:
        return
    query = "update subord_sink set commits = {} where id = {} and commits = {}"
    if run(query, step.after, step.sink, step.before).rowcount != 1:
        raise SinkError("the database is not in the state in which this node left it: it was restored or replaced")


class SqliteSink:
    """A file. One that is moved, or replaced by another, takes no more records."""

    def __init__(self, path: Path) -> None:
        try:
            self._path = path
            self._connection = opened(path)
            self._file = self._on_disk()
            with _closing_on_failure(self._connection):
                schema.change_sqlite(self._connection)
        except (OSError, sqlite3.Error, schema.LaterError) as error:
            raise SinkError(f"{path}: {error}") from None

    def _on_disk(self) -> tuple[int, int]:
        """What the path names. Raises OSError."""
        found = os.stat(self._path)
        return found.st_dev, found.st_ino

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        try:
            with self._connection:
                self._connection.execute("begin immediate")
                yield lambda query, *values: self._connection.execute(query.replace("{}", "?"), values)
        except sqlite3.Error as error:
            raise SinkError(str(error)) from None

    def store(self, rows: Sequence[Row], step: Step | None = None) -> None:
        with self.transaction() as run:
            self._connection.executemany(SQLITE_INSERT, rows)
            _advance(run, step)
        try:
            is_same = self._on_disk() == self._file
        except OSError:
            is_same = False
        if not is_same:
            self._leave_file()
            raise SinkError(f"{self._path} is no longer the file that was opened: it was moved or replaced")

    def _leave_file(self) -> None:
        """SQLite would take the log of the moved file for one of the new file, and write it there."""
        with suppress(sqlite3.Error):
            self._connection.execute("pragma wal_checkpoint(truncate)")

    def close(self) -> None:
        self._connection.close()


class PostgresqlSink:
    """A database on a server. Needs psycopg: the extra `postgresql` of the package."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg  # noqa: PLC0415 - an extra
        except ImportError:
            message = (
                "psycopg is not installed; install it: `pip install subord[postgresql]`, on Debian python3-psycopg"
            )
            raise SinkError(message) from None
        self._error: type[psycopg.Error] = psycopg.Error
        try:
            self._connection = psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_S_MAX)
            with _closing_on_failure(self._connection):
                schema.change_postgresql(self._connection)
        except (psycopg.Error, schema.LaterError) as error:
            raise SinkError(str(error).strip()) from None

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        try:
            with self._connection.transaction():
                yield lambda query, *values: self._connection.execute(query.replace("{}", "%s").encode(), values)
        except self._error as error:
            raise SinkError(str(error).strip()) from None

    def store(self, rows: Sequence[Row], step: Step | None = None) -> None:
        with self.transaction() as run:
            with self._connection.cursor() as cursor:
                cursor.executemany(POSTGRESQL_INSERT, rows)
            _advance(run, step)

    def close(self) -> None:
        self._connection.close()
