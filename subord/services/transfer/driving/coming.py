"""Files of jobs of the other cluster: unpacked before a job is submitted, and packed when it has ended.

Inputs are records of the away side, and questions of the other cluster; outputs are working directories, archives and
answers. Invariants: a directory is named on the disk of the agent before it is made, and removed when home has the
results, when its job has never run, or KEEP_S after nothing was known of it any more; at most KEPT_MAX are kept so.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable
from typing import Final

import trio
from msgspec.structs import replace

from subord.runtime.log.formats import printable
from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.transfer.data.archive import demand_tame
from subord.services.transfer.data.fetching import Fetching
from subord.services.transfer.data.listing import (
    CHANGED,
    DISK,
    OTHER,
    FilesError,
    demand_sendable,
    entries_in,
    left_out,
    results,
    size_of,
)
from subord.services.transfer.data.spool import FETCHED, PACKED, Place, Spool, disk_fault
from subord.services.transfer.data.talk import Kind, Part, Took, Want, Word, decode_question, encode
from subord.services.transfer.data.user import UserFiles
from subord.services.transfer.driving.file_faults import FileFaults
from subord.services.transfer.driving.writing import Sides
from subord.services.transfer.exchange import ExchangeError, Stage
from subord.services.transfer.jobs import Key, Spec, archive_bytes_max
from subord.services.transfer.mapping import relocated
from subord.services.transfer.states import AwayRecord

logger = logging.getLogger("subord")
TIDY_S: Final = 10.0
KEEP_S: Final = 3 * 86_400.0
KEPT_MAX: Final = 100
AT_ONCE: Final = 4
TRIES: Final = 3
AGAIN_S: Final = 1.0
ROOM_TRIES: Final = 5
"""Of results for which a disk has no room."""
ROOM_S: Final = 30.0


class Coming:
    """`sent`: bytes that were given to the other cluster. `faults`: jobs whose files or results have not crossed.
    `dropped`: directories that were removed although home may not have the results."""

    def __init__(
        self, sides: Sides, spool: Spool, users: UserFiles, fetching: Fetching, places: Iterable[Place]
    ) -> None:
        self.sent = 0
        self.faults = FileFaults()
        self.dropped = 0
        self.places = {each.key: each for each in places}
        self._sides = sides
        self._spool = spool
        self._users = users
        self._fetching = fetching
        self._turns = trio.CapacityLimiter(AT_ONCE)
        self._packing = set[Key]()
        self._told = dict[Key, Part]()
        """What is said of the results of a job, when that is known."""
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            while True:
                await self._tidy()
                await trio.sleep(TIDY_S)

    # -- before a job is submitted ----------------------------------------------------------------------------------

    async def ready(self, record: AwayRecord) -> Spec | Refused | Unavailable:
        """What the batch system is told of a job, when its files are here."""
        spec = record.spec
        assert spec is not None
        if spec.files is None:
            await trio.lowlevel.checkpoint()
            return spec
        try:
            async with self._turns:
                place = await self._made(record, spec)
        except FilesError as error:
            self._failed(record.key, error)
            reason = f"its files have not come: {printable(str(error))}"
            is_lasting = error.cause not in (DISK, OTHER)
            return Refused(reason) if is_lasting else Unavailable(Fault.FAILED, reason)
        return relocated(spec, place.directory)

    async def _made(self, record: AwayRecord, spec: Spec) -> Place:
        """Raises FilesError."""
        key, plan, files = record.key, self._sides.away.plan, spec.files
        place = self.places.get(key)
        if place is not None and place.is_ready:
            return place
        assert files is not None
        if not plan.files_directory:
            raise FilesError("the plan of this cluster names no directory for files", DISK)
        await self._users.demand_user(record.user)
        most = archive_bytes_max(plan.files_bytes_max, plan.files_max)
        await self._fetching.fetch(key, Kind.FILES, most, bytes.fromhex(files.name))
        if place is None:
            directory = f"{plan.files_directory}/{key.mark}.{secrets.token_hex(6)}"
            place = Place(key=key, user=record.user, directory=directory)
            await self._keep(place)
        try:
            with self._spool.path(key, FETCHED).open("rb") as file:
                await trio.to_thread.run_sync(demand_tame, file, plan.files_bytes_max, plan.files_max)
                await self._users.unpack(place.user, place.directory, file, is_new=True)
            printed = await self._users.printed(place.user, place.directory, plan.files_max)
            await trio.to_thread.run_sync(self._spool.keep_before, key, printed)
            place = replace(place, is_ready=True)
            await self._keep(place)
            await trio.to_thread.run_sync(self._spool.remove, key, FETCHED)
        except OSError as error:
            raise disk_fault(error) from None
        return place

    async def _keep(self, place: Place) -> None:
        """Raises FilesError."""
        try:
            await trio.to_thread.run_sync(self._spool.keep_place, place)
        except OSError as error:
            raise disk_fault(error) from None
        self.places[place.key] = place

    # -- what the other cluster asks --------------------------------------------------------------------------------

    async def answer(self, body: bytes) -> bytes:
        """Raises ExchangeError."""
        question = decode_question(body)
        plan = self._sides.home.plan
        if isinstance(question, Took):
            if question.key.cluster != plan.peer_name:
                raise ExchangeError("the question is of a job of another cluster")
            await self._taken(question)
            return encode(Part(Word.HERE, is_nothing=True))
        owner = plan.cluster if question.kind == Kind.FILES else plan.peer_name
        if question.key.cluster != owner:
            raise ExchangeError("the question is of a job of another cluster")
        try:
            return encode(await self._part(question))
        except OSError as error:
            return encode(Part(Word.NONE, remark=str(disk_fault(error))[:300]))

    async def _part(self, want: Want) -> Part:
        """Raises OSError."""
        spool = self._spool
        if want.count:
            content = await trio.to_thread.run_sync(spool.chunks, want.key, PACKED, want.first, want.count)
            self.sent += len(content)
            return Part(Word.HERE, content)
        if want.kind == Kind.RESULTS:
            return self._results(want.key)
        listed = await trio.to_thread.run_sync(spool.listed, want.key, PACKED)
        if listed is None:
            return Part(Word.NONE, remark="the transfer host does not have them any more")
        return Part(Word.HERE, listed)

    def _results(self, key: Key) -> Part:
        """They are packed by a task of their own."""
        record, place = self._sides.away.book.records.get(key), self.places.get(key)
        if key in self._told:
            return self._told[key]
        if record is None or place is None or record.stage != Stage.ENDED:
            return Part(Word.NONE, remark="the other cluster knows nothing of its directory")
        if key not in self._packing and self._nursery is not None:
            self._packing.add(key)
            self._nursery.start_soon(self._pack, place)
        return Part(Word.WAIT)

    async def _pack(self, place: Place) -> None:
        try:
            self._told[place.key] = await self._packed_or_not(place)
        finally:
            self._packing.discard(place.key)

    async def _packed_or_not(self, place: Place) -> Part:
        """If there is no room, some more tries: home waits for longer."""
        for tries_left in reversed(range(ROOM_TRIES)):
            try:
                async with self._turns:
                    return await self._packed(place)
            except FilesError as error:
                self._failed(place.key, error)
                if error.cause != DISK or not tries_left:
                    return Part(Word.NONE, remark=f"{printable(str(error))[:200]} ({place.directory})"[:300])
            await trio.sleep(ROOM_S)
        raise AssertionError

    async def _packed(self, place: Place) -> Part:
        """Raises FilesError."""
        key, plan = place.key, self._sides.away.plan
        for tries_left in reversed(range(TRIES)):
            try:
                before = entries_in(await trio.to_thread.run_sync(self._spool.before, key))
                now = entries_in(await self._users.printed(place.user, place.directory, plan.files_max))
                found = results(before, now)
                demand_sendable(found, plan.files_bytes_max, plan.files_max)
                missing = left_out(before, now)
                remark = f"{missing} of its results are no files, and were left out" if missing else ""
                if not found:
                    return Part(Word.HERE, remark=remark, directory=place.directory, is_nothing=True)
                most = archive_bytes_max(plan.files_bytes_max, plan.files_max)
                with self._spool.opened(key, PACKED, size_of(found)) as file:
                    await self._users.pack(place.user, place.directory, found, file, most)
                    listed = await trio.to_thread.run_sync(self._spool.seal, key, PACKED)
                return Part(Word.HERE, listed, remark, place.directory)
            except OSError as error:
                raise disk_fault(error) from None
            except FilesError as error:
                if error.cause != CHANGED or not tries_left:
                    raise
                await trio.sleep(AGAIN_S)
        raise AssertionError

    async def _taken(self, took: Took) -> None:
        place = self.places.get(took.key)
        if place is not None and not took.is_kept:
            self.places[took.key] = replace(place, is_over=True)

    # -- directories ------------------------------------------------------------------------------------------------

    async def _tidy(self) -> None:
        records, now = self._sides.away.book.records, time.time()
        for key, place in list(self.places.items()):
            record = records.get(key)
            if (record is not None and record.stage == Stage.GONE) or (place.is_over and record is None):
                await self._remove(place)
            elif record is None and not place.ended_at:
                await self._kept(replace(place, ended_at=now))
            elif record is not None and place.ended_at:
                await self._kept(replace(place, ended_at=0.0))
        needed = {
            *(each for each in records if records[each].is_live),
            *(each for each in self.places if each in records),
        }
        try:
            await trio.to_thread.run_sync(self._drop_archives, needed)
        except OSError as error:
            logger.warning("transfer: archives are not removed: %s", printable(str(disk_fault(error))))
        kept = sorted((each for each in self.places.values() if each.ended_at), key=lambda each: each.ended_at)
        for number, place in enumerate(kept):
            if now > place.ended_at + KEEP_S or number < len(kept) - KEPT_MAX:
                self.dropped += 1
                await self._remove(place)

    def _drop_archives(self, needed: set[Key]) -> None:
        for kind in (PACKED, FETCHED):
            for key in list(self._spool.keys(kind)):
                if key.cluster == self._sides.home.plan.peer_name and key not in needed:
                    self._spool.remove(key, kind)

    async def _kept(self, place: Place) -> None:
        self._told.pop(place.key, None)
        try:
            await self._keep(place)
        except FilesError as error:
            logger.warning("transfer: job %s: %s", place.key.job, printable(str(error)))

    async def _remove(self, place: Place) -> None:
        try:
            await self._users.remove(place.user, place.directory)
            await trio.to_thread.run_sync(self._spool.drop_place, place.key)
        except (FilesError, OSError) as error:
            logger.warning("transfer: %s is not removed: %s", place.directory, printable(str(error)))
            return
        self.places.pop(place.key, None)
        self._told.pop(place.key, None)

    def _failed(self, key: Key, error: FilesError) -> None:
        self.faults.note(error.cause, f"job {key.job} of {key.cluster}: {printable(str(error))}")
