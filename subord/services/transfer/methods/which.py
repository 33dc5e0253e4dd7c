"""Which job a method is for: the environment that the batch system gives to methods of a job."""

from __future__ import annotations

from collections.abc import Mapping


def job_in(environment: Mapping[str, str]) -> tuple[str, int]:
    """Its number, and that of its task; 0: it is no array. Raises ValueError."""
    job, task = environment.get("JOB_ID", ""), environment.get("SGE_TASK_ID", "undefined")
    if not job.isdigit():
        raise ValueError("there is no JOB_ID in the environment")
    return job, int(task) if task.isdigit() else 0
