"""The records of the nodes that are added, serve, or are removed, on the disk of the queue's node.

Inputs are records and counters; outputs are those that were written last. Invariants: a change is made whole or not
at all, and is on the disk when its call returns; a file that is damaged, or of a later release, is left as it is.

All functions block. Calls must not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from subord.runtime.record_file import Layout, RecordFile
from subord.services.elastic.stages import Record

FOLDER: Final = "elastic"
FILE_NAME: Final = "nodes.db"
LAYOUT: Final = Layout(
    version=1,
    schema=(
        "create table node (name text primary key, body blob not null)",
        "create table counted (one integer primary key check (one = 1), body blob not null)",
    ),
    halted="no node is added or removed",
    restore="restore it from a copy; or end the nodes that this cluster has added, and move it away",
)


class Counters(NamedTuple):
    """How many nodes were `added`, `removed`, and `undone`: those removed that could not be added. `changed_at`: when
    nodes were last added or removed; -inf: never."""

    added: int = 0
    removed: int = 0
    undone: int = 0
    changed_at: float = -inf


class _Counted(msgspec.Struct, frozen=True):
    added: int
    removed: int
    undone: int
    changed_at: float | None


class Records:
    """The file `elastic/nodes.db` below the directory of the agent. Raises RecordsError, as each call."""

    def __init__(self, directory: str) -> None:
        self._file = RecordFile(Path(directory) / FOLDER / FILE_NAME, LAYOUT)

    @property
    def path(self) -> Path:
        return self._file.path

    def close(self) -> None:
        self._file.close()

    def all(self) -> dict[str, Record]:
        """By name."""
        found = {}
        with self._file.explained():
            for name, body in self._file.connection.execute("select name, body from node order by name"):
                found[name] = self._file.decoded(body, Record, f"of the node {name}")
        return found

    def counters(self) -> Counters:
        with self._file.explained():
            row = self._file.connection.execute("select body from counted").fetchone()
        if row is None:
            return Counters()
        found = self._file.decoded(row[0], _Counted, "with the counters")
        at = -inf if found.changed_at is None else found.changed_at
        return Counters(found.added, found.removed, found.undone, at)

    def put(self, *records: Record, counters: Counters | None = None) -> None:
        """All of them in one transaction."""
        self._change(records, (), counters)

    def drop(self, *names: str, counters: Counters | None = None) -> None:
        """Those that are not there are dropped already."""
        self._change((), names, counters)

    # -- parts ----------------------------------------------------------------------------------------------------

    def _change(self, put: Iterable[Record], drop: Iterable[str], counters: Counters | None) -> None:
        with self._file.change() as connection:
            connection.executemany(
                "insert or replace into node values (?, ?)",
                [(each.name, msgspec.json.encode(each)) for each in put],
            )
            connection.executemany("delete from node where name = ?", [(each,) for each in drop])
            if counters is not None:
                at = None if counters.changed_at == -inf else counters.changed_at
                body = msgspec.json.encode(_Counted(*counters[:3], at))
                connection.execute("insert or replace into counted values (1, ?)", (body,))
