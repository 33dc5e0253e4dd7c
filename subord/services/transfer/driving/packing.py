"""Files of jobs of this cluster: packed before a job is sent, and its results unpacked before its end is told.

Inputs are records of the home side, and archives of the other cluster; outputs are archives for it, files of users,
and calls of the home side. Invariants: files of one working directory are packed or unpacked by one task at a time;
the end of a job is told, whatever becomes of its results.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import trio

from subord.core.carriage.blobs.manifests import name_of
from subord.runtime.log.formats import printable
from subord.services.transfer.data.archive import demand_tame
from subord.services.transfer.data.fetching import Fetching
from subord.services.transfer.data.listing import (
    CHANGED,
    DISK,
    Entries,
    Entry,
    FilesError,
    demand_sendable,
    paths_in,
    size_of,
)
from subord.services.transfer.data.spool import FETCHED, PACKED, DiskUse, Spool, disk_fault
from subord.services.transfer.data.talk import Kind, Took
from subord.services.transfer.data.user import UserFiles
from subord.services.transfer.driving.file_faults import FileFaults
from subord.services.transfer.driving.waking import Wake
from subord.services.transfer.driving.writing import Sides
from subord.services.transfer.exchange import Stage
from subord.services.transfer.jobs import Files, Key, archive_bytes_max
from subord.services.transfer.mapping import Stays
from subord.services.transfer.states import HomeRecord, HomeState

logger = logging.getLogger("subord")
LOOK_S: Final = 1.0
AT_ONCE: Final = 4
"""Jobs whose files are packed or brought."""
SPOOLED: Final = 4
"""While so many times what one job may bring along is on the disk, further jobs wait."""
TRIES: Final = 3
"""Of a directory whose files change while they are packed."""
AGAIN_S: Final = 1.0
ROOM_TRIES: Final = 5
"""Of results for which a disk has no room."""
ROOM_S: Final = 30.0


class Waiting(NamedTuple):
    """`until`: by the clock of trio."""

    tries: int
    until: float


class Packing:
    """`faults`: jobs whose files have not crossed. `disk_use`: when it was looked at last."""

    def __init__(
        self, sides: Sides, spool: Spool, users: UserFiles, fetching: Fetching, attend: Callable[[], None]
    ) -> None:
        self.faults = FileFaults()
        self.disk_use: DiskUse | None = None
        self._sides = sides
        self._spool = spool
        self._users = users
        self._fetching = fetching
        self._attend = attend
        self._wake = Wake()
        self._busy = set[Key]()
        self._fault = ""
        self._directories = dict[str, int]()
        self._turns = dict[str, trio.Lock]()
        self._waiting = dict[Key, Waiting]()
        """Results for which there was no room."""

    async def run(self) -> None:
        """Until it is cancelled. Raises RecordsError."""
        async with trio.open_nursery() as nursery:
            while True:
                home = self._sides.home
                may_pack = home.sending.is_synced and home.sending.files_bytes_max and self._has_room()
                jobs = [(each, self._pack) for each in home.to_pack()] if may_pack else []
                for record, do in [
                    *jobs,
                    *((each, self._bring) for each in home.to_bring() if self._may_bring(each)),
                ]:
                    if record.key not in self._busy and len(self._busy) < AT_ONCE:
                        self._busy.add(record.key)
                        nursery.start_soon(self._one, record, do)
                await self._tidied()
                await self._wake.wait(LOOK_S)

    async def _one(self, record: HomeRecord, do: Callable[[HomeRecord], Awaitable[None]]) -> None:
        try:
            await do(record)
            await self._sides.commit()
        finally:
            self._busy.discard(record.key)
        self._attend()

    def _has_room(self) -> bool:
        """For one more archive."""
        home = self._sides.home
        waiting = (each for each in home.desk.records.values() if _has_archive(each) and each.spec is not None)
        packed = sum(each.spec.files.size for each in waiting if each.spec and each.spec.files)
        return packed < SPOOLED * home.plan.files_bytes_max

    def _needed(self) -> set[Key]:
        """Jobs whose archives are still wanted."""
        records = self._sides.home.desk.records
        return self._busy | {each.key for each in records.values() if _has_archive(each)}

    async def _tidied(self) -> None:
        try:
            await trio.to_thread.run_sync(self._tidy, self._needed())
        except OSError as error:
            self._complain(printable(str(disk_fault(error))))
        else:
            self._complain("")

    def waiting(self) -> dict[str, int]:
        """What is to cross, as runtime/transfer/state.py has it."""
        records = self._sides.home.desk.records.values()
        packed = [
            each.spec.files for each in records if _has_archive(each) and not each.brings and each.spec is not None
        ]
        files = [each for each in packed if each is not None and each.name]
        return {
            "jobs": len(files),
            "files": sum(each.count for each in files),
            "bytes": sum(each.size for each in files),
            "results": sum(bool(each.brings) for each in records),
        }

    def _complain(self, fault: str) -> None:
        """Once about each."""
        if fault and fault != self._fault:
            logger.warning("transfer: archives are not removed: %s", fault)
        self._fault = fault

    def _tidy(self, needed: set[Key]) -> None:
        cluster = self._sides.home.plan.cluster
        for kind in (PACKED, FETCHED):
            for key in list(self._spool.keys(kind)):
                if key.cluster == cluster and key not in needed:
                    self._spool.remove(key, kind)
        self.disk_use = self._spool.disk_use()

    # -- before a job leaves ----------------------------------------------------------------------------------------

    async def _pack(self, record: HomeRecord) -> None:
        home = self._sides.home
        try:
            home.packed(record.key, await self._packed(record))
        except FilesError as error:
            self._failed(record.key, "its files stay", error)
            home.packed(record.key, Stays(f"its files cannot be brought along: {printable(str(error))}"))

    async def _packed(self, record: HomeRecord) -> Files:
        """Raises FilesError."""
        spec, plan = record.spec, self._sides.home.plan
        assert spec is not None
        await self._users.demand_user(spec.user)
        paths = paths_in(spec.environment)
        bytes_max = min(plan.files_bytes_max, self._sides.home.sending.files_bytes_max)
        for tries_left in reversed(range(TRIES)):
            try:
                async with self._alone(spec.directory):
                    found = dict[bytes, Entry]()
                    if paths is None or paths:
                        found = await self._users.listed(spec.user, spec.directory, paths or (), plan.files_max)
                    demand_sendable(found, bytes_max, plan.files_max)
                    return await self._spooled(record.key, spec.user, spec.directory, found, bytes_max)
            except FilesError as error:
                if error.cause != CHANGED or not tries_left:
                    raise
                await trio.sleep(AGAIN_S)
        raise AssertionError

    async def _spooled(self, key: Key, user: str, directory: str, found: Entries, bytes_max: int) -> Files:
        """Raises FilesError."""
        most, size = archive_bytes_max(bytes_max, len(found)), size_of(found)
        try:
            with self._spool.opened(key, PACKED, size) as file:
                await self._users.pack(user, directory, found, file, most)
                listed = await trio.to_thread.run_sync(self._spool.seal, key, PACKED)
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise disk_fault(error) from None
        return Files(name=name_of(listed).hex(), size=size, count=len(found))

    # -- behind its end ---------------------------------------------------------------------------------------------

    async def _bring(self, record: HomeRecord) -> None:
        key, plan = record.key, self._sides.home.plan
        try:
            got = await self._fetching.fetch(
                key, Kind.RESULTS, archive_bytes_max(plan.files_bytes_max, plan.files_max)
            )
            if not got.is_nothing:
                await self._unpacked(record)
        except FilesError as error:
            self._failed(key, "its results have not come", error)
            if self._is_tried_again(key, error):
                return
            await self._fetching.tell(Took(key, is_kept=True))
            reason = f"its results are not in {record.brings}, and are kept in the other cluster: {error}"
            self._sides.home.brought(key, printable(reason))
            return
        self._waiting.pop(key, None)
        await self._fetching.tell(Took(key, is_kept=False))
        self._sides.home.brought(key, printable(got.remark))

    def _may_bring(self, record: HomeRecord) -> bool:
        waiting = self._waiting.get(record.key)
        return waiting is None or trio.current_time() >= waiting.until

    def _is_tried_again(self, key: Key, error: FilesError) -> bool:
        """In a while: there was no room for them."""
        before = self._waiting.pop(key, Waiting(0, 0.0))
        if error.cause != DISK or before.tries + 1 >= ROOM_TRIES:
            return False
        self._waiting[key] = Waiting(before.tries + 1, trio.current_time() + ROOM_S)
        return True

    async def _unpacked(self, record: HomeRecord) -> None:
        """Raises FilesError."""
        plan = self._sides.home.plan
        await self._users.demand_user(record.user)
        try:
            with self._spool.path(record.key, FETCHED).open("rb") as file:
                into = await trio.to_thread.run_sync(demand_tame, file, plan.files_bytes_max, plan.files_max)
                async with self._alone(record.brings):
                    await self._users.demand_no_links(record.user, record.brings, into)
                    await self._users.unpack(record.user, record.brings, file, is_new=False)
        except OSError as error:
            raise disk_fault(error) from None

    # -- parts ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _alone(self, directory: str) -> AsyncIterator[None]:
        """No other task has to do with the directory."""
        turn = self._turns.setdefault(directory, trio.Lock())
        self._directories[directory] = self._directories.get(directory, 0) + 1
        try:
            async with turn:
                yield
        finally:
            self._directories[directory] -= 1
            if not self._directories[directory]:
                del self._directories[directory], self._turns[directory]

    def _failed(self, key: Key, what: str, error: FilesError) -> None:
        self.faults.note(error.cause, f"job {key.job}: {what}: {printable(str(error))}")


def _has_archive(record: HomeRecord) -> bool:
    """It is to be sent, or its results are to be unpacked."""
    is_to_be_sent = record.state in (HomeState.WAITING, HomeState.SENDING, HomeState.ABROAD)
    return bool(record.brings) or (is_to_be_sent and record.seen != Stage.HERE)
