"""A simulated world behind the interfaces of the manager: servers, and the adapter of a batch system."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio

from subord.services.batch import records
from subord.services.batch.records import Fault, HostState, JobState, NewHost, Outcome, Unavailable
from subord.services.machines.managing.batching import BatchSide
from subord.services.machines.managing.lives import Life
from subord.services.machines.managing.manager import Manager, Site
from subord.services.machines.orders import Close, Fence, Open, Order
from subord.services.machines.plan import Plan
from subord.services.machines.servers import Answer, Figures, Result
from tests.machines.world import Host, Work, World

SILENT = "it has not answered"


class WorldServers:
    """`silent`: servers that do not answer. `deaf`: servers of which orders arrive, and no results."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.silent = set[str]()
        self.deaf = set[str]()
        self.orders = list[tuple[str, Order]]()
        self.messages = 0

    @property
    def figures(self) -> Figures:
        return Figures(self.messages, 100 * self.messages)

    async def ask(self, fence: Fence) -> tuple[Mapping[str, Answer], Mapping[str, str]]:
        await trio.sleep(0.1)
        answers, missing = dict[str, Answer](), dict[str, str]()
        for name in self.world.servers:
            self.messages += 2
            answer = None if name in self.silent else self.world.ask(name, fence)
            if answer is None:
                missing[name] = SILENT
            else:
                answers[name] = answer
        return answers, missing

    async def do(self, server: str, orders: tuple[Order, ...]) -> tuple[Result, ...] | str:
        await trio.sleep(0.1)
        self.messages += 2
        if server in self.silent:
            return SILENT
        self.orders += [(server, each) for each in orders]
        results = [self.world.order(server, each) for each in orders]
        if server in self.deaf or None in results:
            return SILENT
        return tuple(each for each in results if each is not None)


class WorldBatch:
    """One queue for each type. `registered`: hosts that it knows; `fault`: why it does not answer."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.registered = set(world.hosts)
        self.fault = ""
        self.changes = list[str]()

    async def queue(self) -> records.Queue | Unavailable:
        await trio.lowlevel.checkpoint()
        if self.fault:
            return Unavailable(Fault.SILENT, self.fault)
        waiting = map(self._job, self.world.waiting)
        return records.Queue(tuple(waiting), float(self.world.now))

    def _job(self, work: Work) -> records.Job:
        job, queues = work.job, (work.job.queue,)
        return records.Job(job.id, None, "ann", "", JobState.QUEUED, "qw", job.slots, 0.0, None, "", queues)

    async def hosts(self) -> tuple[records.Host, ...] | Unavailable:
        await trio.lowlevel.checkpoint()
        if self.fault:
            return Unavailable(Fault.SILENT, self.fault)
        return tuple(self._host(name) for name in sorted(self.registered))

    def _host(self, name: str) -> records.Host:
        host, state = self.world.hosts[name], HostState.UP if name in self.world.up else HostState.DOWN
        return records.Host(f"{name}.site", 8, host.busy, host.busy, state, not host.is_open, "", None, None, None)

    async def history(self, since: float) -> records.History:
        raise AssertionError(since)

    async def drain(self, host: str, reason: str = "") -> Outcome:  # noqa: ARG002 - as the adapter
        return await self._changed("close", host, lambda: self._command(Close(host)))

    async def undrain(self, host: str) -> Outcome:
        return await self._changed("open", host, lambda: self._command(Open(host)))

    async def add(self, host: NewHost) -> Outcome:
        def added() -> None:
            self.world.hosts.setdefault(host.name, Host())
            self.registered.add(host.name)

        return await self._changed("add", host.name, added)

    async def remove(self, host: str) -> Outcome:
        return await self._changed("remove", host, lambda: self.registered.discard(host))

    def _command(self, action: Open | Close) -> None:
        if next(self.world.entries(action.machine), None) is not None:
            self.world.command(Order(Fence(0, 0), 0, float("inf"), action))

    async def _changed(self, what: str, host: str, change: Callable[[], None]) -> Outcome:
        await trio.sleep(0.05)
        if self.fault:
            return Unavailable(Fault.SILENT, self.fault)
        self.changes.append(f"{what} {host}")
        change()
        return records.Done(is_changed=True)


class Simulated:
    """A manager over a world, in seconds of the clock of trio."""

    def __init__(self, world: World, plan: Plan | None = None) -> None:
        self.world = world
        self.servers = WorldServers(world)
        self.batch = WorldBatch(world)
        self.plan = plan or world.plan
        self.began = trio.current_time()

    def now(self) -> float:
        return trio.current_time() - self.began

    def manager(self, tell: Callable[[object], Awaitable[None]] | None = None, life: int = 1) -> Manager:
        side = BatchSide(self.plan, lambda _queue: self.batch, sees_all=True)

        async def inline(work: Callable[[], tuple[Order, ...]]) -> tuple[Order, ...]:
            await trio.lowlevel.checkpoint()
            return work()

        async def nowhere(_: object) -> None:
            await trio.lowlevel.checkpoint()

        return Manager(
            Site(self.servers, side, "slurm"),
            self.plan,
            tell or nowhere,
            version=1,
            life=Life(life, is_alone=True),
            now=self.now,
            in_thread=inline,
        )

    async def play(self) -> None:
        """The world goes on, for ever."""
        while True:
            await trio.sleep(1)
            while self.world.now < int(self.now()):
                self.world.step()
