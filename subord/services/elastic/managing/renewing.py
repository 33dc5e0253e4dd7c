"""Brings the users and mounts of a changed plan to nodes that serve already.

Inputs are the records of nodes whose `prepared` is not of this plan; outputs are orders to these nodes, and their
records. A node keeps what the plan does not have any more. Invariants: no job is disturbed, so a node whose orders
fail goes on serving, with the fault in its record, and is asked again; at most WORKS_MAX are asked at once; a record
that has changed meanwhile is left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio
from msgspec.structs import replace

from subord.runtime.record_file import RecordsError
from subord.services.elastic.clock import Clock
from subord.services.elastic.managing.advancing import FAULT_CHARS_MAX, Again, delay_s
from subord.services.elastic.managing.kept import Kept
from subord.services.elastic.managing.working import Working
from subord.services.elastic.stages import Record

logger = logging.getLogger("subord")
WORKS_MAX: Final = 4
DISK_S: Final = 30.0
"""After a record that could not be written."""
FAULT: Final = "it serves without the users and mounts of the present plan: "


class Renewing:
    """`tell`: something has changed."""

    def __init__(self, kept: Kept, working: Working, mark: str, clock: Clock, tell: Callable[[], None]) -> None:
        self._kept = kept
        self._working = working
        self._mark = mark
        self._clock = clock
        self._tell = tell
        self._turn = trio.CapacityLimiter(WORKS_MAX)
        self._busy: set[str] = set()

    def start(self, nursery: trio.Nursery) -> None:
        """For each node that serves with other users and mounts, and is not asked already."""
        for name, record in self._kept.serving.items():
            if record.prepared != self._mark and name not in self._busy:
                self._busy.add(name)
                nursery.start_soon(self._renew, name)

    async def _renew(self, name: str) -> None:
        try:
            while (record := self._kept.serving.get(name)) is not None and record.prepared != self._mark:
                async with self._turn:
                    fresh = await self._renewed(record)
                pause_s = delay_s(fresh) if fresh.fault else 0.0
                try:
                    await self._kept.exchange(record, fresh)
                except RecordsError as error:
                    logger.error("elastic: %s", error)
                    pause_s = DISK_S
                self._tell()
                await self._clock.sleep(pause_s)
        finally:
            self._busy.discard(name)

    async def _renewed(self, record: Record) -> Record:
        try:
            outcome = await self._working.renew(record)
        except Exception as error:  # a fault of ours; it must not hold up other nodes
            logger.exception("elastic: the users and mounts of %s failed", record.name)
            outcome = Again(f"this release has failed ({type(error).__name__}): the log of the agent has the details")
        if isinstance(outcome, Again):
            return replace(record, tries=record.tries + 1, fault=f"{FAULT}{outcome.fault}"[:FAULT_CHARS_MAX])
        logger.info("elastic: %s has the users and mounts of the present plan", record.name)
        return replace(record, prepared=self._mark, tries=0, fault="")
