"""A stand-in for the agents of two cells: it hands the jobs of one cell to the other one directly.

Inputs are the requests of methods, and the cells; outputs are answers. It keeps nothing on disk, and knows no
permits: what it tests is the cells, the methods and the settings, not the decisions.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
import trio

from netlab.transfer.site import USERS
from subord.services.batch.records import Refused, Unavailable
from subord.services.transfer.answering import Caller, Tell
from subord.services.transfer.cells.interface import Being, Cell, Deed, Ended, Foreign, Sought, Submitted
from subord.services.transfer.jobs import Key, Spec, Wanted
from subord.services.transfer.local import ACCEPTED, AGAIN, EXIT, SENT, SIGNAL, Answer, Start, Want

POLL_S: Final = 1.0
Value = TypeVar("Value")
_DEEDS: Final[dict[Wanted, dict[Being, Deed]]] = {
    Wanted.SUSPENDED: {Being.RUNNING: Deed.SUSPEND},
    Wanted.RUN: {Being.SUSPENDED: Deed.RESUME, Being.HELD: Deed.RELEASE},
    Wanted.DELETED: {each: Deed.DELETE for each in Being if each != Being.ENDING},
}


@dataclass
class Job:
    """`id`: of the other cell; "": it is not submitted yet."""

    attempt: int
    mark: str
    id: str = ""
    is_told: bool = False
    wanted: Wanted = Wanted.RUN
    end: Answer | None = None
    has_ended: trio.Event = field(default_factory=trio.Event)


class StandIn:
    """`pending`: what the sensor reports; None: that of the other cell. `most`: so many foreign jobs were there at
    once."""

    def __init__(self, name: str, home: Cell, away: Cell) -> None:
        self._name = name
        self._home = home
        self._away = away
        self.jobs: dict[tuple[str, int], Job] = {}
        self.pending: int | None = None
        self.most = 0
        self._seen = 0

    # -- what methods ask -----------------------------------------------------------------------------------------

    async def start(self, caller: Caller, request: Start, tell: Tell) -> Answer:
        work = request.job, request.task
        job = self.jobs.get(work)
        if job is None or job.end is not None:
            spec = await self._spec(request)
            if isinstance(spec, Spec) and USERS.get(spec.user, (0, 0))[0] != caller.uid:
                raise ValueError(f"the job {request.job} is not yours")
            attempt = time.time_ns() // 1_000_000
            job = self.jobs[work] = Job(attempt, Key(self._name, request.job, request.task, attempt).mark)
            await tell(Answer(ACCEPTED, attempt))
            submitted = spec if isinstance(spec, Refused) else await self._submitted(job.mark, spec)
            if isinstance(submitted, Refused):
                await _insist(lambda: self._home.keep(request.job))
                job.end = Answer(AGAIN)
                return job.end
            await tell(Answer(SENT))
            job.id = submitted.id
        else:
            assert (request.attempt, request.was_sent) == (job.attempt, True)
            await tell(Answer(ACCEPTED, job.attempt))
        await job.has_ended.wait()
        assert job.end is not None
        return job.end

    async def told(self, request: Start, answer: Answer, *, is_taken: bool) -> None:  # noqa: ARG002 - kept in the job
        self.jobs[request.job, request.task].is_told = is_taken

    async def want(self, caller: Caller, request: Want) -> None:  # noqa: ARG002 - the kernel lets only the user ask
        job = self.jobs.get((request.job, request.task))
        if job is None:
            raise ValueError(f"the job {request.job} is not known")
        job.wanted = request.wanted

    async def sense(self) -> int:
        return self._seen if self.pending is None else self.pending

    # -- what it does ---------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is cancelled."""
        task_status.started()
        while True:
            await self._poll()
            await trio.sleep(POLL_S)

    async def _poll(self) -> None:
        waiting = [job for job in self.jobs.values() if job.id and job.end is None]
        look = await self._away.look()
        if isinstance(look, Unavailable):
            return
        self._seen = look.pending
        there = {each.id: each for each in look.foreign}
        self.most = max(self.most, len(there))
        for job in waiting:
            if (foreign := there.get(job.id)) is not None and (deed := _deed(job, foreign)) is not None:
                await self._away.act(deed, [job.id])
        gone = [Sought(job.mark, job.id) for job in waiting if job.id not in there]
        ended = await self._away.ended(gone)
        if isinstance(ended, Unavailable):
            return
        ends = {each.id: each for each in ended}
        for job in waiting:
            if (found := ends.get(job.id)) is not None:
                job.end = _answer(found)
                job.has_ended.set()

    async def _spec(self, request: Start) -> Spec | Refused:
        if request.obstacle:
            return Refused(request.obstacle)
        found = await _insist(lambda: self._home.describe([request.job]))
        spec = found.get(request.job, Refused("the cell does not know it"))
        if isinstance(spec, Refused):
            return spec
        return msgspec.structs.replace(
            spec,
            script=request.script or spec.script,
            output=request.output,
            errors="" if spec.is_merged else request.errors,
            slots=request.slots,
        )

    async def _submitted(self, mark: str, spec: Spec) -> Submitted | Refused:
        return await _insist(lambda: self._away.submit(mark, spec.user, spec))


async def _insist(ask: Callable[[], Awaitable[Value | Unavailable]]) -> Value:
    while isinstance(found := await ask(), Unavailable):  # noqa: ASYNC110 - the cell makes it true
        await trio.sleep(POLL_S)
    return found


def _deed(job: Job, foreign: Foreign) -> Deed | None:
    return _DEEDS[job.wanted].get(foreign.being)


def _answer(ended: Ended) -> Answer:
    return Answer(SIGNAL, ended.end.signal) if ended.end.signal else Answer(EXIT, ended.end.status)
