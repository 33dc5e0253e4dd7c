"""The interface of a cell: the batch system of one cluster, for the jobs that leave it and those that come to it.

Each method returns a value for whatever the batch system does, and raises nothing for it. A foreign job is found by
its mark (`Key.mark`), which `look` and `ended` tell for every foreign job, whatever the agent remembers. A job is
submitted in a state in which it does not start, and released by its number when that is on the disk: so a job that
was submitted twice, by an agent that died in between, runs once. Invariants: `look` is one query; a second call of a
deed, or one for a job that has ended, does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from subord.services.batch.records import Refused, Unavailable
from subord.services.transfer.jobs import End, Spec


class Being(StrEnum):
    """The state of a foreign job."""

    HELD = "held"
    """It waits, and does not start before it is released."""
    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDING = "ending"
    """It is being deleted or completed, and is still there."""
    ERROR = "error"
    """It does not start before a person has looked at it."""


class Foreign(NamedTuple):
    """A job with a mark. `id`: of this cell; several jobs may have one mark. `reason`: of the state ERROR, in words;
    it may be "". `is_unstarted`: the cell knows for sure that no process of the job has ever run; False: it may have.
    `owner`: the user, who may have given the job its mark; "": not known."""

    mark: str
    id: str
    being: Being
    reason: str = ""
    is_unstarted: bool = False
    owner: str = ""


class Leaving(NamedTuple):
    """A job of this cell that is in a transfer queue, where the agent has it run elsewhere. `task`: 0: it is no task
    of an array. Tasks are named singly. `user`: whose it is; "": the cell does not tell."""

    job: str
    task: int
    is_suspended: bool = False
    is_ending: bool = False
    user: str = ""


class Look(NamedTuple):
    """What one query has shown. `pending`: how many jobs, tasks of arrays singly, would start if there were room: not
    those that are held or in error; foreign ones count as well. `bound`: job and task of those of this cell that
    wait, were started before, and are held as `bind` does it. `restarting`: those of this cell, bound or not, that
    were started before and wait. `loose`: those of `leaving` that run and are not bound, as far as the cell can tell
    that of a job that runs."""

    pending: int
    foreign: tuple[Foreign, ...]
    leaving: tuple[Leaving, ...] = ()
    bound: tuple[tuple[str, int], ...] = ()
    restarting: tuple[tuple[str, int], ...] = ()
    loose: tuple[tuple[str, int], ...] = ()


class Deed(StrEnum):
    """What is done with foreign jobs; each is for jobs in any state, and does nothing where it does not fit."""

    RELEASE = "release"
    """What is held may start."""
    HOLD = "hold"
    """What waits does not start before it is released."""
    SUSPEND = "suspend"
    """What runs is stopped, and keeps its slots."""
    RESUME = "resume"
    """What is stopped goes on."""
    DELETE = "delete"
    """What waits is removed, and what runs is ended, also if it is stopped or held."""


class Back(StrEnum):
    """How a job of this cell goes back from a transfer queue."""

    AGAIN = "again"
    """It waits, and may leave again."""
    STAY = "stay"
    """It waits, and does not go to a transfer queue any more."""
    ERROR = "error"
    """It does not start before a person has looked at it."""


class Submitted(NamedTuple):
    id: str


class Sought(NamedTuple):
    """A job that is looked for in the accounting. `id`: "": it is not known; all jobs with the mark are meant."""

    mark: str
    id: str = ""


class Ended(NamedTuple):
    """`has_run`: False: it was deleted before it started, or could not be started at all. `owner`: as in Foreign; ""
    only for a job that was sought by its number."""

    mark: str
    id: str
    end: End
    has_run: bool = True
    owner: str = ""


class Cell(Protocol):
    async def look(self) -> Look | Unavailable:
        """At all jobs that have not ended, by one query."""

    async def submit(self, mark: str, user: str, spec: Spec) -> Submitted | Refused | Unavailable:
        """A job that is held, as this user of this cluster, whom the caller has allowed; an array's task singly, by
        its number in the key that `mark` has. `spec.requests` and `spec.queue` are in words of this cell. Refused: it
        can never run here, and was not submitted. Unavailable: it may have been submitted, and may appear later."""

    async def act(self, deed: Deed, ids: Sequence[str]) -> Unavailable | None:
        """With all of these jobs, at most IDS_MAX. None: the batch system took it; what became of it, the next look
        shows."""

    async def ended(self, jobs: Sequence[Sought]) -> Sequence[Ended] | Unavailable:
        """Those of them that the accounting has, which may lag."""

    async def describe(self, jobs: Iterable[str]) -> Mapping[str, Spec | Refused] | Unavailable:
        """What jobs of this cell need that are in a transfer queue, by their number; of an array the same for all
        tasks. Refused: it has what no other cluster can be told of. One query for all."""

    async def bind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        """These jobs of this cell, with their task or 0, which are in a transfer queue, do not start again before
        they are unbound if the cell puts them back, as it does when their host has died: they may still run abroad.
        What they do in the transfer queue goes on."""

    async def unbind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        """Also for jobs that are not bound, or not there any more."""

    async def recall(self, jobs: Sequence[str], queue: str) -> Unavailable | None:
        """These jobs of this cell start again in this transfer queue alone: there they are told how they have ended
        abroad. Also for jobs that are not there any more."""

    async def keep(self, job: str) -> Refused | Unavailable | None:
        """The job of this cell is marked so that it does not go to a transfer queue any more."""

    async def put_back(self, job: str, task: int, back: Back) -> Refused | Unavailable | None:
        """This job of this cell, or task, which ends its starter. Does nothing in a cell whose starter can do it by
        its own end, behind `keep`."""


IDS_MAX = 500
