"""Reads the records of a sink from its database: a file of SQLite, or a database of PostgreSQL.

Inputs are the place of a database, the kind of records, and the time from which on they were stored; outputs are
records with their names, and the newest of the database. Every call blocks. Invariants: the connection is read-only;
a failure is a CommandError that names the database, whose fault it is, and what to do.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.text import printable
from subord.runtime.ledger import schema
from subord.runtime.ledger.missing import Range
from subord.runtime.ledger.sinks import CONNECT_S_MAX, POSTGRESQL

if TYPE_CHECKING:
    import psycopg

BUSY_S_MAX: Final = 5.0
ROWS: Final = 2_000
"""That a server sends at once."""
UNCHANGED: Final = "nothing was changed"
_COLUMNS: Final = "select node, incarnation, sequence, body, stored_at from record"
_TYPES: Final = (str, int, int, bytes, int)
_MISSING: Final = "select node, incarnation, first_sequence, last_sequence from subord_missing"
_MISSING_SINCE: Final = 4
"""The version of the schema that has the table."""
_PRESENT: Final = (
    "select sequence from record where node = {0} and incarnation = {0} and sequence between {0} and {0}"
)
_NEWEST: Final = "select stored_at, node from record where kind = {} order by stored_at desc limit 1"


class Stored(NamedTuple):
    """A record. The first three are its name."""

    node: str
    incarnation: int
    sequence: int
    body: bytes
    stored_at: int

    @property
    def name(self) -> tuple[str, int, int]:
        return self[:3]


class Newest(NamedTuple):
    """The record that was stored last. `stored_at`: since 1970."""

    stored_at: int
    node: str


class Database(Protocol):
    """A database of records, open for reading."""

    place: str

    def newest(self, kind: str) -> Newest | None:
        """None: it has none of this kind."""

    def records(self, kind: str, since: float, *, in_order: bool) -> Iterator[Stored]:
        """Those that were stored then or later. `in_order`: in the order of their names."""

    def missing(self) -> list[Range] | None:
        """What it lacks since it was restored; None: this user may not know."""

    def present(self, names: Range) -> Iterator[int]:
        """The sequences of these that it has, in their order."""


@contextmanager
def opened(place: str) -> Iterator[Database]:
    """`place`: a path, or a URL of PostgreSQL. Raises CommandError."""
    if place.startswith(POSTGRESQL):
        with _opened_postgresql(place) as found:
            yield found
    else:
        with _opened_sqlite(place) as found:
            yield found


def shown(place: str) -> str:
    """A URL without a password."""
    if not place.startswith(POSTGRESQL):
        return place
    try:
        parts = urlsplit(place)
        user, at, host = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}", query="").geturl()
    except ValueError:
        return "a URL of PostgreSQL"


def _check(place: str, version: int) -> None:
    """Raises CommandError."""
    if version > schema.VERSION:
        raise CommandError(f"{shown(place)}: {schema.LaterError(version)}", exit_codes.CONFIGURATION)


# -- SQLite -----------------------------------------------------------------------------------------------------


class _Sqlite:
    def __init__(self, place: str, connection: sqlite3.Connection) -> None:
        self.place = place
        self._connection = connection

    def newest(self, kind: str) -> Newest | None:
        with _failing_sqlite(self.place):
            found = self._connection.execute(_NEWEST.format("?"), (kind,)).fetchone()
        return Newest(*self._checked(found, (int, str))) if found else None

    def records(self, kind: str, since: float, *, in_order: bool) -> Iterator[Stored]:
        order = " order by node, incarnation, sequence" if in_order else ""
        query = f"{_COLUMNS} where kind = ? and stored_at >= ?{order}"
        with _failing_sqlite(self.place):
            for row in self._connection.execute(query, (kind, since)):
                yield Stored._make(self._checked(row, _TYPES))

    def missing(self) -> list[Range] | None:
        with _failing_sqlite(self.place):
            if schema.version_of_sqlite(self._connection) < _MISSING_SINCE:
                return []
            rows = self._connection.execute(_MISSING).fetchall()
        return [Range._make(self._checked(row, (str, int, int, int))) for row in rows]

    def present(self, names: Range) -> Iterator[int]:
        with _failing_sqlite(self.place):
            for (sequence,) in self._connection.execute(f"{_PRESENT.format('?')} order by 1", names):
                yield sequence

    def _checked(self, row: tuple[Any, ...], types: tuple[type, ...]) -> tuple[Any, ...]:
        """A column of SQLite takes values of any type. Raises CommandError."""
        if tuple(map(type, row)) != types:
            words = f"{self.place} has a row that no sink has written: its columns have other types; {UNCHANGED}"
            raise CommandError(words, exit_codes.USAGE)
        return row


@contextmanager
def _opened_sqlite(place: str) -> Iterator[Database]:
    _check_file(place)
    with _failing_sqlite(place):
        uri = f"file:{quote(os.fsencode(os.path.abspath(place)))}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S_MAX, isolation_level=None)
    with closing(connection):
        with _failing_sqlite(place):
            _check(place, schema.version_of_sqlite(connection))
            connection.execute("begin")  # one state of the database for all that follows
            connection.execute(f"{_COLUMNS} limit 0")
        yield _Sqlite(place, connection)


def _check_file(place: str) -> None:
    """Raises CommandError."""
    try:
        is_file = stat.S_ISREG(os.stat(place).st_mode)
    except PermissionError as error:
        raise _not_readable(place, error.strerror) from None
    except OSError:
        is_file = False
    if not is_file:
        words = f"there is no database {place!r}: run this on a sink, and name the file of its ledger.sink"
        raise CommandError(f"{words}; {UNCHANGED}", exit_codes.USAGE)


def _not_readable(place: str, reason: object) -> CommandError:
    words = f"{place} cannot be read ({reason}): use sudo, or the user of the daemon; {UNCHANGED}"
    return CommandError(words, exit_codes.PERMISSION)


@contextmanager
def _failing_sqlite(place: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _of_sqlite(place, error) from None


def _of_sqlite(place: str, fault: sqlite3.Error) -> CommandError:
    error = printable(str(fault))  # it may name what is in the file
    code = getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        words = f"another program has locked {place} for {BUSY_S_MAX:g} s; {UNCHANGED}; try again"
        return CommandError(words, exit_codes.TRY_AGAIN)
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        words = f"{place} is no database, or damaged ({error}): name the file of a sink; {UNCHANGED}"
        return CommandError(words, exit_codes.USAGE)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH):
        return _not_readable(place, error)
    if "no such table" in error or "no such column" in error:
        words = f"{place} is no database of a sink ({error}): name the file of a sink; {UNCHANGED}"
        return CommandError(words, exit_codes.USAGE)
    return CommandError(f"{place} cannot be read: {error}; {UNCHANGED}", exit_codes.TRY_AGAIN)


# -- PostgreSQL -------------------------------------------------------------------------------------------------


class _Postgresql:
    def __init__(self, place: str, connection: psycopg.Connection[Any]) -> None:
        self.place = shown(place)
        self._connection = connection

    def newest(self, kind: str) -> Newest | None:
        with _failing_postgresql(self.place):
            found = self._connection.execute(_NEWEST.format("%s").encode(), (kind,)).fetchone()
        return Newest(*found) if found else None

    def records(self, kind: str, since: float, *, in_order: bool) -> Iterator[Stored]:
        order = ' order by node collate "C", incarnation, sequence' if in_order else ""  # as Python compares
        query = f"{_COLUMNS} where kind = %s and stored_at >= %s{order}".encode()
        with _failing_postgresql(self.place), self._connection.cursor("records", binary=True) as cursor:
            cursor.itersize = ROWS
            cursor.execute(query, (kind, int(since)))
            yield from map(Stored._make, cursor)

    def missing(self) -> list[Range] | None:
        with _failing_postgresql(self.place):
            if schema.version_of_postgresql(self._connection) < _MISSING_SINCE:
                return []
            may = self._connection.execute(b"select has_table_privilege('subord_missing', 'select')").fetchone()
            if may is None or not may[0]:
                return None
            return list(map(Range._make, self._connection.execute(_MISSING.encode()).fetchall()))

    def present(self, names: Range) -> Iterator[int]:
        query = f"{_PRESENT.format('%s')} order by 1".encode()
        with _failing_postgresql(self.place), self._connection.cursor("present", binary=True) as cursor:
            cursor.itersize = ROWS
            for (sequence,) in cursor.execute(query, names):
                yield sequence


@contextmanager
def _opened_postgresql(place: str) -> Iterator[Database]:
    try:
        import psycopg
    except ImportError:
        words = "psycopg is not installed; install it: `pip install subord[postgresql]`, on Debian python3-psycopg"
        raise CommandError(f"{words}; {UNCHANGED}", exit_codes.CONFIGURATION) from None
    with _failing_postgresql(shown(place)):
        connection = psycopg.connect(place, connect_timeout=CONNECT_S_MAX)
    with closing(connection):
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # one state for all that follows
        with _failing_postgresql(shown(place)):
            _check(place, schema.version_of_postgresql(connection))
            connection.execute(f"{_COLUMNS} limit 0".encode())
        yield _Postgresql(place, connection)


@contextmanager
def _failing_postgresql(place: str) -> Iterator[None]:
    import psycopg

    try:
        yield
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        words = f"{place} is no database of a sink ({error.diag.message_primary}): name that of a sink; {UNCHANGED}"
        raise CommandError(words, exit_codes.USAGE) from None
    except psycopg.errors.InsufficientPrivilege as error:
        words = f"{place} cannot be read ({error.diag.message_primary}): grant select on the tables record, "
        raise CommandError(f"{words}subord_schema and subord_missing; {UNCHANGED}", exit_codes.PERMISSION) from None
    except psycopg.Error as error:
        if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:  # its words have the password
            words = f"{place} is no URL of PostgreSQL: write postgresql://USER@HOST/DATABASE; {UNCHANGED}"
            raise CommandError(words, exit_codes.USAGE) from None
        why = printable(" ".join(str(error).split()))
        words = f"{place} does not answer: {why}; {UNCHANGED}; check that the server runs, and try again"
        raise CommandError(words, exit_codes.TRY_AGAIN) from None
