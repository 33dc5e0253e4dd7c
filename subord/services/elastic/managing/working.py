"""The work of each stage, which can be done again at any time.

Input is the record of a node; output is what came of the work. Invariants: nothing is raised for what a batch
system, a supplier or a node does; the batch system is changed for one node after the other; a node is forgotten by
the batch system only after a look, behind its drain, that found no job on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import trio

from subord.services.batch.adapter import Adapter
from subord.services.batch.naming import is_same
from subord.services.batch.records import Done as Settled
from subord.services.batch.records import Host, HostState, JobState, NewHost, Queue, Unavailable, Wanted
from subord.services.elastic.clock import Clock
from subord.services.elastic.managing.advancing import Again, Back, Done, Outcome
from subord.services.elastic.managing.kept import Kept
from subord.services.elastic.managing.needs import Nodes, Store
from subord.services.elastic.plan import Plan
from subord.services.elastic.stages import Record, Stage
from subord.services.elastic.suppliers import Failed, Supplier
from subord.services.elastic.task import Step

STAGES: Final = tuple(Stage)
NAMED: Final = STAGES[STAGES.index(Stage.NAMING) : STAGES.index(Stage.UNNAMING)]
"""The hosts tables have the names of nodes in these stages."""
EXPORTED: Final = STAGES[STAGES.index(Stage.EXPORTING) : STAGES.index(Stage.UNEXPORTING)]
JOBS_NAMED_MAX: Final = 5


class Cluster(NamedTuple):
    """What the manager acts on. `master`: the name of the queue's node in the batch system, and for the supplier.
    `kinds`: slots by kind, of elastic.kinds. `wait_s`: elastic.wait_s. `paid_since`: of the queue's node
    (clock.booted_at). `batch`: elastic.batch, for telling."""

    adapter: Adapter
    supplier: Supplier
    nodes: Nodes
    records: Store
    master: str
    kinds: Mapping[str, int] = {}
    wait_s: float = 900.0
    paid_since: float = 0.0
    batch: str = ""


class Working:
    """The works of one cluster."""

    def __init__(self, cluster: Cluster, plan: Plan, kept: Kept, clock: Clock) -> None:
        self._adapter = cluster.adapter
        self._supplier = cluster.supplier
        self._nodes = cluster.nodes
        self._plan = plan
        self._kept = kept
        self._clock = clock
        self._turn = trio.Lock()
        """Of changes of the batch system: their commands would wait for each other, and be too slow."""

    async def work(self, record: Record) -> Outcome:  # noqa: PLR0911 - a stage each
        match record.stage:
            case Stage.STARTING:
                return await self._start(record)
            case Stage.JOINING:
                return _outcome(self._twin_fault(record) or await self._nodes.joined(record.address))
            case Stage.NAMING:
                return await self._name((record.address,))
            case Stage.USERS:
                return await self._give_users(record)
            case Stage.EXPORTING:
                return _outcome(await self._nodes.export(self._exported)) if self._plan.mounts else Done()
            case Stage.UNEXPORTING:  # also what an earlier plan had exported
                return _outcome(await self._nodes.unexport(self._exported))
            case Stage.MOUNTING:
                return await self._ordered(record, Step.MOUNTS) if self._plan.mounts else Done()
            case Stage.REGISTERING:
                return await self._register(record)
            case Stage.DRAINING:
                return await self._drain(record)
            case Stage.UNNAMING:
                return await self._name(())
            case Stage.STOPPING:
                stopped = await self._supplier.stop(record.name)
                return Again(stopped.reason) if stopped else Done()
        return Done()

    # -- adding ---------------------------------------------------------------------------------------------------

    async def _start(self, record: Record) -> Outcome:
        began = self._clock.now()
        started = await self._supplier.start(record.name, record.kind)
        if isinstance(started, Failed):
            return Again(started.reason)
        return Done(started.address, began if record.paid_since is None else record.paid_since)

    def _twin_fault(self, record: Record) -> str:
        """Of two nodes that the supplier has given one address, the later one is none; "": it is the only one."""
        for each in self._twins(record):
            if each.stage not in (Stage.STARTING, Stage.JOINING) or (each.number, each.name) < (
                record.number,
                record.name,
            ):
                return (
                    f"elastic.start gave {record.name} the address {record.address}, which is that of {each.name}; "
                    "nothing was changed there: correct what starts nodes"
                )
        return ""

    def _twins(self, record: Record) -> list[Record]:
        """Others with its address."""
        others = self._kept.records.values()
        return [each for each in others if each.address == record.address and each.name != record.name]

    async def _name(self, must: tuple[str, ...]) -> Outcome:
        """The table is made in the same step as the call, so a later call has a later table."""
        if not self._plan.has_hosts:
            return Done()
        table = {name: each.address for name, each in self._kept.of(*NAMED).items() if each.address}
        return _outcome(await self._nodes.names(table, must))

    async def _give_users(self, record: Record) -> Outcome:
        """A plan that is published between this and its mounts finds another mark."""
        outcome = await self._ordered(record, Step.USERS) if self._plan.users else Done()
        return Done(prepared=self._plan.mark) if isinstance(outcome, Done) else outcome

    async def renew(self, record: Record) -> Outcome:
        """The users and mounts of this plan for a node that serves."""
        if self._plan.users and isinstance(outcome := await self._ordered(record, Step.USERS), Again):
            return outcome
        if not self._plan.mounts:
            return Done()
        fault = await self._nodes.export(self._exported)
        return Again(fault) if fault else await self._ordered(record, Step.MOUNTS)

    @property
    def _exported(self) -> set[str]:
        return {each.address for each in self._kept.of(*EXPORTED).values() if each.address}

    async def _ordered(self, record: Record, step: Step) -> Outcome:
        said = await self._nodes.order(record.address, step)
        return _outcome(said if isinstance(said, str) else said.fault)

    async def _register(self, record: Record) -> Outcome:
        """The batch system has to know the host before its daemon comes."""
        async with self._turn:
            added = await self._adapter.add(
                NewHost(record.name, record.slots, address=record.address, is_wanted=record.is_wanted)
            )
        if not isinstance(added, Settled):
            return Again(added.reason)
        ordered = await self._ordered(record, Step.DAEMON)
        if isinstance(ordered, Again):
            return ordered
        host = await self._host(record.name)
        if isinstance(host, Unavailable):
            return Again(host.reason)
        if host is not None and host.is_drained and not record.is_wanted:
            async with self._turn:
                await self._adapter.undrain(host.name)
            host = await self._host(record.name)
        if isinstance(host, Unavailable):
            return Again(host.reason)
        if host is None or not _has_come(host, record):
            said = f" ({host.word})" if host is not None and host.word else ""
            return Again(f"the batch daemon of the node has not reported yet{said}: see its log on {record.address}")
        return Done()

    # -- removing -------------------------------------------------------------------------------------------------

    async def _drain(self, record: Record) -> Outcome:
        """Look, drain, look again, and have the batch system forget it. A node that the batch system has named is
        drained by its power-down already."""
        host = await self._host(record.name)
        if isinstance(host, Unavailable):
            return Again(host.reason)
        if record.is_wanted:
            if host is not None and host.wanted == Wanted.STAY and host.state == HostState.UP and not record.is_lost:
                return Back()
        elif host is not None:
            async with self._turn:
                drained = await self._adapter.drain(host.name, record.reason)
            if not isinstance(drained, Settled):
                return Again(drained.reason)
            hindrance = await self._hindrance(record)
            if hindrance is not None:
                return hindrance
        async with self._turn:
            removed = await self._adapter.remove(record.name)
        if not isinstance(removed, Settled):
            return Again(removed.reason)
        if record.address and not record.is_undone and not record.is_lost and not self._twins(record):
            # It ends soon in any case. The address of one that never served may be that of another node, and that of
            # one that has vanished may be so by now: its batch daemon would stop under its jobs.
            await self._nodes.order(record.address, Step.LEAVE)
        return Done()

    async def _hindrance(self, record: Record) -> Outcome | None:
        """What a drained node still has to do. Jobs that wait since are a reason to let it serve again."""
        queue, host = await self._adapter.queue(), await self._host(record.name)
        for each in (queue, host):
            if isinstance(each, Unavailable):
                return Again(each.reason)
        assert isinstance(queue, Queue)
        if host is None:
            return None
        assert isinstance(host, Host)
        there = jobs_on(queue, host)
        waits = any(job.state == JobState.QUEUED and job.may_use(self._queue_name) for job in queue.jobs)
        may_serve = host.state == HostState.UP and not record.is_undone and not record.is_lost
        if may_serve and (there or waits):
            async with self._turn:
                back = await self._adapter.undrain(host.name)
            return Back() if isinstance(back, Settled) else Again(back.reason)
        return Again(f"{there}; the node is removed when they have ended") if there else None

    @property
    def _queue_name(self) -> str:
        return self._plan.options.queue if self._plan.options is not None else ""

    async def _host(self, name: str) -> Host | Unavailable | None:
        """None: the batch system has no such host."""
        hosts = await self._adapter.hosts()
        if isinstance(hosts, Unavailable):
            return hosts
        return next((each for each in hosts if is_same(each.name, name)), None)


def jobs_on(queue: Queue, host: Host) -> str:
    """Which jobs have slots on a host; "": none."""
    there = sorted({job.id for job in queue.jobs for place in job.places if is_same(place.host, host.name)})
    if there:
        more = f" and {len(there) - JOBS_NAMED_MAX} more" if len(there) > JOBS_NAMED_MAX else ""
        return f"jobs {', '.join(there[:JOBS_NAMED_MAX])}{more} are there"
    busy = max(host.used, host.busy)
    return f"{busy} slots are used there" if busy else ""


def _has_come(host: Host, record: Record) -> bool:
    """A person may have drained a node that the batch system has named: it stays so."""
    return host.is_usable or (record.is_wanted and host.state == HostState.UP)


def _outcome(fault: str) -> Outcome:
    return Again(fault) if fault else Done()
