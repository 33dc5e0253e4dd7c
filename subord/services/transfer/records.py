"""The records of jobs that cross, of both sides, on the disk of the transfer host.

Inputs are the changes of the two cores; outputs are what was written last, and a life that no earlier process had.
Invariants: a change is made whole or not at all, and is on the disk when its call returns; each is counted, so that
an older copy of the file is known as such by what the other cluster has heard of it; a file that is damaged, or of a
later release, is left as it is; records of other names than those of the plan are gone on with only by a plan that
has their names. A process ends when a write fails, since its cores are ahead of the disk.

All functions block. Calls must not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from subord.runtime.record_file import Decoded, Layout, RecordFile
from subord.services.transfer import away, home
from subord.services.transfer.jobs import Key
from subord.services.transfer.states import AwayRecord, HomeRecord

FOLDER: Final = "transfer"
FILE_NAME: Final = "jobs.db"
LAYOUT: Final = Layout(
    version=1,
    schema=(
        "create table home (mark text primary key, body blob not null) without rowid",
        "create table away (mark text primary key, body blob not null) without rowid",
        "create table kept (one integer primary key check (one = 1), body blob not null)",
    ),
    halted="no job crosses",
    restore=(
        "restore it from a copy, even an old one: jobs that it does not know are looked for in the batch system"
    ),
)


class Begun(NamedTuple):
    """`life`: of this process, above that of every earlier one that the file knows."""

    life: int
    home: home.Kept
    away: away.Kept


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """`cluster`, `peer`: the names in the plan that was followed last; "": none was."""

    cluster: str = ""
    peer: str = ""
    life: int = 0
    written: int = 0
    peer_life: int = 0
    peer_written: int = 0
    restored_life: int = 0


class Records:
    """The file `transfer/jobs.db` below the directory of the agent. Raises RecordsError, as each call."""

    def __init__(self, directory: str) -> None:
        self._file = RecordFile(Path(directory) / FOLDER / FILE_NAME, LAYOUT)
        try:
            self._meta = self._read_meta()
        except BaseException:
            self._file.close()
            raise

    @property
    def path(self) -> Path:
        return self._file.path

    def close(self) -> None:
        self._file.close()

    def rename(self, cluster: str, peer: str) -> str:
        """A plan with these names is to be followed. Why it cannot be, "": it can. The keys of jobs have the name of
        their cluster, and another peer knows nothing of them, so those that are not over would run twice. What is
        over is dropped, since the peer that had to hear of it is not there any more."""
        before = self._meta
        if (cluster, peer) == (before.cluster, before.peer):
            return ""
        renamed = msgspec.structs.replace(before, cluster=cluster, peer=peer)
        if not before.peer:
            self._change({}, {}, renamed)
            return ""
        of_home = list(self._all("home", HomeRecord))
        of_away = [each for each in self._all("away", AwayRecord) if each.key.cluster != peer]
        under_way = sum(not each.is_over for each in of_home) + sum(each.is_live for each in of_away)
        if under_way:
            return (
                f"the plan has other names, and jobs that left or came by the one before are not over ({under_way}): "
                f'publish one with cluster = "{before.cluster}" and the peer "{before.peer}", without queues and '
                "with slots_max = 0, until `subord transfer status` shows no job on its way"
            )
        if peer != before.peer:
            renamed = msgspec.structs.replace(renamed, peer_life=0, peer_written=0)
        self._change(
            dict.fromkeys(each.key for each in of_home), dict.fromkeys(each.key for each in of_away), renamed
        )
        return ""

    def begin(self, at_ms: int) -> Begun:
        """A process starts, at this time of its clock."""
        meta = msgspec.structs.replace(self._meta, life=max(at_ms, self._meta.life + 1))
        self._change({}, {}, meta)
        return Begun(
            meta.life,
            home.Kept(tuple(self._all("home", HomeRecord)), meta.peer_life, meta.peer_written),
            away.Kept(tuple(self._all("away", AwayRecord)), meta.written, meta.restored_life),
        )

    def write(self, of_home: home.Changes, of_away: away.Changes) -> int:
        """Both in one transaction. How often it was written, now."""
        is_empty = not of_home.records and of_home.peer is None
        if is_empty and not of_away.records and of_away.restored_life is None:
            return self._meta.written
        peer_life, peer_written = of_home.peer or (self._meta.peer_life, self._meta.peer_written)
        restored = self._meta.restored_life if of_away.restored_life is None else of_away.restored_life
        meta = msgspec.structs.replace(
            self._meta,
            written=self._meta.written + 1,
            peer_life=peer_life,
            peer_written=peer_written,
            restored_life=restored,
        )
        self._change(of_home.records, of_away.records, meta)
        return meta.written

    # -- parts ----------------------------------------------------------------------------------------------------

    def _change(
        self, of_home: Mapping[Key, HomeRecord | None], of_away: Mapping[Key, AwayRecord | None], meta: Meta
    ) -> None:
        with self._file.change() as connection:
            for table, changes in (("home", of_home), ("away", of_away)):
                kept = [(key.mark, msgspec.json.encode(each)) for key, each in changes.items() if each is not None]
                connection.executemany(f"insert or replace into {table} values (?, ?)", kept)  # noqa: S608
                gone = [(key.mark,) for key, each in changes.items() if each is None]
                connection.executemany(f"delete from {table} where mark = ?", gone)  # noqa: S608
            connection.execute("insert or replace into kept values (1, ?)", (msgspec.json.encode(meta),))
        self._meta = meta

    def _all(self, table: str, kind: type[Decoded]) -> Iterator[Decoded]:
        with self._file.explained():
            for mark, body in self._file.connection.execute(f"select mark, body from {table} order by mark"):  # noqa: S608
                yield self._file.decoded(body, kind, f"of the job {mark}")

    def _read_meta(self) -> Meta:
        with self._file.explained():
            row = self._file.connection.execute("select body from kept").fetchone()
        return Meta() if row is None else self._file.decoded(row[0], Meta, "of the process")
