"""`squeue --json`: how many jobs wait, the foreign ones, and those that have ended within MinJobAge.

Input is its text; outputs are values of interface.py. The mark of a job is its comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from subord.services.batch.arrays import Expansion
from subord.services.batch.records import Finished, Job, JobState
from subord.services.batch.slurm.answers import AnyAnswer, JobAnswer, read
from subord.services.batch.slurm.queue import ENDED, finished_of, records_of, state_of
from subord.services.transfer.cells.interface import Being, Ended, Foreign, Leaving, Look, Sought
from subord.services.transfer.jobs import KILL, MARK, SIGNAL_MAX, STATUS_MAX, End, Usage

_BEINGS: Final = {
    JobState.HELD: Being.HELD,
    JobState.QUEUED: Being.QUEUED,
    JobState.RUNNING: Being.RUNNING,
    JobState.SUSPENDED: Being.SUSPENDED,
    JobState.ENDING: Being.ENDING,
    JobState.ERROR: Being.ERROR,
}
_STARTED: Final = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.ENDING})
_TOLD: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
"""Ends of which the status or the signal says all."""
_SIGNALS: Final = 128
_NO_FILES: Final = 53
"""What Slurm says instead of a signal."""
ENDING_S: Final = 60
"""So long a job that has ended in a transfer partition is shown, so that its end abroad follows."""
_RESTARTS: Final = frozenset({"PENDING", "COMPLETING"})
_BOUND: Final = "JobHeldAdmin"


class CellJob(JobAnswer, frozen=True):
    comment: str | None = None
    restart_cnt: int | None = None

    @property
    def number(self) -> str:
        return str(self.array_job_id or self.job_id)

    @property
    def mark(self) -> str:
        """Of a foreign job; "": it is none."""
        return self.comment if self.comment and self.comment.startswith(f"{MARK}.") else ""

    @property
    def work(self) -> tuple[str, int]:
        return self.number, self.array_task_id or 0

    @property
    def word(self) -> str:
        """By which scontrol knows it, and no other task."""
        return f"{self.number}_{self.array_task_id or 0}" if self.array_job_id else self.number

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.partition or "").split(",")))


class CellJobs(AnyAnswer, frozen=True):
    jobs: tuple[CellJob, ...]


class Seen(NamedTuple):
    """`words`: of jobs of this cell that are in transfer partitions, or restart."""

    look: Look
    ended: tuple[Ended, ...]
    words: dict[tuple[str, int], str]


def seen_in(text: str, transfer: Sequence[str] = (), now: float = 0.0) -> Seen:
    """`transfer`: the partitions whose jobs leave. `now`: in seconds since 1970. Raises AnswerError."""
    jobs = read(text, CellJobs).jobs
    expansion = Expansion()
    pending, foreign = 0, []
    for job in jobs:
        if job.job_state not in ENDED:
            records = list(records_of(job, expansion))
            if not set(job.partitions) <= set(transfer):
                pending += sum(each.tasks for each in records if each.state == JobState.QUEUED)
            if job.mark and records:
                foreign.append(_foreign(job, records[0]))
    own = [job for job in jobs if not job.mark and set(job.partitions) & set(transfer)]
    leaving = [job for job in own if _leaves(job, now)]
    again = [job for job in own if job.job_state in _RESTARTS and job.restart_cnt]
    bound = [job for job in again if job.job_state == "PENDING" and job.state_reason == _BOUND]
    look = Look(
        pending,
        tuple(foreign),
        tuple(map(_leaving, leaving)),
        tuple(job.work for job in bound),
        tuple(job.work for job in again),
        tuple(job.work for job in leaving if job.job_state not in ENDED and job.priority),
    )
    words = {job.work: job.word for job in (*leaving, *again)}
    return Seen(look, tuple(_ended(job) for job in jobs if job.mark and _is_over(job)), words)


def _leaves(job: CellJob, now: float) -> bool:
    """Whether it is in a transfer partition, or has just ended there."""
    if job.job_state in ENDED:
        return bool(job.nodes) and job.end_time + ENDING_S > now
    if job.job_state == "COMPLETING" and job.restart_cnt:
        return False  # it may have been put back
    return state_of(job.job_state, job.state_reason or "") in _STARTED


def _leaving(job: CellJob) -> Leaving:
    state = state_of(job.job_state, "")
    is_ending = job.job_state in ENDED or state == JobState.ENDING
    return Leaving(*job.work, state == JobState.SUSPENDED, is_ending, job.user_name or str(job.user_id))


def sought_among(ended: Iterable[Ended], jobs: Iterable[Sought]) -> Iterator[Ended]:
    """Those of them that are looked for."""
    wanted = {(each.mark, each.id) for each in jobs}
    return (each for each in ended if {(each.mark, each.id), (each.mark, "")} & wanted)


def end_of(finished: Finished, word: str) -> End:
    """`word`: the state in which Slurm has it."""
    if finished.signal == _NO_FILES:
        return End(status=1, failed="Slurm could not open its files, or enter its directory", usage=_usage(finished))
    is_cut = word == "CANCELLED" and not (finished.status or finished.signal)
    is_cut = is_cut or not 0 <= finished.signal <= SIGNAL_MAX
    return End(
        status=_SIGNALS + KILL if is_cut else min(max(finished.status, 0), STATUS_MAX),
        signal=KILL if is_cut else finished.signal,
        failed="" if word in _TOLD else f"Slurm says {word}",
        usage=_usage(finished),
    )


def _usage(finished: Finished) -> Usage:
    return Usage(
        host=finished.host,
        submitted=finished.submitted,
        started=finished.started,
        ended=finished.ended,
        wall_s=None if finished.started is None else max(0.0, finished.ended - finished.started),
    )


def _foreign(job: CellJob, record: Job) -> Foreign:
    being = _BEINGS.get(record.state, Being.ERROR)
    reason = f"{job.job_state}: {job.state_description or job.state_reason}" if being == Being.ERROR else ""
    is_unstarted = job.job_state == "PENDING" and job.restart_cnt == 0
    return Foreign(job.mark, job.number, being, reason[:300], is_unstarted, record.owner)


def _is_over(job: CellJob) -> bool:
    return job.job_state in ENDED and job.end_time > 0


def _ended(job: CellJob) -> Ended:
    finished = finished_of(job)
    return Ended(job.mark, job.number, end_of(finished, job.job_state), finished.started is not None, finished.owner)
