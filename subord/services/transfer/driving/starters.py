"""What the agent does for the methods of the transfer queue: the keeper of answering.py.

Inputs are requests of methods; outputs are calls of the home side, and answers. Invariants: only a job, or task, that
a look has shown in a transfer queue is sent, as the user that its own batch system names, and only a process of this
user, or root, asks for it; a starter hears of its job when that is on the disk, first that it is accepted; a job
that is to stay is marked before its starter ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import trio
from msgspec.structs import replace

from subord.runtime.log.formats import printable
from subord.services.batch.records import Refused, Unavailable
from subord.services.transfer import home
from subord.services.transfer.answering import Caller, Tell
from subord.services.transfer.cells.interface import Back, Cell
from subord.services.transfer.driving.describing import Describing
from subord.services.transfer.driving.owners import Owners
from subord.services.transfer.driving.presence import LOOKS_MAX
from subord.services.transfer.driving.writing import Sides
from subord.services.transfer.home import Verb, Verdict, verdict_of
from subord.services.transfer.jobs import REASON_MAX, Key, Spec
from subord.services.transfer.local import (
    ACCEPTED,
    AGAIN,
    ERROR,
    EXIT,
    SENT,
    SIGNAL,
    STATUS_AGAIN,
    Answer,
    Start,
    Want,
)
from subord.services.transfer.mapping import Stays
from subord.services.transfer.states import HomeRecord, HomeState
from subord.services.transfer.thresholds import NOT_KNOWN, sensed

logger = logging.getLogger("subord")
WORDS: Final = {
    Verb.EXIT: EXIT,
    Verb.KILL: SIGNAL,
    Verb.AGAIN: AGAIN,
    Verb.STAY: AGAIN,
    Verb.ERROR: ERROR,
}
BACK: Final = {Verb.AGAIN: Back.AGAIN, Verb.ERROR: Back.ERROR}


@dataclass(eq=False)
class Waiter:
    """A starter that is connected."""

    key: Key
    tell: Tell
    verdict: Verdict | None = None
    has_ended: trio.Event = field(default_factory=trio.Event)


class Starters:
    """`attend`: is called when the home side has something to do."""

    def __init__(self, sides: Sides, cell: Cell, attend: Callable[[], None], retry_s: float) -> None:
        self._sides = sides
        self._cell = cell
        self._attend = attend
        self._retry_s = retry_s
        self._owners = Owners()
        self._describing = Describing(cell, retry_s)
        self._sensed_at = sides.clock()
        self._waiters = dict[Key, Waiter]()
        self._over = dict[int, Key]()
        """By the request, between its answer and the word whether it was read."""
        sides.tell = self._tell

    def __len__(self) -> int:
        return len(self._waiters)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def start(self, caller: Caller, request: Start, tell: Tell) -> Answer:
        """As in answering.Keeper."""
        if not await self._is_shown(request):
            logger.info("transfer: job %s, task %d, was not seen in a transfer queue", request.job, request.task)
            return await self._put_back(request, Back.AGAIN)
        spec = await self._spec(caller, request)
        now = self._sides.clock()
        start = home.Start(
            request.job,
            request.task,
            request.queue,
            spec,
            int(time.time() * 1000),
            request.attempt,
            request.was_sent,
            request.may_have_run,
        )
        key = self._sides.home.start(start, now)
        if key is None:
            return await self._put_back(request, Back.AGAIN)
        waiter = self._waiters[key] = Waiter(key, tell)
        self._sides.accepted.append(key)
        try:
            await self._sides.commit()
            self._attend()
            await waiter.has_ended.wait()
            assert waiter.verdict is not None
            answer = await self._answer(request, waiter.verdict)
            self._over[id(request)] = key
            return answer
        finally:
            if self._waiters.get(key) is waiter:
                del self._waiters[key]
                self._sides.home.leave(key, self._sides.clock())

    async def told(self, request: Start, answer: Answer, *, is_taken: bool) -> None:  # noqa: ARG002 - its record has it
        """The method has ended; an answer that it has not read is given again."""
        key = self._over.pop(id(request), None)
        if key is not None and is_taken:
            self._sides.home.told(key)
            await self._sides.commit()
            self._attend()

    async def want(self, caller: Caller, request: Want) -> None:
        """Raises ValueError."""
        await self._demand_owner(caller, request.job, request.task)
        is_known = self._sides.home.want(request.job, request.task, request.wanted, self._sides.clock())
        if not is_known:
            raise ValueError(f"the job {request.job} is not in a transfer queue, or has ended: nothing was changed")
        await self._sides.commit()
        self._attend()

    @property
    def silent_s(self) -> float:
        """Since the load sensor has asked, or the agent has begun."""
        return self._sides.clock() - self._sensed_at

    async def sense(self) -> int:
        """How many jobs wait in the other cluster."""
        await trio.lowlevel.checkpoint()
        self._sensed_at = self._sides.clock()
        plan, sending = self._sides.home.plan, self._sides.home.sending
        if plan.is_off or not plan.queues:
            return NOT_KNOWN
        return sensed(sending.pending, self._sides.clock() - sending.pending_at, plan.poll_s)

    # -- whose job it is --------------------------------------------------------------------------------------------

    def _is_known(self, request: Start) -> bool:
        key = Key(self._sides.home.plan.cluster, request.job, request.task, max(1, request.attempt))
        return bool(request.attempt) and key in self._sides.home.desk.records

    async def _is_shown(self, request: Start) -> bool:
        """Whether the batch system has the job in a transfer queue, which it may show some time after the starter has
        begun. That of a job that may be abroad waits for as long as it takes. A queue that is not of the plan is not
        looked at, and its jobs are not sent."""
        if self._is_known(request) and self._owners.is_known(request.job):
            return True
        if self._sides.home.plan.queue(request.queue) is None:
            return True
        looks_max = None if request.attempt else LOOKS_MAX
        return await self._sides.presence.awaited(request.job, request.task, looks_max) is not None

    async def _spec(self, caller: Caller, request: Start) -> Spec | Stays:
        """Raises ValueError."""
        await self._demand_owner(caller, request.job, request.task)
        if self._is_known(request):
            return Stays("it is known")
        if request.obstacle:
            return Stays(request.obstacle[:REASON_MAX])
        found = await self._describing.described(request.job)
        if isinstance(found, Refused):
            return Stays(found.reason[:REASON_MAX])
        return replace(
            found,
            script=request.script or found.script,
            output=request.output,
            errors="" if found.is_merged else request.errors,
            slots=request.slots,
            arguments=request.arguments or found.arguments,
            environment=request.environment or found.environment,
        )

    async def _demand_owner(self, caller: Caller, job: str, task: int) -> None:
        """Raises ValueError."""
        if not self._owners.is_known(job) and caller.uid != 0:
            await self._owners.learn(job, await self._user_of(job, task))
        self._owners.demand(caller.uid, job)

    async def _user_of(self, job: str, task: int) -> str:
        """As the batch system has it. Raises ValueError."""
        if (shown := self._sides.presence.shown(job, task)) is not None and shown.user:
            return shown.user
        newest = self._sides.home.desk.newest((job, task))
        spec = None if newest is None else self._sides.home.desk.records[newest].spec
        found = spec or await self._describing.described(job)
        if isinstance(found, Refused):
            raise ValueError(f"whose job {job} is is not known: {found.reason}")
        return found.user

    # -- news -------------------------------------------------------------------------------------------------------

    async def _tell(self, accepted: Sequence[Key], news: Sequence[HomeRecord]) -> None:
        """Behind each commit."""
        for waiter in [self._waiters[each] for each in accepted if each in self._waiters]:
            await _say(waiter, Answer(ACCEPTED, waiter.key.attempt))
        for record in news:
            found = self._waiters.get(record.key)
            if found is None:
                continue
            verdict = verdict_of(record)
            if verdict is not None:
                found.verdict = verdict
                found.has_ended.set()
            elif record.state == HomeState.SENDING:
                await _say(found, Answer(SENT))

    async def _answer(self, request: Start, verdict: Verdict) -> Answer:
        if verdict.reason and verdict.verb in (Verb.STAY, Verb.ERROR):
            logger.warning("transfer: job %s: %s", request.job, printable(verdict.reason))
        if verdict.verb == Verb.STAY:
            return await self._kept(request)
        back = BACK.get(verdict.verb)
        return Answer(WORDS[verdict.verb], verdict.number) if back is None else await self._put_back(request, back)

    async def _kept(self, request: Start) -> Answer:
        """The job is marked, so that it does not leave again, before it is queued again."""
        while isinstance(found := await self._cell.keep(request.job), Unavailable):  # noqa: ASYNC110 - it answers some day
            await trio.sleep(self._retry_s)
        if isinstance(found, Refused):
            logger.warning("transfer: job %s cannot be marked so that it stays: %s", request.job, found.reason)
            return await self._put_back(request, Back.ERROR)
        return await self._put_back(request, Back.STAY)

    async def _put_back(self, request: Start, back: Back) -> Answer:
        """The batch system may end the starter meanwhile, and is to do the rest all the same. A job that it cannot
        put back ends."""
        while True:
            with trio.CancelScope(shield=True):
                found = await self._cell.put_back(request.job, request.task, back)
            if not isinstance(found, Unavailable):
                break
            await trio.sleep(self._retry_s)
        if isinstance(found, Refused):
            logger.warning("transfer: job %s cannot go back: %s", request.job, printable(found.reason))
            return Answer(EXIT, STATUS_AGAIN)
        return Answer(ERROR if back == Back.ERROR else AGAIN)


async def _say(waiter: Waiter, answer: Answer) -> None:
    """The connection may have ended."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
        await waiter.tell(answer)
