"""The manager with the parts of servers on libvirt's test driver, and a small batch system, in real time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import libvirt_room
import pytest
import trio
from conditions import until
from libvirt_room import CORES, host_file

from subord.runtime.machines.state import State as Told
from subord.services.batch import records
from subord.services.batch.records import HostState, JobState, NewHost, Outcome
from subord.services.machines.managing.batching import BatchSide
from subord.services.machines.managing.lives import Life
from subord.services.machines.managing.manager import Manager, Site
from subord.services.machines.orders import Fence, Order
from subord.services.machines.plan import Plan, Type, Waits
from subord.services.machines.servers import Answer, Figures, Result
from subord.services.machines.task import Do, told_of
from tests.machines.test_machines_host import Served

pytestmark = pytest.mark.slow
ALMA = Type(name="alma", template="alma", queues=("long",), cores=2, memory_mb=2048, image_mb=10_240)
BIG = Type(name="big", template="big", queues=("wide",), cores=12, memory_mb=2048, image_mb=10_240, slots=4)
PLAN = Plan(
    manager=1,
    types=(ALMA, BIG),
    store_mb=1_000_000,
    period_s=1,
    waits=Waits(order_s=3, answer_s=4, start_s=20, clone_s=40, stop_s=6, delete_s=20, batch_s=10),
)
NAMES = ("s1", "s2", "s3")
WAIT_S = 60.0
RUNS_S = 0.5


class Servers:
    """All servers, reached at once. `away`: whose agents do not answer."""

    def __init__(self, top: Path) -> None:
        self.served = {name: Served(top, name, host_file(top / f"{name}.xml", gib=1)) for name in NAMES}
        self.away = set[str]()
        self.figures = Figures()
        for name, each in self.served.items():
            self.restart(name)
            each.raw.defineXML(libvirt_room.TEMPLATE.format(name="big", cores=12))
            self.images(name).createXML(libvirt_room.VOLUME.format(name="big.qcow2", gib=1))

    def images(self, name: str) -> Any:
        return self.served[name].raw.storagePoolLookupByName("images")

    async def ask(self, fence: Fence) -> tuple[Mapping[str, Answer], Mapping[str, str]]:
        there = [each for name, each in self.served.items() if name not in self.away]
        return {each.name: await each.ask(fence) for each in there}, dict.fromkeys(self.away, "away")

    async def do(self, server: str, orders: tuple[Order, ...]) -> tuple[Result, ...] | str:
        if server in self.away:
            await trio.lowlevel.checkpoint()
            return "away"
        told = tuple(each for each in map(told_of, orders) if each is not None)
        assert len(told) == len(orders)
        found = await self.served[server].said(Do(*orders[0].fence, "10.0.0.1", told))
        return found.fault or tuple(each.result for each in found.results)

    def restart(self, name: str) -> None:
        """The agent. What it had begun goes on in libvirt, and its end is not heard of."""
        self.served[name].restart()
        self.served[name].host.follow(PLAN)

    def on(self) -> Iterator[tuple[str, str, int]]:
        """Server, machine and its cores, as libvirt has them."""
        for name, each in self.served.items():
            for domain in each.raw.listAllDomains():
                if domain.isActive():
                    yield name, domain.name(), domain.maxVcpus()

    async def share(self) -> None:
        """One store of images, though each test driver has its own; and nothing is ever on that must not be."""
        while True:
            known = {name: set(self.images(name).listVolumes()) for name in self.served}
            everything = set().union(*known.values())
            for name, there in known.items():
                for volume in everything - there:
                    self.images(name).createXML(libvirt_room.VOLUME.format(name=volume, gib=1))
            cores, twice = Counter[str](), Counter[str]()
            for server, machine, number in self.on():
                cores[server] += number
                twice[machine] += 1
            assert all(each <= CORES for each in cores.values()), cores
            assert all(each == 1 for each in twice.values()), twice
            await trio.sleep(0.05)


class Batch:
    """One queue for each type. A host is up while its machine is on."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.waiting = list[records.Job]()
        self.started = list[tuple[str, str]]()
        """Jobs and hosts, in their order."""
        self._slots = dict[str, int]()
        self._drained = set[str]()
        self.running = dict[str, list[float]]()
        """Ends of jobs by host."""
        self._number = 0

    def submit(self, queue: str, count: int = 1) -> None:
        for _ in range(count):
            self._number += 1
            self.waiting.append(
                records.Job(str(self._number), None, "ann", "", JobState.QUEUED, "qw", 1, 0.0, None, "", (queue,))
            )

    async def play(self) -> None:
        """Jobs start on open hosts of their queue, in their order, and end."""
        while True:
            now, on = time.monotonic(), {machine for _, machine, _ in self._servers.on()}
            for host in list(self.running):
                assert host in on, f"{host} was stopped with a job"
                self.running[host] = [each for each in self.running[host] if each > now]
                if not self.running[host]:
                    del self.running[host]
            for job in list(self.waiting):
                kind = next(each for each in PLAN.types if job.queues[0] in each.queues)
                free = (
                    name
                    for name in sorted(on & self._slots.keys() - self._drained)
                    if name.startswith(f"{kind.name}-") and len(self.running.get(name, ())) < self._slots[name]
                )
                if (host := next(free, "")) != "":
                    self.waiting.remove(job)
                    self.running.setdefault(host, []).append(now + RUNS_S)
                    self.started.append((job.id, host))
            await trio.sleep(0.05)

    async def queue(self) -> records.Queue:
        await trio.lowlevel.checkpoint()
        return records.Queue(tuple(self.waiting), time.time())

    async def hosts(self) -> tuple[records.Host, ...]:
        await trio.lowlevel.checkpoint()
        on = {machine for _, machine, _ in self._servers.on()}
        return tuple(self._host(name, is_on=name in on) for name in sorted(self._slots))

    def _host(self, name: str, *, is_on: bool) -> records.Host:
        busy, state = len(self.running.get(name, ())), HostState.UP if is_on else HostState.DOWN
        return records.Host(name, self._slots[name], busy, busy, state, name in self._drained, "", None, None, None)

    async def history(self, since: float) -> records.History:
        raise AssertionError(since)

    async def drain(self, host: str, reason: str = "") -> Outcome:  # noqa: ARG002 - as the adapter
        await trio.lowlevel.checkpoint()
        self._drained.add(host)
        return records.Done(is_changed=True)

    async def undrain(self, host: str) -> Outcome:
        await trio.lowlevel.checkpoint()
        self._drained.discard(host)
        return records.Done(is_changed=True)

    async def add(self, host: NewHost) -> Outcome:
        await trio.lowlevel.checkpoint()
        self._slots[host.name] = host.slots
        return records.Done(is_changed=True)

    async def remove(self, host: str) -> Outcome:
        await trio.lowlevel.checkpoint()
        self._slots.pop(host, None)
        return records.Done(is_changed=True)


class Site3:
    """Three servers of 18 cores, and one that decides."""

    def __init__(self, top: Path) -> None:
        self.servers = Servers(top)
        self.batch = Batch(self.servers)
        self.told: Told | None = None

    def manager(self, life: int) -> Manager:
        async def tell(state: Told) -> None:
            await trio.lowlevel.checkpoint()
            self.told = state

        side = BatchSide(PLAN, lambda _queue: self.batch, sees_all=True)
        return Manager(Site(self.servers, side, "slurm"), PLAN, tell, version=1, life=Life(life, is_alone=True))

    def machines(self) -> dict[str, str]:
        """Those that are on, with their servers."""
        return {machine: server for server, machine, _ in self.servers.on()}

    async def done(self, jobs: int) -> None:
        with trio.move_on_after(WAIT_S):
            while len(self.batch.started) < jobs:  # noqa: ASYNC110 - libvirt sets no Event
                await trio.sleep(0.05)
            return
        why = "" if self.told is None else (self.told.hindrance, self.told.fault, self.told.notes, self.told.jobs)
        raise AssertionError(f"{len(self.batch.started)} of {jobs} jobs have started: {why}, {self.machines()}")


@asynccontextmanager
async def running(site: Site3, *managers: Manager) -> AsyncIterator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(site.servers.share)
        nursery.start_soon(site.batch.play)
        for each in managers:
            nursery.start_soon(each.run)
        yield nursery
        nursery.cancel_scope.cancel()
    for served in site.servers.served.values():
        served.power.close()


@pytest.fixture
async def site(tmp_path: Path) -> Site3:
    libvirt_room.need_binding()
    return Site3(tmp_path)


async def test_jobs_get_machines_that_give_way_to_others_and_come_back(site: Site3) -> None:
    async with running(site, site.manager(1)):
        site.batch.submit("long", 12)
        await site.done(12)
        assert [job for job, _ in site.batch.started] == [str(number) for number in range(1, 13)]
        assert all(host.startswith("alma-") for _, host in site.batch.started)
        # One of each server has to go for a machine of 12 cores, and only on one server.
        site.batch.submit("wide", 4)
        await site.done(16)
        (big,) = {host for _, host in site.batch.started[12:]}
        assert site.machines()[big] in NAMES
        site.batch.submit("long", 6)
        await site.done(22)
        assert site.told is not None
        assert site.told.totals.cloned <= 22
        assert site.told.totals.refused == 0, site.told.notes


async def test_a_machine_that_is_off_moves_to_a_server_with_room(site: Site3) -> None:
    async with running(site, site.manager(1)):
        site.batch.submit("long")
        await site.done(1)
        ((name, server),) = site.machines().items()
        served = site.servers.served[server]
        await until(lambda: not site.batch.running, "the end of the job")
        served.raw.lookupByName(name).destroy()
        # All its cores go to a machine that is not ours.
        served.raw.defineXML(libvirt_room.TEMPLATE.format(name="foreign", cores=CORES)).create()
        site.batch.submit("long")
        await site.done(2)
        assert [host for _, host in site.batch.started] == [name, name]
        assert site.machines()[name] != server
        await until(lambda: site.told is not None and site.told.totals.moved == 1, "that the move is told")
        there = [each.name() for one in site.servers.served.values() for each in one.raw.listAllDomains()]
        assert there.count(name) == 1


async def test_agents_and_the_deciding_process_die_and_nothing_starts_twice(site: Site3) -> None:
    """`share` looks all the time."""
    async with running(site) as nursery:
        first = trio.CancelScope()

        async def run_first() -> None:
            with first:
                await site.manager(1).run()

        nursery.start_soon(run_first)
        site.batch.submit("long", 20)
        await site.done(4)
        site.servers.restart("s1")
        await site.done(8)
        first.cancel()
        nursery.start_soon(site.manager(2).run)
        site.servers.away.add("s2")
        site.servers.restart("s3")
        await trio.sleep(5)
        site.servers.away.clear()
        await site.done(20)
        assert len(site.machines()) <= 20
