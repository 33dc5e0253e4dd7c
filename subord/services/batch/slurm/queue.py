"""`squeue --json`: all jobs that slurmctld knows, also those that have ended within MinJobAge.

Input is its text; outputs are records of jobs, and of those that have ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from subord.services.batch.arrays import Expansion, ranges_of
from subord.services.batch.faults import AnswerError
from subord.services.batch.records import Finished, Job, JobState, Place
from subord.services.batch.slurm.answers import JobAnswer, JobsAnswer, Resources, read

WORDS: Final = ("squeue", "--json")
ENDED: Final = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
)
STATES: Final = {
    "CONFIGURING": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "RUNNING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.ENDING,
    "COMPLETING": JobState.ENDING,
    "STOPPED": JobState.SUSPENDED,
    "SUSPENDED": JobState.SUSPENDED,
    "REQUEUE_HOLD": JobState.HELD,
    "RESV_DEL_HOLD": JobState.HELD,
    "REQUEUED": JobState.QUEUED,
    "SPECIAL_EXIT": JobState.ERROR,
}
NEVER: Final = re.compile(
    r"BadConstraints|DependencyNeverSatisfied|Invalid(Account|QOS)|AccountNotAllowed|QOSNotAllowed"
)
WAITS: Final = re.compile(
    r"JobHeld|Dependency$|BeginTime|JobArrayTaskLimit|Licenses|Assoc|QOS|Reservation|Cleaning|DeadLine|MaxJobs|FedJobLock|BurstBuffer"
)
"""Reasons for which a job waits however many nodes there are. Other ones, such as Resources, Priority and
PartitionConfig (fewer nodes than it asks for), end when there are more."""
CLOSED: Final = re.compile(r"Partition(Down|Inactive|TimeLimit)")
"""The same, of one partition. The job may ask for other ones, too, and has the reason of the last one."""
LAUNCH: Final = "launch failed"


def jobs_in(text: str, expansion: Expansion | None = None) -> list[Job]:
    """Those that have not ended, in the order of their priorities. Raises AnswerError."""
    expansion = expansion or Expansion()
    return [
        job
        for each in sorted(read(text, JobsAnswer).jobs, key=lambda each: -(each.priority or 0))
        if each.job_state not in ENDED
        for job in records_of(each, expansion)
    ]


def finished_in(text: str) -> list[Finished]:
    """Raises AnswerError."""
    ended = (each for each in read(text, JobsAnswer).jobs if each.job_state in ENDED and each.end_time)
    return sorted(map(finished_of, ended), key=lambda each: each.ended)


def records_of(answer: JobAnswer, expansion: Expansion) -> Iterator[Job]:
    """Of one that has not ended. Raises AnswerError."""
    job = _job(answer)
    if not answer.array_task_string:
        return iter((job,))
    try:
        return expansion.jobs(job, ranges_of(answer.array_task_string))
    except ValueError as error:
        raise AnswerError(f"job {answer.job_id}: {error}") from None


def _job(answer: JobAnswer) -> Job:
    partition, slots = answer.partition or "", answer.cpus or 1
    queues = tuple(filter(None, partition.split(",")))
    state = state_of(answer.job_state, answer.state_reason or "", answer.state_description or "", len(queues))
    waits = state in (JobState.QUEUED, JobState.HELD, JobState.ERROR)
    return Job(
        id=str(answer.array_job_id or answer.job_id),
        task=answer.array_task_id,
        owner=answer.user_name or str(answer.user_id),
        name=answer.name or "",
        state=state,
        word=f"{answer.job_state} ({answer.state_reason})" if waits else answer.job_state,
        slots=slots,
        submitted=float(answer.submit_time),
        started=None if waits or not answer.start_time else float(answer.start_time),
        queue="" if waits else partition,
        queues=queues if waits else (),
        places=() if waits else places_of(answer.job_resources, slots),
        requests=tuple(_requests(answer)),
    )


def state_of(word: str, reason: str, description: str = "", partitions: int = 1) -> JobState:
    """The meaning of a state, and of the reason for which a job waits."""
    if word != "PENDING":
        return STATES.get(word, JobState.OTHER)
    if NEVER.search(reason) or description.startswith(LAUNCH):
        return JobState.ERROR
    is_closed = partitions == 1 and CLOSED.search(reason)
    return JobState.HELD if is_closed or WAITS.search(reason) else JobState.QUEUED


def places_of(resources: Resources | None, slots: int) -> tuple[Place, ...]:
    """The answer has cores for each node, and CPUs, of which a core may have several, for all of them."""
    nodes = () if resources is None else resources.allocated_nodes
    cores = sum(each.cores for each in nodes)
    return tuple(Place(each.nodename, slots * each.cores // cores if cores else 0) for each in nodes)


def _requests(answer: JobAnswer) -> Iterator[tuple[str, str]]:
    for each in (answer.tres_req_str or "").split(","):
        name, equals, value = each.partition("=")
        if equals:
            yield name, value
    if answer.features:
        yield "features", answer.features
    if answer.required_nodes:
        yield "nodelist", answer.required_nodes


def finished_of(answer: JobAnswer) -> Finished:
    places = places_of(answer.job_resources, answer.cpus or 1)
    code = answer.exit_code or 0
    signal = code & 127
    has_run = bool(answer.nodes)
    return Finished(
        id=str(answer.array_job_id or answer.job_id),
        task=answer.array_task_id,
        owner=answer.user_name or str(answer.user_id),
        queue=answer.partition or "",
        host=places[0].host if places else "",
        slots=answer.cpus or 1,
        submitted=float(answer.submit_time),
        started=float(answer.start_time) if has_run else None,
        ended=float(answer.end_time),
        status=128 + signal if signal else code >> 8 & 255,
        signal=signal,
    )
