"""Asks the batch system at the pace of the plan, and does there what both sides want.

Inputs are looks and outcomes; outputs are calls of both sides, and deeds. Invariants: one look in each poll_s, and
none begins before what the last one has led to is done; what is done follows from records on the disk; a batch system
that does not answer is asked again, and until then nothing new follows from it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from subord.runtime.log.formats import printable
from subord.services.batch.records import Refused, Unavailable
from subord.services.transfer.cells.interface import Back, Cell, Deed, Look, Sought, Submitted
from subord.services.transfer.driving.waking import Wake
from subord.services.transfer.driving.writing import Sides
from subord.services.transfer.jobs import Key, Spec
from subord.services.transfer.states import AwayRecord

logger = logging.getLogger("subord")
SUBMITS_MAX: Final = 8
"""At the same time: each is some processes of this host."""
GATHER_S: Final = 0.1
"""What comes together is done together."""
UNAVAILABLE_S: Final = 2.0


Ready = Callable[[AwayRecord], Awaitable[Spec | Refused | Unavailable]]
"""What a job is submitted with, when its files are here."""


async def _as_it_is(record: AwayRecord) -> Spec:
    assert record.spec is not None
    await trio.lowlevel.checkpoint()
    return record.spec


class Polling:
    """`changed`: is called when a daemon may want to hear of something, `speak`: when home has something to say.
    `at`: when the last look has succeeded, in seconds since 1970; 0: none has. `fault`: why the last one failed."""

    def __init__(
        self,
        sides: Sides,
        cell: Cell,
        poll_s: float,
        changed: Callable[[], None],
        speak: Callable[[], None],
    ) -> None:
        self.ready: Ready = _as_it_is
        self.at = 0.0
        self.fault = ""
        self.looks = 0
        self.failed = 0
        """Queries and deeds without an answer."""
        self._sides = sides
        self._cell = cell
        self._poll_s = poll_s
        self._changed = changed
        self._speak = speak
        self._wake = Wake()
        self._submitting = 0

    def attend(self) -> None:
        """There may be something to do before the next look."""
        self._wake.call()

    async def run(self) -> None:
        """Until it is cancelled. Raises RecordsError."""
        async with trio.open_nursery() as nursery:
            while True:
                next_at = self._sides.clock() + self._poll_s
                await self._work(await self._look(), nursery)
                while (left_s := next_at - self._sides.clock()) > 0:
                    if await self._wake.wait(left_s):
                        await trio.sleep(GATHER_S)
                        await self._work(None, nursery)

    async def _look(self) -> Look | None:
        began = self._sides.clock()
        look = await self._cell.look()
        self.looks += 1
        self._note("its jobs were not seen", look if isinstance(look, Unavailable) else None)
        if isinstance(look, Unavailable):
            if not self.fault:
                logger.warning("transfer: the batch system does not answer: %s", look.reason)
            self.fault = look.reason
            return None
        self.fault, self.at = "", time.time()
        self._sides.presence.looked(look.leaving)
        self._sides.home.looked(look.leaving, began, look.restarting, look.loose)
        self._sides.away.looked(look, began, self._sides.clock())
        return look

    async def _work(self, look: Look | None, nursery: trio.Nursery) -> None:
        """What both sides want now."""
        sides = self._sides
        work = sides.away.due(sides.clock(), SUBMITS_MAX - self._submitting)
        sides.home.tick(sides.clock())
        to_bind, to_let_go = sides.home.bonds()
        lost = sides.home.forgotten_bonds(look.bound) if look is not None else []
        stranded = sides.home.stranded()
        await sides.commit()
        for record in work.submits:
            self._submitting += not _brings(record)
            nursery.start_soon(self._submit, record)
        if to_bind:
            await self._bind(to_bind)
        for deed, ids in work.deeds:
            await self._act(deed, ids)
        if work.searches:
            await self._search(work.searches)
        if to_let_go or lost:
            await self._let_go(to_let_go, lost)
        for job, task in stranded:
            await self._put_back(job, task)
        await sides.commit()
        if to_bind:
            self._speak()
        self._changed()

    async def _submit(self, record: AwayRecord) -> None:
        assert record.spec is not None
        try:
            spec = await self.ready(record)
            outcome = await self._outcome(record, spec)
        finally:
            self._submitting -= not _brings(record)
        self._note("a job was not submitted", outcome if isinstance(outcome, Unavailable) else None)
        self._sides.away.submitted(record.key, outcome, self._sides.clock())
        await self._sides.commit()
        self._wake.call()
        self._changed()

    async def _outcome(
        self, record: AwayRecord, spec: Spec | Refused | Unavailable
    ) -> Submitted | Refused | Unavailable:
        if isinstance(spec, Spec):
            return await self._cell.submit(record.key.mark, record.user, spec)
        return spec

    async def _act(self, deed: Deed, ids: Sequence[str]) -> None:
        """What came of it, the next look shows."""
        self._note(f"{deed} was not done", await self._cell.act(deed, ids))

    async def _search(self, wanted: Sequence[Sought]) -> None:
        began = self._sides.clock()
        found = await self._cell.ended(wanted)
        if isinstance(found, Unavailable):
            self._note("the accounting was not read", found)
        else:
            self._sides.away.accounted(wanted, found, began, self._sides.clock())

    async def _bind(self, keys: list[Key]) -> None:
        outcome = await self._cell.bind([each.work for each in keys])
        self._note("jobs were not bound, and are not sent", outcome)
        self._sides.home.bound(keys, is_done=outcome is None)

    async def _let_go(self, keys: list[Key], lost: list[tuple[str, int]]) -> None:
        works = [*(each.work for each in keys), *lost]
        outcome: Unavailable | None = None
        for queue, jobs in self._sides.home.recalls(works).items():
            outcome = outcome or await self._cell.recall(jobs, queue)
        outcome = outcome or await self._cell.unbind(works)
        self._note("jobs were not unbound", outcome)
        self._sides.home.let_go(keys, is_done=outcome is None)

    async def _put_back(self, job: str, task: int) -> None:
        """Its next starter goes on with what is abroad. What cannot go back ends when the batch system notices."""
        logger.warning("transfer: job %s, task %d, runs without its starter, and is to start again", job, task)
        outcome = await self._cell.put_back(job, task, Back.AGAIN)
        if isinstance(outcome, Refused):
            logger.warning("transfer: job %s cannot go back: %s", job, printable(outcome.reason))
        else:
            self._note("a job was not put back", outcome)

    def _note(self, what: str, outcome: Unavailable | None) -> None:
        if outcome is not None:
            self.failed += 1
            logger.info("transfer: %s: %s", what, outcome.reason)


def _brings(record: AwayRecord) -> bool:
    """Its files may come for long, and other jobs do not wait for them."""
    return record.spec is not None and record.spec.files is not None
