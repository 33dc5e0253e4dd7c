"""The schema of a database of records: its versions, and how one follows from the one before.

Input is a connection to a database; outputs are its version, and the changes that bring it to that of this release. A
file of SQLite has its version in `user_version`, a database of PostgreSQL in the table `subord_schema`; 0: one that
is empty, or of before versions. Invariants: a database of a later version is left as it is; changes are made whole or
not at all, and making them again changes nothing.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import psycopg


class LaterError(Exception):
    """The database is of a later release. The words say what to do."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"its schema {version} is of a later release than this one, which knows {VERSION}: nothing was changed; "
            "use the later release"
        )


class _Types(NamedTuple):
    blob: str
    now: str


_TABLE: Final = """
create table if not exists record (
  node text not null, incarnation bigint not null, sequence bigint not null, kind text not null, body {blob} not null,
  stored_at bigint not null default ({now}), primary key (node, incarnation, sequence)
)
"""
_BY_TIME: Final = "create index if not exists record_by_time on record (kind, stored_at)"
_SINKS: Final = "create table if not exists subord_sink (id text primary key, commits bigint not null)"
_MISSING: Final = """
create table if not exists subord_missing (
  node text not null, incarnation bigint not null, first_sequence bigint not null, last_sequence bigint not null,
  found_at bigint not null default ({now}), primary key (node, incarnation, first_sequence)
)
"""
CHANGES: Final = (_TABLE, _BY_TIME, _SINKS, _MISSING)
"""Each makes the next version."""
VERSION: Final = len(CHANGES)
_SQLITE: Final = _Types("blob", "cast(strftime('%s', 'now') as integer)")
_POSTGRESQL: Final = _Types("bytea", "extract(epoch from now())::bigint")
_LOCK: Final = 0x7375626F7264
"""Of PostgreSQL, for as long as a transaction changes the schema."""


def version_of_sqlite(connection: sqlite3.Connection) -> int:
    """Raises sqlite3.Error."""
    return int(connection.execute("pragma user_version").fetchone()[0])


def change_sqlite(connection: sqlite3.Connection) -> None:
    """Bring it to VERSION. The connection begins no transactions by itself. Raises sqlite3.Error, LaterError."""
    with connection:
        if _checked(version_of_sqlite(connection)) == VERSION:
            return
        connection.execute("begin immediate")
        for change in CHANGES[_checked(version_of_sqlite(connection)) :]:
            connection.execute(change.format(**_SQLITE._asdict()))
        connection.execute(f"pragma user_version = {VERSION}")


def version_of_postgresql(connection: psycopg.Connection[Any]) -> int:
    """Raises psycopg.Error."""
    has_table = connection.execute("select to_regclass('subord_schema')").fetchone()
    if has_table is None or has_table[0] is None:
        return 0
    found = connection.execute("select max(version) from subord_schema").fetchone()
    return int(found[0] or 0) if found else 0


def change_postgresql(connection: psycopg.Connection[Any]) -> None:
    """Bring it to VERSION. Raises psycopg.Error, LaterError."""
    with connection.transaction():
        if _checked(version_of_postgresql(connection)) == VERSION:
            return
        connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))  # another sink may do the same
        first = _checked(version_of_postgresql(connection))
        for change in CHANGES[first:]:
            connection.execute(change.format(**_POSTGRESQL._asdict()).encode())
        connection.execute("create table if not exists subord_schema (version integer primary key)")
        connection.execute("insert into subord_schema values (%s) on conflict do nothing", (VERSION,))


def _checked(version: int) -> int:
    """Raises LaterError."""
    if version > VERSION:
        raise LaterError(version)
    return version
