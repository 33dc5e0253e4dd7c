"""A batch system in memory behind the interface of a cell, and a link between two agents in one process."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import trio

from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.transfer.cells.interface import (
    Back,
    Being,
    Deed,
    Ended,
    Foreign,
    Leaving,
    Look,
    Sought,
    Submitted,
)
from subord.services.transfer.exchange import ExchangeError
from subord.services.transfer.jobs import KILL, End, Spec
from subord.services.transfer.linking.asking import LinkError

SILENT = Unavailable(Fault.SILENT, "it does not answer; nothing was changed: start it")
_BECOMES = {
    (Deed.RELEASE, Being.HELD): Being.QUEUED,
    (Deed.HOLD, Being.QUEUED): Being.HELD,
    (Deed.SUSPEND, Being.RUNNING): Being.SUSPENDED,
    (Deed.RESUME, Being.SUSPENDED): Being.RUNNING,
}


@dataclass
class FakeJob:
    mark: str
    user: str
    spec: Spec
    being: Being = Being.HELD


@dataclass
class MemoryCell:
    """`slots`: of foreign jobs that run at once. `refuses`: why no job is taken. `most`: foreign jobs at a time."""

    slots: int = 4
    refuses: str = ""
    is_silent: bool = False
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    ends: list[Ended] = field(default_factory=list)
    leaving: dict[tuple[str, int], Leaving] = field(default_factory=dict)
    specs: dict[str, Spec | Refused] = field(default_factory=dict)
    bound: set[tuple[str, int]] = field(default_factory=set)
    recalled: set[tuple[str, str]] = field(default_factory=set)
    kept: list[str] = field(default_factory=list)
    submitted: list[tuple[str, str]] = field(default_factory=list)
    deeds: list[tuple[Deed, str]] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    described: list[tuple[str, ...]] = field(default_factory=list)
    most: int = 0
    on_submit: Callable[[str], None] = lambda _: None
    on_act: Callable[[Deed, str], None] = lambda *_: None
    on_bind: Callable[[tuple[str, int]], None] = lambda _: None

    def add(self, job: str, spec: Spec | Refused, task: int = 0) -> None:
        """A job of this cell is in its transfer queue."""
        self.specs[job] = spec
        user = spec.user if isinstance(spec, Spec) else getpass.getuser()
        self.leaving[job, task] = Leaving(job, task, user=user)

    def end(self, number: str, end: End) -> None:
        job = self.jobs.pop(number)
        has_run = job.being in (Being.RUNNING, Being.SUSPENDED)
        self.ends.append(Ended(job.mark, number, end, has_run, job.user))

    def start_jobs(self) -> None:
        running = sum(each.being in (Being.RUNNING, Being.SUSPENDED) for each in self.jobs.values())
        for each in self.jobs.values():
            if each.being == Being.QUEUED and running < self.slots:
                each.being, running = Being.RUNNING, running + 1

    # -- the interface ----------------------------------------------------------------------------------------------

    async def look(self) -> Look | Unavailable:
        self.looks.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        if self.is_silent:
            return SILENT
        self.start_jobs()
        foreign = tuple(Foreign(each.mark, number, each.being, owner=each.user) for number, each in self.jobs.items())
        pending = sum(each.being == Being.QUEUED for each in self.jobs.values())
        return Look(pending, foreign, tuple(self.leaving.values()))

    async def submit(self, mark: str, user: str, spec: Spec) -> Submitted | Refused | Unavailable:
        await trio.lowlevel.checkpoint()
        if self.is_silent:
            return SILENT
        if self.refuses:
            return Refused(self.refuses)
        self.on_submit(mark)
        number = str(len(self.submitted) + 1001)
        self.submitted.append((mark, user))
        self.jobs[number] = FakeJob(mark, user, spec)
        self.most = max(self.most, len(self.jobs))
        return Submitted(number)

    async def act(self, deed: Deed, ids: Sequence[str]) -> Unavailable | None:
        await trio.lowlevel.checkpoint()
        if self.is_silent:
            return SILENT
        for each in ids:
            job = self.jobs.get(each)
            if job is None:
                continue
            self.on_act(deed, job.mark)
            self.deeds.append((deed, each))
            if deed == Deed.DELETE:
                self.end(each, End(signal=KILL))
            else:
                job.being = _BECOMES.get((deed, job.being), job.being)
        return None

    async def ended(self, jobs: Sequence[Sought]) -> Sequence[Ended] | Unavailable:
        await trio.lowlevel.checkpoint()
        marks = {each.mark for each in jobs}
        return SILENT if self.is_silent else [each for each in self.ends if each.mark in marks]

    async def describe(self, jobs: Iterable[str]) -> Mapping[str, Spec | Refused] | Unavailable:
        wanted = tuple(jobs)
        self.described.append(wanted)
        await trio.lowlevel.checkpoint()
        return SILENT if self.is_silent else {each: self.specs[each] for each in wanted if each in self.specs}

    async def bind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        await trio.lowlevel.checkpoint()
        for each in jobs:
            self.on_bind(each)
        self.bound |= set() if self.is_silent else set(jobs)
        return SILENT if self.is_silent else None

    async def recall(self, jobs: Sequence[str], queue: str) -> Unavailable | None:
        await trio.lowlevel.checkpoint()
        self.recalled |= set() if self.is_silent else {(each, queue) for each in jobs}
        return SILENT if self.is_silent else None

    async def unbind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        await trio.lowlevel.checkpoint()
        self.bound -= set() if self.is_silent else set(jobs)
        return SILENT if self.is_silent else None

    async def put_back(self, job: str, task: int, back: Back) -> None:  # noqa: ARG002 - the starter does it
        await trio.lowlevel.checkpoint()

    async def keep(self, job: str) -> Refused | Unavailable | None:
        await trio.lowlevel.checkpoint()
        if self.is_silent:
            return SILENT
        self.kept.append(job)
        return None


@dataclass
class MemoryLink:
    """`peer`: the other end. `is_cut`: nothing comes through. An answer is a task of the end that gives it, as it is
    with a real link: a driver that ends waits for what its answers write."""

    is_cut: bool = False
    peer: MemoryLink | None = None
    asked: int = 0
    on_ask: Callable[[bytes], None] = lambda _: None
    on_answer: Callable[[bytes], None] = lambda _: None
    _answers: Callable[[bytes, trio.MemorySendChannel[bytes | ExchangeError]], None] | None = None

    @property
    def is_serving(self) -> bool:
        return self._answers is not None

    async def ask(self, body: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        answer = await self._answered(body, self.on_ask)
        self.on_answer(answer)
        return answer

    async def fetch(self, body: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        return await self._answered(body)

    async def _answered(self, body: bytes, look: Callable[[bytes], None] = lambda _: None) -> bytes:
        if self.is_cut or self.peer is None or not self.peer._answers:
            raise LinkError("the other cluster does not answer; jobs stay where they are")
        look(body)
        saying, hearing = trio.open_memory_channel[bytes | ExchangeError](1)
        self.peer._answers(body, saying)
        try:
            answer = await hearing.receive()
        except trio.EndOfChannel:
            raise LinkError("the other cluster ended before it had answered") from None
        if isinstance(answer, ExchangeError):
            raise LinkError(str(answer))
        return answer

    async def serve(
        self,
        answer: Callable[[bytes], Awaitable[bytes]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        async def say(body: bytes, saying: trio.MemorySendChannel[bytes | ExchangeError]) -> None:
            with saying:
                try:
                    saying.send_nowait(await answer(body))
                except ExchangeError as error:
                    saying.send_nowait(error)

        async with trio.open_nursery() as nursery:
            self._answers = partial(nursery.start_soon, say)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:  # before the nursery is closed to new answers
                self._answers = None
