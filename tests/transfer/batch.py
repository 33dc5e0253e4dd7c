"""A simulated batch system: its own jobs and foreign ones, the transfer queue, the accounting, and its commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.transfer.cells.interface import (
    Being,
    Deed,
    Ended,
    Foreign,
    Leaving,
    Look,
    Sought,
    Submitted,
)
from subord.services.transfer.jobs import End, Key, Spec, Usage, key_of
from subord.services.transfer.mapping import Stays
from tests.transfer.world import BrokenError, Run, World

TIMEOUT_S = 10
SILENT = Unavailable(Fault.SLOW, "it does not answer")


@dataclass(eq=False)
class Job:
    """`script`: how long it takes, its status and signal, and what goes wrong abroad, in one line."""

    id: str
    script: str
    can_leave: bool = True
    requests: tuple[tuple[str, str], ...] = ()
    user: str = "ada"
    key: Key | None = None
    mark: str = ""
    origin: str = ""
    being: Being = Being.QUEUED
    is_bound: bool = False
    is_admin_held: bool = False
    in_transfer: bool = False
    is_marked: bool = False
    is_unstarted: bool = True
    was_started: bool = False
    left: int = 0
    run: Run | None = None
    starter: Any = None
    outcome: str = ""
    killed: bool = False
    suspends: bool = False
    is_recalled: bool = False
    stays_in_queue: bool = False
    """It may start again only in the transfer queue."""

    @property
    def words(self) -> list[str]:
        return self.script.split()


@dataclass(eq=False)
class Batch:
    world: World
    name: str
    slots: int
    transfer_slots: int
    tells_deleted: bool
    """Whether the accounting has jobs that were deleted while they waited."""
    binds: bool
    """Whether jobs can be bound; if not, those that are put back start again only in the transfer queue."""
    start: Callable[[Job], Any]
    """Makes a starter for a job in the transfer queue; None: its host is down."""
    is_open: Callable[[], bool]
    """Whether the load sensor lets jobs into the transfer queue."""
    jobs: dict[str, Job] = field(default_factory=dict)
    accounting: list[tuple[int, Ended]] = field(default_factory=list)
    silent_until: int = 0
    numbers: Any = field(default_factory=lambda: count(1))
    done: dict[str, Job] = field(default_factory=dict)

    def submit_native(self, script: str, **more: Any) -> Job:
        job = Job(f"{next(self.numbers)}", script, **more)
        job.left = int(job.words[0])
        self.jobs[job.id] = job
        return job

    @property
    def is_silent(self) -> bool:
        return self.world.now < self.silent_until

    # -- time -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        for job in list(self.jobs.values()):
            if job.run is not None and job.being == Being.RUNNING:
                job.left -= 1
                if job.left <= 0:
                    self.end(job, int(job.words[1]), int(job.words[2]))
        if not self.is_silent and self.world.now % 2 == 0:
            self._schedule()

    def _schedule(self) -> None:
        used = sum(job.run is not None for job in self.jobs.values())
        leaving = sum(job.in_transfer for job in self.jobs.values())
        for job in list(self.jobs.values()):
            if job.being != Being.QUEUED or job.is_bound or job.in_transfer or job.is_admin_held:
                continue
            if used < self.slots and not (job.stays_in_queue or job.is_recalled):
                used += 1
                self._begin(job)
            elif leaving < self.transfer_slots and self._may_leave(job):
                starter = self.start(job)
                if starter is not None:
                    leaving += 1
                    job.in_transfer, job.being, job.starter = True, Being.RUNNING, starter

    def _may_leave(self, job: Job) -> bool:
        return not job.mark and job.can_leave and not job.is_marked and self.is_open()

    def _begin(self, job: Job) -> None:
        if job.mark and "error" in job.words[3:]:
            job.being = Being.ERROR
            return
        if job.mark and "failed" in job.words[3:]:
            run = self.world.begin_run((job.origin, job.key.job), job.key, self.name)  # type: ignore[union-attr]
            self.world.end_run(run, 100, 0)
            entry = Ended(job.mark, job.id, End(status=100, usage=Usage(host=self.name)))
            self.accounting.append((self.world.now + self.world.times.lag, entry))
            job.being, job.is_unstarted = Being.ERROR, False
            return
        job.being, job.was_started, job.is_unstarted = Being.RUNNING, True, False
        work = (job.origin, job.key.job) if job.key else (self.name, job.id)
        job.run = self.world.begin_run(work, job.key, self.name)

    def end(self, job: Job, status: int, signal: int) -> None:
        """A process has ended, or a job that waits is deleted."""
        run = job.run
        if run is not None:
            self.world.end_run(run, status, signal)
            job.run = None
        del self.jobs[job.id]
        self.done[job.id] = job
        if job.mark:
            has_run = run is not None
            if has_run or self.tells_deleted:
                failed = "" if has_run else "it was deleted"
                end = End(status=status, signal=signal, failed=failed, usage=Usage(host=self.name))
                entry = Ended(job.mark, job.id, end, has_run)
                self.accounting.append((self.world.now + self.world.times.lag, entry))
        else:
            job.outcome = f"{status} {signal}"

    def kill(self, job: Job) -> None:
        if job.being == Being.ERROR and not job.is_unstarted:
            del self.jobs[job.id]
            return
        self.end(job, 0, 9)

    # -- the transfer queue -----------------------------------------------------------------------------------------

    def put_back(self, job: Job, *, is_again: bool = True) -> None:
        """Its starter has ended, and it waits again. `is_again`: since it was killed."""
        if job.id in self.jobs:
            job.stays_in_queue = is_again and not self.binds
            job.in_transfer, job.being, job.starter, job.was_started = False, Being.QUEUED, None, True

    def finish(self, job: Job, outcome: str) -> None:
        """Its starter has ended with the end of the job."""
        if job.id in self.jobs:
            del self.jobs[job.id]
            self.done[job.id] = job
            job.outcome, job.in_transfer = outcome, False

    # -- commands ---------------------------------------------------------------------------------------------------

    def command(self, apply: Callable[[], Any], on_result: Callable[[Any], None]) -> None:
        """Its effect and its result come some time later, each or neither of them when the batch system is silent."""
        world, random = self.world, self.world.random
        delay = random.randint(0, world.times.command)

        def run() -> None:
            if self.is_silent:
                if random.random() < 0.5:
                    world.after(self.silent_until - world.now + random.randint(0, 3), apply)
                world.after(TIMEOUT_S, lambda: on_result(SILENT))
                return
            if random.random() < world.times.fails:
                if random.random() < 0.5:
                    apply()
                world.after(random.randint(0, TIMEOUT_S), lambda: on_result(SILENT))
                return
            result = apply()
            world.after(random.randint(0, world.times.command), lambda: on_result(result))

        world.after(delay, run)

    def look(self) -> Look:
        jobs = list(self.jobs.values())
        waiting = [job for job in jobs if job.being == Being.QUEUED and not job.is_bound and not job.is_admin_held]
        foreign = (
            Foreign(job.mark, job.id, job.being, "cannot", job.is_unstarted and job.being == Being.ERROR)
            for job in jobs
            if job.mark
        )
        leaving = (Leaving(job.id, 0, job.suspends, job.killed) for job in jobs if job.in_transfer)
        bound = ((job.id, 0) for job in jobs if job.is_bound and not job.in_transfer and job.run is None)
        queued = (job for job in jobs if job.being == Being.QUEUED and job.run is None and not job.mark)
        again = ((job.id, 0) for job in queued if job.was_started)
        return Look(len(waiting), tuple(foreign), tuple(leaving), tuple(bound), tuple(again))

    def submit(self, mark: str, user: str, spec: Spec) -> Submitted | Refused:
        if any(name == "bad" for name, _ in spec.requests):
            return Refused("unknown resource bad")
        key = key_of(mark)
        assert key is not None, mark
        if user != spec.user:
            raise BrokenError(f"user: {mark} runs as {user}")
        job = Job(f"{next(self.numbers)}", spec.script, key=key, mark=mark, origin=key.cluster, being=Being.HELD)
        job.left = int(job.words[0])
        self.jobs[job.id] = job
        return Submitted(job.id)

    def act(self, deed: Deed, ids: Sequence[str]) -> None:
        for job in [self.jobs[each] for each in ids if each in self.jobs]:
            match deed, job.being:
                case Deed.RELEASE, Being.HELD:
                    job.being = Being.QUEUED
                case Deed.HOLD, Being.QUEUED:
                    job.being = Being.HELD
                case Deed.SUSPEND, Being.RUNNING:
                    job.being = Being.SUSPENDED
                case Deed.RESUME, Being.SUSPENDED:
                    job.being = Being.RUNNING
                case Deed.DELETE, _:
                    self.kill(job)

    def ended(self, jobs: Sequence[Sought]) -> tuple[Ended, ...]:
        ids = {each.id for each in jobs if each.id}
        marks = {each.mark for each in jobs if not each.id}
        there = (each for at, each in self.accounting if at <= self.world.now)
        return tuple(each for each in there if each.id in ids or each.mark in marks)

    def let_go(self, works: Sequence[tuple[str, int]], recalled: Sequence[str]) -> None:
        """`recalled`: those that start again in the transfer queue alone."""
        for job in recalled:
            if job in self.jobs:
                self.jobs[job].is_recalled = True
        self.bind(works, is_bound=False)

    def bind(self, works: Sequence[tuple[str, int]], *, is_bound: bool) -> None:
        for job in [self.jobs[each] for each, _ in works if each in self.jobs]:
            job.is_bound = is_bound and self.binds

    def spec_of(self, job: Job) -> Spec | Stays:
        return Spec(user=job.user, name=f"job{job.id}", script=job.script, requests=job.requests)
