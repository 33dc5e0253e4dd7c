"""A file of records on the disk of a node: one SQLite database of a service, below the directory of the agent.

Inputs are the schema, and what a service stops doing without its records; outputs are rows, and RecordsError, whose
text says what is unchanged and what to do. Invariants: a change is made whole or not at all, and is on the disk when
its call returns; a file that is damaged, or of a later release, is left as it is.

All functions block. Calls must not overlap.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from subord.core.decoding import UNREADABLE

WAIT_S: Final = 5.0
"""For another process that reads the file."""

Decoded = TypeVar("Decoded")


class RecordsError(Exception):
    """The records cannot be read or written. The text says what is unchanged, and what to do."""


class Layout(NamedTuple):
    """`version`: of `schema`, whose statements make the tables. `halted`: a clause, what does not happen without the
    records. `restore`: what to do about a file that is damaged."""

    version: int
    schema: tuple[str, ...]
    halted: str
    restore: str


class RecordFile:
    """Raises RecordsError, as each call."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path
        self._layout = layout
        with self.explained():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self.connection.close()
                raise

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        with self.explained(), self._transaction():
            yield self.connection

    def decoded(self, body: bytes, kind: type[Decoded], what: str) -> Decoded:
        """`what`: of which record, as "of the node a"."""
        try:
            return msgspec.json.decode(body, type=kind)
        except UNREADABLE as error:
            raise RecordsError(self._damaged(f"the record {what}: {error}")) from None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raises RecordsError for what goes wrong inside."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise RecordsError(
                f"{self.path} cannot be read or written: {error}; the records stay as they were: make room on the "
                "disk, and see that the directory is of the user of the agent"
            ) from None
        except sqlite3.Error as error:
            raise RecordsError(self._damaged(str(error))) from None
        except OSError as error:
            raise RecordsError(
                f"{self.path} cannot be made: {error.strerror or error}; {self._layout.halted}: make room on the "
                "disk, or correct agent.state_directory"
            ) from None

    # -- parts ----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self.connection.execute("pragma synchronous = full")
        with self._transaction():
            version = self.connection.execute("pragma user_version").fetchone()[0]
            if version > self._layout.version:
                raise RecordsError(
                    f"{self.path} is of a later release, with schema {version}; nothing was changed, and "
                    f"{self._layout.halted}: use the later release"
                )
            if version == 0:
                for each in (*self._layout.schema, f"pragma user_version = {self._layout.version}"):
                    self.connection.execute(each)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("begin immediate")
        try:
            yield
            self.connection.execute("commit")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            raise

    def _damaged(self, detail: str) -> str:
        layout = self._layout
        return f"{self.path} is damaged: {detail}; nothing was deleted, and {layout.halted}: {layout.restore}"
