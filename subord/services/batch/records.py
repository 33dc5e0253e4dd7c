"""What adapters return: jobs, hosts, jobs that have ended, and the outcome of an effect.

All times are seconds since 1970. Invariant: `Job.slots` is what one task occupies, so the tasks of a record occupy
`tasks` times as many.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias


class JobState(StrEnum):
    QUEUED = "queued"
    """It would start if there were free slots that fit it."""
    HELD = "held"
    """More hosts would not start it: it is held, or waits for another job, a time, a limit or a licence."""
    ERROR = "error"
    """It does not start before a person has looked at it."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """It does not run on, and keeps its slots."""
    ENDING = "ending"
    """It is being deleted or completed, and still has its slots."""
    OTHER = "other"
    """The batch system gave a state that the adapter does not know."""


class Place(NamedTuple):
    """A host of a job, and the slots that the job has there."""

    host: str
    slots: int


class Job(NamedTuple):
    """A job, or a task of an array; with `tasks` above 1 so many tasks of an array that are alike."""

    id: str
    task: int | None
    """The number of the task, None: it is no array. With `tasks` above 1 the first of them."""
    owner: str
    name: str
    state: JobState
    word: str
    """The state as the batch system wrote it."""
    slots: int
    submitted: float | None
    """Grid Engine does not tell it of jobs that have started."""
    started: float | None
    queue: str
    """Where it has started."""
    queues: tuple[str, ...] = ()
    """Those that it asks for, in Grid Engine also patterns; (): any."""
    places: tuple[Place, ...] = ()
    requests: tuple[tuple[str, str], ...] = ()
    tasks: int = 1

    @property
    def host(self) -> str:
        """The first one, "" before it has started."""
        return self.places[0].host if self.places else ""

    @property
    def occupies(self) -> bool:
        return bool(self.places)

    def may_use(self, queue: str) -> bool:
        """Whether it is in this queue, or would start there. "": any queue."""
        if self.queue or not queue:
            return queue in ("", self.queue)
        return not self.queues or any(fnmatchcase(queue, each.partition("@")[0] or "*") for each in self.queues)


class Queue(NamedTuple):
    """All jobs that have not ended, of all users and queues."""

    jobs: tuple[Job, ...]
    now: float
    """The clock of the node that asked, just before it did."""


class HostState(StrEnum):
    UP = "up"
    SUSPENDED = "suspended"
    DOWN = "down"
    """It does not answer the batch system, or has not reported yet."""
    ERROR = "error"


class Wanted(StrEnum):
    """What a batch system that has hosts started and ended wants of one (State=CLOUD of Slurm)."""

    NOTHING = ""
    """It neither has it started nor ended."""
    START = "start"
    """It waits for it to come. Jobs may be there, and none runs yet."""
    STAY = "stay"
    """It has come."""
    END = "end"
    """It is, or is being, powered down. No job is there."""


class Host(NamedTuple):
    name: str
    slots: int
    """In the queue of the adapter, like `used`; 0: the host is not in this queue."""
    used: int
    busy: int
    """Slots that are used in all queues."""
    state: HostState
    is_drained: bool
    """No job starts there, whatever its state."""
    word: str
    """The state as the batch system wrote it."""
    load: float | None
    cpus: int | None
    memory: int | None
    """In bytes."""
    reason: str = ""
    """Why it is drained or down, in Slurm."""
    wanted: Wanted = Wanted.NOTHING

    @property
    def is_usable(self) -> bool:
        return self.state == HostState.UP and not self.is_drained and self.slots > 0


class Finished(NamedTuple):
    """A job, or a task of an array, that has ended."""

    id: str
    task: int | None
    owner: str
    queue: str
    host: str
    slots: int
    submitted: float
    started: float | None
    """None: it ended before it started."""
    ended: float
    status: int
    signal: int
    """0: it ended by itself."""


class History(NamedTuple):
    """The jobs that have ended since `since`, in the order of their ends."""

    jobs: tuple[Finished, ...]
    since: float
    """From when on they are all there. It is later than what was asked for if the batch system has forgotten the
    earlier ones, or if they are too many."""


class NewHost(NamedTuple):
    """A host for `add`."""

    name: str
    slots: int
    memory: int | None = None
    """In bytes. Slurm needs it where jobs ask for memory; Grid Engine takes what the host reports."""
    address: str = ""
    """For a host that the batch system has started; others have their names resolved."""
    is_wanted: bool = False
    """The batch system has it started, so it has it already, with its slots."""


class Done(NamedTuple):
    is_changed: bool
    """False: everything was as wanted before."""


class Refused(NamedTuple):
    """What was asked for cannot be done now, or not at all. `reason`: whose fault, what is unchanged, what to do."""

    reason: str


class Fault(StrEnum):
    MISSING = "missing"
    """The node has no such program."""
    SLOW = "slow"
    SILENT = "silent"
    """The batch system does not answer."""
    RIGHTS = "rights"
    GARBLED = "garbled"
    LARGE = "large"
    FAILED = "failed"


class Unavailable(NamedTuple):
    """The batch system gave no answer, or has not done what it was told. A caller may ask again later."""

    fault: Fault
    reason: str


Outcome: TypeAlias = Done | Refused | Unavailable
"""Of an effect."""


def tasks_of(jobs: Iterable[Job]) -> int:
    return sum(job.tasks for job in jobs)


def slots_of(jobs: Iterable[Job]) -> int:
    return sum(job.tasks * job.slots for job in jobs)


def oldest_of(jobs: Iterable[Job]) -> float | None:
    """When the first of them was submitted."""
    return min((job.submitted for job in jobs if job.submitted is not None), default=None)
