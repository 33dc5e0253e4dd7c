"""`squeue --json`: how many jobs wait, the foreign ones, and those that have ended within MinJobAge.

Input is its text; outputs are values of interface.py. The mark of a job is its comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from subord.services.batch.arrays import Expansion
from subord.services.batch.records import Finished, Job, JobState
from subord.services.batch.slurm.answers import AnyAnswer, JobAnswer, read
from subord.services.batch.slurm.queue import ENDED, finished_of, records_of
from subord.services.transfer.cells.interface import Being, Ended, Foreign, Look, Sought
from subord.services.transfer.jobs import KILL, MARK, SIGNAL_MAX, STATUS_MAX, End, Usage

_BEINGS: Final = {
    JobState.HELD: Being.HELD,
    JobState.QUEUED: Being.QUEUED,
    JobState.RUNNING: Being.RUNNING,
    JobState.SUSPENDED: Being.SUSPENDED,
    JobState.ENDING: Being.ENDING,
    JobState.ERROR: Being.ERROR,
}
_TOLD: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
"""Ends of which the status or the signal says all."""
_SIGNALS: Final = 128
_NO_FILES: Final = 53
"""What Slurm says instead of a signal."""


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


class CellJobs(AnyAnswer, frozen=True):
    jobs: tuple[CellJob, ...]


class Seen(NamedTuple):
    look: Look
    ended: tuple[Ended, ...]


def seen_in(text: str) -> Seen:
    """Raises AnswerError."""
    jobs = read(text, CellJobs).jobs
    expansion = Expansion()
    pending, foreign = 0, []
    for job in jobs:
        if job.job_state not in ENDED:
            records = list(records_of(job, expansion))
            pending += sum(each.tasks for each in records if each.state == JobState.QUEUED)
            if job.mark and records:
                foreign.append(_foreign(job, records[0]))
    return Seen(Look(pending, tuple(foreign)), tuple(_ended(job) for job in jobs if job.mark and _is_over(job)))


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
