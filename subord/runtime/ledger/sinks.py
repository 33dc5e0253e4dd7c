"""Where a sink stores records: a file of SQLite, or a database of PostgreSQL. Every call blocks.

Input are records with their names: the address of the node, its incarnation, and the sequence; a name that the
database has already is passed over. Invariant: what `store` was given is on the disk when it returns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


class Sink(Protocol):
    """A database of records."""

    def store(self, rows: Sequence[Row]) -> None:
        """All of them in one transaction. Raises SinkError: none is stored."""

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


class SqliteSink:
    """A file."""

    def __init__(self, path: Path) -> None:
        try:
            self._connection = opened(path)
            with _closing_on_failure(self._connection):
                schema.change_sqlite(self._connection)
        except (OSError, sqlite3.Error, schema.LaterError) as error:
            raise SinkError(f"{path}: {error}") from None

    def store(self, rows: Sequence[Row]) -> None:
        try:
            with self._connection:
                self._connection.execute("begin immediate")
                self._connection.executemany(SQLITE_INSERT, rows)
        except sqlite3.Error as error:
            raise SinkError(str(error)) from None

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

    def store(self, rows: Sequence[Row]) -> None:
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(POSTGRESQL_INSERT, rows)
        except self._error as error:
            raise SinkError(str(error).strip()) from None

    def close(self) -> None:
        self._connection.close()
