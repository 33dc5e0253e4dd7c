"""What qstat shows of a cell: how many jobs wait, the foreign ones, and those in transfer queues.

Inputs are records of jobs, and which of them have which marks; outputs are values of interface.py. Marks are in the
account of a job, and in its context if it was bound; only `qstat -j` shows them, with the reasons of errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from subord.services.batch.gridengine.xml import elements
from subord.services.batch.records import Job, JobState, tasks_of
from subord.services.transfer.cells.interface import Being, Foreign, Leaving, Look
from subord.services.transfer.jobs import MARK, REASON_MAX

_BEINGS: Final = {
    JobState.HELD: Being.HELD,
    JobState.QUEUED: Being.QUEUED,
    JobState.RUNNING: Being.RUNNING,
    JobState.SUSPENDED: Being.SUSPENDED,
    JobState.ENDING: Being.ENDING,
    JobState.ERROR: Being.ERROR,
}
_BOUND: Final = frozenset("hRq")
"""The letters of a job that waits, was started before, and is held: qstat does not tell by which hold."""
BOND: Final = "subord_bound"
"""The variable in the context of a job that was bound. Other holds are the administrator's."""
_RESTARTING: Final = frozenset("Rq")
_TAGS: Final = ("JB_job_number", "JB_account", "QIM_message", "JB_env_list", "VA_variable", "JB_context")


class Detail(NamedTuple):
    """`mark`: "": the job is of this cluster. `reason`: why it is in error. `was_bound`: it, or a task of it."""

    mark: str
    reason: str = ""
    was_bound: bool = False


def details_in(text: str) -> dict[str, Detail]:
    """Of the jobs in the output of `qstat -j NUMBERS -xml`, by their numbers. Raises AnswerError."""
    found: dict[str, Detail] = {}
    job, variables = "", set[str]()
    for element in elements(text, *_TAGS):
        value = (element.text or "").strip()
        match element.tag:
            case "JB_job_number":
                job = value
                found[job] = Detail("")
            case "JB_account":
                found[job] = Detail(value if value.startswith(f"{MARK}.") else "")
            case "VA_variable":
                variables.add(value)
            case "JB_env_list":  # whose variables have come before its end
                variables.clear()
            case "JB_context":
                found[job] = found[job]._replace(was_bound=BOND in variables)
            case _ if job:
                found[job] = found[job]._replace(reason=" ".join(value.split())[:REASON_MAX])
    return found


def look_of(jobs: Iterable[Job], details: Mapping[str, Detail], transfer: Sequence[str]) -> Look:
    """`transfer`: the names of transfer queues, where nothing runs that waits for its own cluster."""
    jobs = list(jobs)
    waiting = [job for job in jobs if job.state == JobState.QUEUED and not _is_for(transfer, job)]
    foreign = [_foreign(job, detail) for job in jobs if (detail := details.get(job.id)) and detail.mark]
    leaving = [
        Leaving(job.id, job.task or 0, job.state == JobState.SUSPENDED, job.state == JobState.ENDING, job.owner)
        for job in jobs
        if job.queue in transfer and not (details.get(job.id) or Detail("")).mark
    ]
    bound = [
        (job.id, job.task or 0)
        for job in jobs
        if set(job.word) >= _BOUND and (details.get(job.id) or Detail("")).was_bound
    ]
    restarting = [(job.id, job.task or 0) for job in jobs if set(job.word) >= _RESTARTING]
    return Look(tasks_of(waiting), tuple(foreign), tuple(leaving), tuple(bound), tuple(restarting))


def _is_for(transfer: Sequence[str], job: Job) -> bool:
    """Whether it may run in no other queue."""
    return bool(job.queues) and {each.partition("@")[0] for each in job.queues} <= set(transfer)


def _foreign(job: Job, detail: Detail) -> Foreign:
    being = _BEINGS.get(job.state, Being.ERROR)
    reason = "" if being != Being.ERROR else detail.reason or f"its state is {job.word!r}"
    is_unstarted = "q" in job.word and "R" not in job.word
    return Foreign(detail.mark, job.id, being, reason, is_unstarted, job.owner)
