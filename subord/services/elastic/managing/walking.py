"""Carries nodes through their stages, several side by side.

Inputs are the records of nodes that are added or removed; outputs are changed records. Invariants: one node has one
walk; the work of a stage begins only when its record is on the disk; at most WORKS_MAX works are under way for nodes
that are added, and as many for those that are removed, so neither hold up the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import trio
from msgspec.structs import replace

from subord.runtime.record_file import RecordsError
from subord.services.elastic.clock import Clock
from subord.services.elastic.managing.advancing import Again, Failing, Outcome, after, delay_s, removed
from subord.services.elastic.managing.kept import Kept
from subord.services.elastic.managing.working import Working
from subord.services.elastic.stages import ADDING, Record, Stage

logger = logging.getLogger("subord")
WORKS_MAX: Final = 8
WORK_S_MAX: Final = 300.0
"""But for the supplier, whose commands have their own limit."""


class Walks:
    """`tell`: something has changed."""

    def __init__(self, kept: Kept, working: Working, clock: Clock, wait_s: float, tell: Callable[[], None]) -> None:
        self._kept = kept
        self._working = working
        self._clock = clock
        self._wait_s = wait_s
        self._tell = tell
        self._walking: set[str] = set()
        self._adding, self._removing = trio.CapacityLimiter(WORKS_MAX), trio.CapacityLimiter(WORKS_MAX)
        self._scopes: set[trio.CancelScope] = set()
        self.failing = Failing()
        self.unwanted: Mapping[str, str] = {}
        """Reasons, by name, why the batch system does not wait for nodes any more that are being added."""

    def start(self, nursery: trio.Nursery) -> None:
        """For each node that is to be somewhere else, and does not walk already."""
        for name, record in self._kept.records.items():
            if record.stage != Stage.SERVING and name not in self._walking:
                self._walking.add(name)
                nursery.start_soon(self._walk, name)

    def end(self, seconds: float) -> None:
        """Works under way have so long to end; none begins, as their tasks are cancelled."""
        deadline = trio.current_time() + seconds
        for scope in self._scopes:
            scope.deadline = min(scope.deadline, deadline)

    async def _walk(self, name: str) -> None:
        try:
            while (record := self._kept.records.get(name)) is not None and record.stage != Stage.SERVING:
                async with self._adding if record.stage in ADDING else self._removing:
                    is_done = await self._work(record)
                    while is_done and (following := self._next(record)) is not None:
                        record = following
                        is_done = await self._work(record)
                if not is_done:
                    await self._clock.sleep(delay_s(self._kept.records.get(name, record)))
        finally:
            self._walking.discard(name)

    def _next(self, record: Record) -> Record | None:
        """The node at its next stage of the same way; None: it has come to an end. A node that is nearly removed goes
        before those that are just to be drained, because it is paid for until it has ended."""
        found = self._kept.records.get(record.name)
        if found is None or found.stage == Stage.SERVING or (found.stage in ADDING) != (record.stage in ADDING):
            return None
        return found

    async def _work(self, record: Record) -> bool:
        """Whether the node is in another stage now."""
        with trio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                following = self._following(record, await self._outcome(record))
                await self._keep(record, following)
            except RecordsError as error:  # told by the poll; the work is done again
                logger.error("elastic: %s", error)
                return False
            finally:
                self._scopes.discard(scope)
                self._tell()
            return following is None or following.stage != record.stage
        return False

    def _following(self, record: Record, outcome: Outcome) -> Record | None:
        """For a node that the batch system has named, it says how long it waits."""
        now = self._clock.now()
        following = after(record, outcome, now, inf if record.is_wanted else self._wait_s)
        reason = self.unwanted.get(record.name)
        if reason is None or following is None or record.stage not in ADDING:
            return following
        fault = f": {record.stage}: {following.fault}" if following.fault else ""
        return removed(following, now, f"{reason}{fault}", is_undone=True)

    async def _outcome(self, record: Record) -> Outcome:
        limit_s = inf if record.stage in (Stage.STARTING, Stage.STOPPING) else WORK_S_MAX
        try:
            with trio.move_on_after(limit_s):
                return await self._working.work(record)
        except Exception as error:  # a fault of ours; it must not hold up other nodes
            logger.exception("elastic: the work of %s at %s failed", record.name, record.stage)
            return Again(f"this release has failed ({type(error).__name__}): the log of the agent has the details")
        return Again(f"the work has not ended in {limit_s:.0f} s, and is done again")

    async def _keep(self, record: Record, following: Record | None) -> None:
        """Raises RecordsError."""
        now = self._clock.now()
        if following is None:
            await self._kept.drop(record, now)
            logger.info("elastic: %s is removed: %s", record.name, record.reason)
        elif following.stage == Stage.SERVING:
            is_new = record.stage in ADDING and not record.reason
            await self._kept.put(following, added=int(is_new), changed_at=now)
            self.failing = Failing()
            logger.info("elastic: %s serves", record.name)
        else:
            await self._kept.put(following)
            if following.is_undone and not record.is_undone:
                self.failing = self.failing.with_undone(replace(following, began_at=record.began_at), now)
                logger.error("elastic: %s is removed: %s", record.name, following.reason)
