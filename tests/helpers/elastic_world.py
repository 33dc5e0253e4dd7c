"""A batch system, a supplier and nodes for the manager of an elastic cluster, by the clock of trio.

Everything is as wanted or not as in reality: a job runs only where a batch daemon runs, a daemon starts only on a
node that has users and mounts, a mount needs an export. What must never be is collected in `wrongs`.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf

import trio

from subord.runtime.elastic.state import State
from subord.services.batch.records import (
    Done,
    Fault,
    Finished,
    History,
    Host,
    HostState,
    Job,
    JobState,
    NewHost,
    Outcome,
    Place,
    Queue,
    Refused,
    Unavailable,
)
from subord.services.elastic.records import Counters
from subord.services.elastic.stages import Record, Stage
from subord.services.elastic.suppliers import Failed, Started
from subord.services.elastic.task import Result, Step

BASE = 1_800_000_000.0
MASTER = "master"
QUEUE = "all.q"
SILENT = Unavailable(Fault.SILENT, "the batch system does not answer")


class Killed(BaseException):
    """The manager's process was killed."""


class Life:
    """Of one process of the manager."""

    is_dead = False


def now() -> float:
    return BASE + trio.current_time()


@dataclass
class Task:
    """A job of the batch system."""

    id: int
    slots: int
    submitted: float
    lasts_s: float
    host: str = ""
    started: float = 0.0
    ended: float = 0.0


@dataclass
class Machine:
    """A node that the supplier has started."""

    name: str
    address: str
    kind: str
    started: float
    up_at: float
    is_dead: bool = False
    has_users: bool = False
    has_mounts: bool = False
    has_daemon: bool = False


@dataclass
class Registered:
    slots: int
    is_drained: bool = False


class Disk:
    """Records that outlive the manager."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.counted = Counters()
        self.begun = 0

    def all(self) -> dict[str, Record]:
        return dict(self.records)

    def counters(self) -> Counters:
        return self.counted

    def put(self, *records: Record, counters: Counters | None = None) -> None:
        self.begun += len({each.name for each in records} - self.records.keys())
        self.records.update({each.name: each for each in records})
        self.counted = counters or self.counted

    def drop(self, *names: str, counters: Counters | None = None) -> None:
        for name in names:
            self.records.pop(name, None)
        self.counted = counters or self.counted


@dataclass
class World:
    """`deadly`: how probable it is that the manager is killed at a call. `rush`: that a job comes and starts when a
    node is about to be drained. `boot_s`: until a node answers. `down_until`: by what does not work: "batch",
    "supplier", "list",
    "orders". `slots`: of a machine, by kind. `history_s`: how long the
    question for jobs that have ended takes."""

    seed: int = 0
    tick_s: float = 5.0
    boot_s: float = 30.0
    master_slots: int = 2
    slots: Mapping[str, int] = field(default_factory=lambda: {"": 2})
    has_list: bool = True
    max_nodes: int = 10_000
    min_nodes: int = 0
    disk: Disk = field(default_factory=Disk)
    down_until: dict[str, float] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    hosts: dict[str, Registered] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    ended: list[Task] = field(default_factory=list)
    table: dict[str, str] = field(default_factory=dict)
    exports: set[str] = field(default_factory=set)
    wrongs: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    paid_s: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    is_master_ended: bool = False
    lost: int = 0
    most_works: int = 0
    backs: int = 0
    killed: int = 0
    deadly: float = 0.0
    rush: float = 0.0
    is_held: bool = False
    history_s: float = 0.0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.hosts[MASTER] = Registered(self.master_slots)
        self.count = 0
        self.life = Life()
        self.batch: type[Batch] = Batch
        self.was_enough = False
        self.works = 0

    # -- what happens by itself -----------------------------------------------------------------------------------

    def submit(self, count: int = 1, slots: int = 1, lasts_s: float = 600.0) -> None:
        for _ in range(count):
            self.count += 1
            self.tasks.append(Task(self.count, slots, now(), lasts_s))

    async def tick(self) -> None:
        """For ever."""
        while True:
            self.step()
            await trio.sleep(self.tick_s)

    def step(self) -> None:
        for task in [each for each in self.tasks if each.host and now() >= each.started + each.lasts_s]:
            task.ended = now()
            self.tasks.remove(task)
            self.ended.append(task)
        free = self.free()
        for task in self.tasks:
            if not task.host:
                where = next((name for name, count in free.items() if count >= task.slots), None)
                if where is not None:
                    task.host, task.started = where, now()
                    free[where] -= task.slots
        self.watch()

    def free(self) -> dict[str, int]:
        return {name: host.slots - self.used(name) for name, host in self.hosts.items() if self.is_usable(name)}

    def watch(self) -> None:
        """What must always be so."""
        self.sizes.append(len(self.machines) + 1)
        if len(self.machines) + 1 > self.max_nodes:
            self.wrongs.append(f"{len(self.machines) + 1} nodes are paid for")
        kept = self.disk.records.keys()
        for what, names in (("machine", self.machines), ("host", self.hosts), ("name", self.table)):
            if extra := names.keys() - kept - {MASTER}:
                self.wrongs.append(f"a {what} without a record: {extra}")
        usable = sum(map(self.is_usable, self.hosts))
        if self.was_enough and usable < self.min_nodes:
            self.wrongs.append(f"{usable} nodes serve")
        self.was_enough = self.was_enough or usable >= self.min_nodes

    def used(self, host: str) -> int:
        return sum(task.slots for task in self.tasks if task.host == host)

    def is_up(self, name: str) -> bool:
        """Its batch daemon reports."""
        machine = self.machines.get(name)
        is_alive = machine is not None and not machine.is_dead and machine.has_daemon
        return name == MASTER or (is_alive and name in self.table)

    def is_usable(self, name: str) -> bool:
        return self.is_up(name) and not self.hosts[name].is_drained

    def at(self, address: str) -> Machine | None:
        found = (each for each in self.machines.values() if each.address == address)
        return next((each for each in found if not each.is_dead and now() >= each.up_at), None)

    def die(self, name: str, *, vanishes: bool) -> None:
        """A node dies, and the batch system starts its jobs again elsewhere."""
        for task in self.tasks:
            if task.host == name:
                task.host, task.started = "", 0.0
        if vanishes:
            self.machines.pop(name, None)
        elif name in self.machines:
            self.machines[name].is_dead = True
        self.was_enough = False

    def end_jobs_of(self, name: str, why: str) -> None:
        """Nobody may do so."""
        for task in [each for each in self.tasks if each.host == name]:
            self.lost += 1
            self.wrongs.append(f"job {task.id} was on {name}, which {why}")
            self.tasks.remove(task)

    # -- what is left over ----------------------------------------------------------------------------------------

    def halves(self) -> list[str]:
        """Nodes that are neither in the cluster nor out of it."""
        serving = {name for name, each in self.disk.records.items() if each.stage == Stage.SERVING}
        found = [f"{each.name} is {each.stage}: {each.fault}" for each in self.disk.records.values()]
        found = [each for each in found if " is serving" not in each]
        for what, names in (
            ("machines", set(self.machines)),
            ("hosts", set(self.hosts) - {MASTER}),
            ("table", set(self.table)),
            ("usable", {name for name in self.hosts if name != MASTER and self.is_usable(name)}),
            ("exports", {each.name for each in self.machines.values() if each.address in self.exports}),
        ):
            if names != serving:
                found.append(f"{what}: {sorted(names)}, and {sorted(serving)} serve")
        if len(self.exports) != len(serving):
            found.append(f"exports to {len(self.exports)}, and {len(serving)} serve")
        return found


class Reach:
    """The interfaces of the world for one life of the manager."""

    def __init__(self, world: World, life: Life) -> None:
        self.world = world
        self.life = life

    async def come(self, what: str = "") -> bool:
        """Whether it works; after a while, in which the manager may have been killed."""
        self.demand_alive()
        await trio.sleep(self.world.chance.uniform(0.01, 0.5))
        self.demand_alive()
        return now() >= self.world.down_until.get(what, -inf)

    def demand_alive(self) -> None:
        if self.world.chance.random() < self.world.deadly:
            self.life.is_dead = True
        if self.life.is_dead:
            raise Killed

    def run(self, work: object) -> object:
        """In the place of a thread."""
        self.demand_alive()
        return work()  # type: ignore[operator]

    async def in_thread(self, work: object) -> object:
        return self.run(work)

    async def tell(self, state: State) -> None:
        self.demand_alive()
        self.world.states.append(state)


class Batch(Reach):
    async def queue(self) -> Queue | Unavailable:
        asked = now()
        if not await self.come("batch"):
            return SILENT
        jobs = map(_job, self.world.tasks)
        return Queue(tuple(_held(each) if self.world.is_held else each for each in jobs), asked)

    async def hosts(self) -> tuple[Host, ...] | Unavailable:
        if not await self.come("batch"):
            return SILENT
        return tuple(self._host(name, each) for name, each in self.world.hosts.items())

    def _host(self, name: str, each: Registered) -> Host:
        used = self.world.used(name)
        state = HostState.UP if self.world.is_up(name) else HostState.DOWN
        return Host(name, each.slots, used, used, state, each.is_drained, "", 0.5, each.slots, None)

    async def history(self, since: float) -> History | Unavailable:
        await trio.sleep(self.world.history_s)
        if not await self.come("batch"):
            return SILENT
        found = [each for each in self.world.ended if each.ended >= since]
        return History(tuple(map(_finished, found)), since)

    async def drain(self, host: str, reason: str = "") -> Outcome:  # noqa: ARG002
        self.demand_alive()
        if self.world.chance.random() < self.world.rush:  # a job starts at the last moment
            self.world.submit(lasts_s=60)
            self.world.step()
        if not await self.come("batch"):
            return SILENT
        if host not in self.world.hosts:
            return Refused(f"no host {host}")
        self.world.hosts[host].is_drained = True
        return Done(True)

    async def undrain(self, host: str) -> Outcome:
        if not await self.come("batch"):
            return SILENT
        if host not in self.world.hosts:
            return Refused(f"no host {host}")
        self.world.hosts[host].is_drained = False
        return Done(True)

    async def add(self, host: NewHost) -> Outcome:
        if not await self.come("batch"):
            return SILENT
        if host.name not in self.world.table:
            return Refused("can't resolve hostname")
        before = self.world.hosts.setdefault(host.name, Registered(host.slots))
        before.slots = host.slots
        return Done(True)

    async def remove(self, host: str) -> Outcome:
        if not await self.come("batch"):
            return SILENT
        if self.world.used(host):
            return Refused(f"{host} has jobs")
        self.world.hosts.pop(host, None)
        return Done(True)


class Clouds(Reach):
    """A supplier whose machines have costs."""

    async def start(self, name: str, kind: str) -> Started | Failed:
        if not await self.come("supplier"):
            return Failed("the supplier does not answer")
        world = self.world
        if name not in world.machines:
            world.launched.append(name)
            address = f"10.0.{len(world.launched) // 250}.{len(world.launched) % 250 + 1}"
            world.machines[name] = Machine(name, address, kind, now(), now() + world.boot_s)
        return Started(world.machines[name].address)

    async def stop(self, name: str) -> Failed | None:
        if not await self.come("supplier"):
            return Failed("the supplier does not answer")
        if name == MASTER:
            self.world.is_master_ended = True
        self.world.end_jobs_of(name, "was stopped")
        if (machine := self.world.machines.pop(name, None)) is not None:
            self.world.stopped.append(name)
            self.world.paid_s.append(now() - machine.started)
        return None

    async def list(self) -> Mapping[str, str] | Failed | None:
        if not self.world.has_list:
            return None
        if not await self.come("supplier") or not await self.come("list"):
            return Failed("the supplier does not answer")
        return {each.name: each.address for each in self.world.machines.values()}


class Crowd(Reach):
    """The nodes of the cluster."""

    async def joined(self, address: str) -> str:
        is_reached = await self.come("orders")
        return "" if is_reached and self.world.at(address) is not None else f"{address} does not answer"

    async def order(self, address: str, step: Step) -> Result | str:
        is_reached = await self.come("orders")
        machine = self.world.at(address)
        if not is_reached or machine is None:
            return f"{address} does not answer"
        match step:
            case Step.USERS:
                machine.has_users = True
            case Step.MOUNTS:
                if address not in self.world.exports:
                    return Result("the queue's node exports nothing to it")
                machine.has_mounts = True
            case Step.DAEMON:
                if not machine.has_users or not machine.has_mounts:
                    self.world.wrongs.append(f"the daemon of {machine.name} starts without users or mounts")
                machine.has_daemon = True
            case Step.LEAVE:
                self.world.end_jobs_of(machine.name, "leaves")
                machine.has_daemon = machine.has_mounts = False
        return Result()

    async def names(self, table: Mapping[str, str], must: Collection[str]) -> str:
        self.demand_alive()
        self.world.table = dict(table)
        is_reached = await self.come("orders")
        silent = [each for each in must if self.world.at(each) is None]
        return f"{', '.join(silent) or 'the daemon'} does not answer" if silent or not is_reached else ""

    async def export(self, addresses: Collection[str]) -> str:
        self.demand_alive()
        for machine in self.world.machines.values():
            if machine.has_daemon and machine.address not in addresses and self.world.used(machine.name):
                self.world.wrongs.append(f"{machine.name} has jobs and loses its mounts")
        self.world.exports = set(addresses)
        return "" if await self.come() else "?"

    async def unexport(self, addresses: Collection[str]) -> str:
        return await self.export(addresses)


class Writing(Reach):
    """The disk."""

    def all(self) -> dict[str, Record]:
        return self.world.disk.all()

    def counters(self) -> Counters:
        return self.world.disk.counters()

    def put(self, *records: Record, counters: Counters | None = None) -> None:
        self.demand_alive()
        self.world.disk.put(*records, counters=counters)

    def drop(self, *names: str, counters: Counters | None = None) -> None:
        self.demand_alive()
        self.world.disk.drop(*names, counters=counters)


def _job(task: Task) -> Job:
    is_running = bool(task.host)
    return Job(
        id=str(task.id),
        task=None,
        owner="ann",
        name="sleep",
        state=JobState.RUNNING if is_running else JobState.QUEUED,
        word="r" if is_running else "qw",
        slots=task.slots,
        submitted=None if is_running else task.submitted,
        started=task.started if is_running else None,
        queue=QUEUE if is_running else "",
        places=(Place(task.host, task.slots),) if is_running else (),
    )


def _held(job: Job) -> Job:
    return job._replace(state=JobState.HELD, word="hqw") if job.state == JobState.QUEUED else job


def _finished(task: Task) -> Finished:
    return Finished(
        id=str(task.id),
        task=None,
        owner="ann",
        queue=QUEUE,
        host=task.host,
        slots=task.slots,
        submitted=task.submitted,
        started=task.started,
        ended=task.ended,
        status=0,
        signal=0,
    )
