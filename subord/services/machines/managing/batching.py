"""What the manager asks and tells the batch system, by the adapters of services/batch.

Inputs are names of machines and types of the plan; outputs are jobs and hosts, and texts that say why something was
not done. Invariants: nothing is raised for what the batch system does; a host that is added is closed, as far as the
batch system can, until it is opened for a job; one with a job is not removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import trio

from subord.services.batch.adapter import Adapter
from subord.services.batch.records import Done, NewHost, Outcome, Queue, Unavailable
from subord.services.batch.records import Host as BatchHost
from subord.services.machines.managing.joining import Joined, joined
from subord.services.machines.plan import Plan, Type

SLURM: Final = "slurm"
REASON: Final = "closed by the plan of machines"
LATE: Final = "its time was over before it could be done"
CUT: Final = "the batch system had not done it when its time was over, and its command was ended"
AT_ONCE_MAX: Final = 4
"""Changes, as adapters run at most four commands at once."""
_MIB: Final = 1 << 20


class Reading(NamedTuple):
    """What the batch system says, whatever machines there are."""

    hosts: tuple[BatchHost, ...]
    queue: Queue


class BatchSide:
    """`adapter`: for a queue. `sees_all`: the hosts that one of them has are those of all queues."""

    def __init__(self, plan: Plan, adapter: Callable[[str], Adapter], *, sees_all: bool) -> None:
        self._plan = plan
        self._adapters = {queue: adapter(queue) for queue in plan.by_queue()}
        self._readers = [adapter("")] if sees_all else [self._adapters[each.queues[0]] for each in plan.types]
        self._changes = trio.CapacityLimiter(AT_ONCE_MAX)
        self.registered: frozenset[str] = frozenset()
        """Machines that were hosts in the last reading."""

    async def read(self) -> Reading | str:
        """All hosts, and then all that waits; why there is no answer. In the other order a job that starts between
        the two would wait while its own machine is busy, and get a second one."""
        hosts = await self._hosts()
        if isinstance(hosts, Unavailable):
            return hosts.reason
        queue = await self._readers[0].queue()
        if isinstance(queue, Unavailable):
            return queue.reason
        return Reading(tuple(hosts), queue)

    def join(self, found: Reading, machines: Iterable[str]) -> Joined:
        """`machines`: all that are known by now. A host that is none of them would not count as a machine."""
        result = joined(found.queue.jobs, found.hosts, machines, self._plan)
        self.registered = result.registered
        return result

    async def _hosts(self) -> list[BatchHost] | Unavailable:
        answers = list[tuple[BatchHost, ...] | Unavailable]()

        async def ask(adapter: Adapter) -> None:
            answers.append(await adapter.hosts())

        async with trio.open_nursery() as nursery:
            for each in self._readers:
                nursery.start_soon(ask, each)
        hosts = list[BatchHost]()
        for answer in answers:
            if isinstance(answer, Unavailable):
                return answer
            hosts += answer
        return hosts

    async def open(self, machine: str, left_s: Callable[[], float]) -> str:
        """Jobs may start there. `left_s`: of its time; a machine that is opened later may be stopped by then."""
        async with self._changes:
            if (within_s := left_s()) < 0:
                return LATE
            with trio.move_on_after(within_s):
                return _fault(await self._any.undrain(machine))
            return CUT

    async def close(self, machine: str, left_s: Callable[[], float]) -> str:
        """No job starts there. `left_s`: as in `open`; what has begun goes on."""
        async with self._changes:
            return _fault(await self._any.drain(machine, REASON)) if left_s() >= 0 else LATE

    async def add(self, machine: str, kind: Type) -> str:
        """Of a machine that starts: its batch daemon is expected. Slurm closes no host that has never come."""
        async with self._changes:
            for queue in kind.queues:
                added = await self._adapters[queue].add(NewHost(machine, kind.slots, memory_of(kind)))
                if not isinstance(added, Done):
                    return added.reason
            closed = await self._any.drain(machine, REASON)
            return closed.reason if isinstance(closed, Unavailable) else ""

    async def remove(self, machine: str) -> str:
        """Of a machine that is to be deleted."""
        async with self._changes:
            return _fault(await self._any.remove(machine))

    @property
    def _any(self) -> Adapter:
        return self._readers[0]


def memory_of(kind: Type) -> int:
    """Bytes that a batch system can give to jobs: the system of the guest has its part."""
    return max(1, kind.memory_mb * 7 // 8 - 64) * _MIB


def _fault(outcome: Outcome) -> str:
    return "" if isinstance(outcome, Done) else outcome.reason
