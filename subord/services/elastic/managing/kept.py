"""The records as they are on the disk, kept in memory as well.

Inputs are changes; outputs are records and counters. Invariant: memory never has what the disk has not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import trio

from subord.runtime.record_file import RecordsError
from subord.services.elastic.managing.needs import Store
from subord.services.elastic.records import Counters
from subord.services.elastic.stages import ADDING, REMOVING, Record, Stage

InThread: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls what blocks, as trio.to_thread.run_sync does."""


class Kept:
    """`fault`: why the last change could not be written; "": it was."""

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._store = store
        self._in_thread = in_thread
        self._turn = trio.Lock()
        self.records: dict[str, Record] = {}
        self.counters = Counters()
        self.fault = ""

    async def load(self) -> None:
        """Raises RecordsError."""
        async with self._turn:
            self.records = await self._in_thread(self._store.all)
            self.counters = await self._in_thread(self._store.counters)

    async def put(self, *records: Record, added: int = 0, changed_at: float | None = None) -> None:
        """All of them, or none. `added`: how many of them serve now. `changed_at`: None: none was added or removed.
        Raises RecordsError."""
        async with self._turn:
            counters = self._counted(changed_at, added=self.counters.added + added)
            with self._noted():
                await self._in_thread(partial(self._store.put, *records, counters=counters))
            self.records.update({each.name: each for each in records})
            self.counters = counters

    async def exchange(self, before: Record, fresh: Record) -> None:
        """Unless the record has changed meanwhile. Raises RecordsError."""
        async with self._turn:
            if self.records.get(before.name) is not before:
                return
            with self._noted():
                await self._in_thread(partial(self._store.put, fresh))
            self.records[fresh.name] = fresh

    async def drop(self, record: Record, changed_at: float) -> None:
        """The node is gone. Raises RecordsError."""
        async with self._turn:
            undone = self.counters.undone + record.is_undone
            counters = self._counted(changed_at, removed=self.counters.removed + 1, undone=undone)
            with self._noted():
                await self._in_thread(partial(self._store.drop, record.name, counters=counters))
            self.records.pop(record.name, None)
            self.counters = counters

    async def not_after(self, now: float) -> None:
        """Times that are yet to come are now: the clock was set back. Raises RecordsError."""
        wrong = [each for each in self.records.values() if each != each.not_after(now)]
        if wrong or self.counters.changed_at > now:
            changed_at = min(self.counters.changed_at, now)
            await self.put(*(each.not_after(now) for each in wrong), changed_at=changed_at)

    def of(self, *stages: Stage) -> dict[str, Record]:
        return {name: each for name, each in self.records.items() if each.stage in stages}

    @property
    def coming(self) -> dict[str, Record]:
        return self.of(*ADDING)

    @property
    def going(self) -> dict[str, Record]:
        return self.of(*REMOVING)

    @property
    def serving(self) -> dict[str, Record]:
        return self.of(Stage.SERVING)

    def _counted(self, changed_at: float | None, **changes: int) -> Counters:
        counters = self.counters._replace(**changes)
        return counters if changed_at is None else counters._replace(changed_at=changed_at)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except RecordsError as error:
            self.fault = str(error)
            raise
        self.fault = ""
