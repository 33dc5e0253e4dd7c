"""What the queue's node reads of a batch system that goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from subord.services.batch.records import Fault, Host, HostState, Job, JobState, Place, Queue, Unavailable
from subord.services.machines.managing.batching import BatchSide, Reading
from subord.services.machines.plan import Plan, Type

PLAN = Plan(manager=1, types=(Type(name="alma", template="alma", queues=("long",), memory_mb=1024, image_mb=1),))
SILENT = Unavailable(Fault.SILENT, "it does not answer")


class Going:
    """At its second answer the job that waited has started on alma-001."""

    def __init__(self, **faults: Unavailable) -> None:
        self.answers = 0
        self._faults = faults

    @property
    def has_started(self) -> bool:
        self.answers += 1
        return self.answers > 1

    async def queue(self) -> Queue | Unavailable:
        has_started = self.has_started
        state, places = (JobState.RUNNING, (Place("alma-001", 1),)) if has_started else (JobState.QUEUED, ())
        queue, queues = ("long", ()) if has_started else ("", ("long",))
        job = Job("7", None, "ann", "sim", state, "", 1, 0.0, None, queue, queues, places)
        return self._faults.get("queue", Queue((job,), 0.0))

    async def hosts(self) -> tuple[Host, ...] | Unavailable:
        used = int(self.has_started)
        host = Host(
            "alma-001", 1, used, used, HostState.UP, is_drained=False, word="", load=None, cpus=1, memory=None
        )
        return self._faults.get("hosts", (host,))


def side_of(batch: Going) -> BatchSide:
    adapter: Callable[[str], Any] = lambda _: batch  # noqa: E731
    return BatchSide(PLAN, adapter, sees_all=True)


async def test_a_job_that_starts_meanwhile_does_not_wait_for_another_machine() -> None:
    """Otherwise its own machine is busy while it still waits, and a second one is cloned for it."""
    for _ in range(20):  # tasks start in any order
        side = side_of(Going())
        reading = await side.read()
        assert isinstance(reading, Reading)
        found = side.join(reading, ["alma-001"])
        assert not (found.batch.jobs and found.batch.hosts["alma-001"].busy)


async def test_without_one_of_the_answers_nothing_is_read() -> None:
    for name in ("queue", "hosts"):
        assert await side_of(Going(**{name: SILENT})).read() == SILENT.reason
