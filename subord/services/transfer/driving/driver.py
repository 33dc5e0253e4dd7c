"""Drives both sides on the transfer host, until it is cancelled.

Inputs are the plan, records, the cell, the link, and the socket of the methods; outputs are effects of the parts, and
a call of `changed` whenever a daemon may want to hear something. Invariants: there is one such process on the host,
because the records have one writer; it ends with RecordsError when they cannot be written.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import trio

from subord.runtime.record_file import RecordsError
from subord.services.transfer import answering
from subord.services.transfer.away import Away
from subord.services.transfer.cells.interface import Cell
from subord.services.transfer.data.fetching import Fetching
from subord.services.transfer.data.spool import FOLDER, Place, Spool
from subord.services.transfer.data.talk import is_question
from subord.services.transfer.data.user import UserFiles
from subord.services.transfer.driving.coming import Coming
from subord.services.transfer.driving.exchanging import Exchanging
from subord.services.transfer.driving.packing import Packing
from subord.services.transfer.driving.polling import UNAVAILABLE_S, Polling
from subord.services.transfer.driving.starters import Starters
from subord.services.transfer.driving.writing import Sides
from subord.services.transfer.home import Home
from subord.services.transfer.jobs import Key, Wanted
from subord.services.transfer.plan import Plan
from subord.services.transfer.records import Begun, Records

Answering = Callable[[bytes], Awaitable[bytes]]


class SocketError(Exception):
    """Methods cannot ask. A sentence without a full stop, and without what to do."""


class Link(Protocol):
    """To the other cluster, in both directions."""

    async def ask(self, body: bytes) -> bytes:
        """Its answer to a message. Raises LinkError."""

    async def fetch(self, body: bytes) -> bytes:
        """Its answer to a question for files, apart from messages. Raises LinkError."""

    async def serve(self, answer: Answering) -> None:
        """Until it is cancelled. `answer` raises ExchangeError for what is no message."""


class Site(NamedTuple):
    """What the driver has on its host. `socket`: the path at which methods ask."""

    records: Records
    cell: Cell
    link: Link
    socket: str
    users: UserFiles | None = None


class Left(NamedTuple):
    """What the disk has from an earlier process. `places`: working directories of jobs that came."""

    begun: Begun
    spool: Spool
    places: list[Place]


def _left_in(records: Records, at_ms: int) -> Left:
    """Raises RecordsError. Blocks."""
    begun, state = records.begin(at_ms), records.path.parent.parent
    try:
        spool = Spool(state)
        return Left(begun, spool, spool.places())
    except OSError as error:
        raise RecordsError(
            f"{state / FOLDER} cannot be read or written: {error.strerror or error}: make room on the disk, and see "
            "that the directory is of the user of the agent"
        ) from None


class Driver:
    @classmethod
    async def begun(cls, plan: Plan, site: Site, changed: Callable[[], None] = lambda: None) -> Driver:
        """With what the disk has. Raises RecordsError."""
        left = await trio.to_thread.run_sync(_left_in, site.records, int(time.time() * 1000))
        return cls(plan, site, left, changed)

    def __init__(self, plan: Plan, site: Site, left: Left, changed: Callable[[], None]) -> None:
        begun, spool, places = left
        records, cell, link, self._socket, _ = site
        clock = trio.current_time
        self.plan = plan
        of_home = Home(plan, begun.life, begun.home, clock())
        of_away = Away(plan, begun.life, begun.away, clock())
        self.sides = Sides(of_home, of_away, records.write, clock)
        users = site.users or UserFiles(1)
        fetching = Fetching(link.fetch, spool, self._is_wanted, self._count)
        self.received = 0
        """Bytes of files."""
        self.coming = Coming(self.sides, spool, users, fetching, places)
        self.polling = Polling(self.sides, cell, plan.poll_s, changed, self._speak)
        self.polling.ready = self.coming.ready
        self.packing = Packing(self.sides, spool, users, fetching, self._attend)
        self.exchanging = Exchanging(self.sides, link.ask, plan.poll_s, changed, self.polling.attend)
        self.starters = Starters(self.sides, cell, self._attend, UNAVAILABLE_S)
        self._link = link
        self._say = changed

    def _attend(self) -> None:
        """A method has said something."""
        self.polling.attend()
        self.exchanging.attend()
        self._say()

    async def _answer(self, body: bytes) -> bytes:
        """Raises ExchangeError."""
        return await (self.coming if is_question(body) else self.exchanging).answer(body)

    def _count(self, size: int) -> None:
        self.received += size

    def _is_wanted(self, key: Key) -> bool:
        """Its archive is waited for."""
        leaving, coming = self.sides.home.desk.records.get(key), self.sides.away.book.records.get(key)
        is_coming = coming is not None and coming.is_live and coming.wanted != Wanted.DELETED
        return is_coming or (leaving is not None and bool(leaving.brings))

    def _speak(self) -> None:
        self.exchanging.attend()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is cancelled. Raises RecordsError, SocketError."""
        try:
            listener = answering.bound(Path(self._socket))
        except OSError as error:
            reason = error.strerror or str(error)
            raise SocketError(f"{self._socket} cannot be made: {reason}") from None
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(answering.serve, listener, self.starters))
                nursery.start_soon(self._link.serve, self._answer)
                nursery.start_soon(self.packing.run)
                nursery.start_soon(self.coming.run)
                nursery.start_soon(self.polling.run)
                nursery.start_soon(self.exchanging.run)
                task_status.started()
        finally:
            with suppress(OSError):
                answering.remove(Path(self._socket))
