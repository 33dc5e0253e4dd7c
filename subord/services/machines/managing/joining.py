"""Jobs and hosts of the batch system as the rounds see them. Pure.

Inputs are records of the adapters (services/batch) and the names of machines; output is a Batch. A machine is the
host of its name, with or without a domain. Invariant: a job is of one queue of the plan at most, the first that it
may use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from subord.services.batch.naming import naming
from subord.services.batch.records import Host as BatchHost
from subord.services.batch.records import HostState, JobState, tasks_of
from subord.services.batch.records import Job as BatchJob
from subord.services.machines.managing.rounds import Batch, Host
from subord.services.machines.model import Job
from subord.services.machines.plan import Plan


class Joined(NamedTuple):
    """`registered`: machines that the batch system has as hosts. `running`: jobs in the queues of the plan."""

    batch: Batch
    registered: frozenset[str] = frozenset()
    running: int = 0


def joined(jobs: Iterable[BatchJob], hosts: Iterable[BatchHost], machines: Iterable[str], plan: Plan) -> Joined:
    """`hosts`: of more than one queue a host comes once for each; the one with slots counts."""
    queues, all_jobs = tuple(plan.by_queue()), tuple(jobs)
    known = set(machines)
    named = naming(known)
    found = dict[str, BatchHost]()
    for each in hosts:
        name = named(each.name)
        if name not in found or each.slots:
            found[name] = each
    waiting = tuple(_waiting(each, queues) for each in all_jobs if each.state == JobState.QUEUED)
    alive = (name for name, each in found.items() if name not in known and (is_up(each) or each.busy or each.used))
    return Joined(
        Batch(waiting, {name: _host(each) for name, each in found.items() if name in known}, frozenset(alive)),
        frozenset(name for name, each in found.items() if each.slots),
        tasks_of(each for each in all_jobs if each.state == JobState.RUNNING and each.queue in queues),
    )


def is_up(host: BatchHost) -> bool:
    return host.state in (HostState.UP, HostState.SUSPENDED)


def _host(host: BatchHost) -> Host:
    is_open = host.slots > 0 and not host.is_drained and host.state != HostState.SUSPENDED
    return Host(is_up(host), is_open, max(host.used, host.busy))


def _waiting(job: BatchJob, queues: tuple[str, ...]) -> Job:
    queue = next((each for each in queues if job.may_use(each)), ", ".join(job.queues))
    return Job(job.id, queue, job.slots, job.tasks)
