"""What jobs in a transfer partition need: `squeue --json`.

Input is its text; outputs are specs, or why a job cannot run elsewhere. Requests are called as the options of sbatch.
The script, its words, the environment and the paths of the output are known to the starter alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from subord.services.batch.records import Refused
from subord.services.batch.slurm.answers import AnyAnswer, read
from subord.services.transfer.cells.slurm.looking import CellJob
from subord.services.transfer.cells.slurm.submitting import ONE_NODE
from subord.services.transfer.jobs import Spec

TASKS: Final = "tasks"
"""The name of the parallel environment of a job whose tasks may be on several nodes."""
UNLIMITED_MINUTES: Final = 365 * 24 * 60
"""The time limit of a job that has none."""
_STAYS: Final = "nothing was changed: it can run in its own cluster only"


class NeedyJob(CellJob, frozen=True):
    batch_flag: bool = True
    het_job_id: int | None = None
    current_working_directory: str | None = None
    tasks: int | None = None
    max_nodes: int | None = None
    cpus_per_task: int | None = None
    time_limit: int | None = None
    """In minutes, as it counts for a job that has started."""
    memory_per_node: int | None = None
    """In MiB, as the next one."""
    memory_per_cpu: int | None = None
    tres_per_node: str | None = None
    licenses: str | None = None
    resv_name: str | None = None
    requeue: bool = False


class NeedyJobs(AnyAnswer, frozen=True):
    jobs: tuple[NeedyJob, ...]


def specs_in(text: str, wanted: Collection[str]) -> dict[str, Spec | Refused]:
    """By the number of the job; of an array that of any task which has started. Raises AnswerError."""
    found = dict[str, Spec | Refused]()
    for job in read(text, NeedyJobs).jobs:
        if job.number in wanted and (job.number not in found or job.nodes):
            found[job.number] = _described(job)
    return found


def _described(job: NeedyJob) -> Spec | Refused:
    if (reason := _only_here(job)) is not None:
        return Refused(f"job {job.number} has {reason}; {_STAYS}")
    slots = job.tasks or 1
    one_node = ONE_NODE if job.max_nodes == 1 else TASKS
    spec = Spec(
        user=job.user_name or str(job.user_id),
        name=job.name or "",
        script="",
        directory=job.current_working_directory or "",
        requests=tuple(_requests(job)),
        parallel=one_node if slots > 1 else "",
        slots=slots,
        may_rerun=job.requeue,
    )
    try:
        msgspec.json.decode(msgspec.json.encode(spec), type=Spec)
    except (msgspec.ValidationError, ValueError) as error:
        return Refused(f"job {job.number} has more than another cluster can be told of ({error}); {_STAYS}")
    return spec


def _only_here(job: NeedyJob) -> str | None:
    if job.mark:
        return "the mark of a job of another cluster"
    if not job.batch_flag:
        return "no script"
    if job.het_job_id:
        return "parts with different needs"
    return "a reservation" if job.resv_name else None


def _requests(job: NeedyJob) -> Iterator[tuple[str, str]]:
    if job.time_limit is not None and 0 < job.time_limit < UNLIMITED_MINUTES:
        yield "time", str(job.time_limit)
    if job.memory_per_node:
        yield "mem", f"{job.memory_per_node}M"
    elif job.memory_per_cpu:
        yield "mem-per-cpu", f"{job.memory_per_cpu}M"
    if job.cpus_per_task is not None and job.cpus_per_task > 1:
        yield "cpus-per-task", str(job.cpus_per_task)
    if job.features:
        yield "constraint", job.features
    if job.tres_per_node:
        yield "gres", ",".join(each.removeprefix("gres:") for each in job.tres_per_node.split(","))
    if job.licenses:
        yield "licenses", job.licenses
