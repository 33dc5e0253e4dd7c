"""Simulated servers, their agents, a batch system and messages between them, in steps of one second.

Agents use the guard of the service and keep what they have heard over their death, as on a disk. The arithmetic of
what a server has is done here again, so a fault in the service is not repeated by what checks it.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from subord.services.machines import guarding
from subord.services.machines.guarding import Heard
from subord.services.machines.model import Capacity, Doing, Job, Machine, Server, State
from subord.services.machines.orders import (
    Arrive,
    Clone,
    Close,
    Delete,
    Fence,
    Forget,
    Open,
    Order,
    Settle,
    Start,
    Stay,
    Stop,
)
from subord.services.machines.plan import Plan
from subord.services.machines.servers import Answer, Result


class BrokenError(AssertionError):
    """An invariant does not hold. The first word of the text is its name."""


@dataclass
class Times:
    """Seconds that things take."""

    power: int = 1
    boot: int = 15
    copy: int = 60
    stop: int = 5
    delay: int = 1
    """The longest way of a message."""
    lost: float = 0.0
    """Part of the messages; never two of one kind to one server one after the other."""
    repeated: float = 0.0
    never_up: float = 0.0
    """Part of the starts after which the batch system does not see the machine."""


@dataclass
class Work:
    """A job. `lasts`: seconds."""

    job: Job
    type: str
    rank: int
    lasts: int
    submitted: int
    started: int | None = None


@dataclass
class Host:
    """What the batch system knows of a machine."""

    is_open: bool = False
    jobs: dict[str, Work] = field(default_factory=dict)

    @property
    def busy(self) -> int:
        return sum(each.job.slots for each in self.jobs.values())


@dataclass
class Computer:
    """A server with its agent."""

    name: str
    capacity: Capacity
    mhz: int
    machines: dict[str, Machine] = field(default_factory=dict)
    is_alive: bool = True
    life: int = 0
    heard: Heard = field(default_factory=Heard)
    is_drained: bool = False

    def seen(self, machines: Iterable[Machine] | None = None) -> Server:
        there = tuple(self.machines.values()) if machines is None else tuple(machines)
        return Server(self.name, self.capacity, self.mhz, there, is_drained=self.is_drained)


def excess(computer: Computer) -> tuple[int, int, int, int]:
    """How far a server is overbooked, by arithmetic of its own."""
    cores = memory = disk = slots = 0
    for each in computer.machines.values():
        is_coming = each.doing in (Doing.STARTING, Doing.CLONING) and not each.given_to
        if each.state == State.OFF and not is_coming:
            continue
        cores, memory, disk, slots = cores + each.need[0], memory + each.need[1], disk + each.need[2], slots + 1
    have = computer.capacity
    return max(0, cores - have[0]), max(0, memory - have[1]), max(0, disk - have[2]), max(0, slots - have[3])


class World:
    def __init__(self, plan: Plan, times: Times, random: Random) -> None:
        self.plan, self.times, self.random = plan, times, random
        self.types = plan.by_name()
        self.now = 0
        self.servers = dict[str, Computer]()
        self.hosts = dict[str, Host]()
        self.up = set[str]()
        self.images = dict[str, int]()
        self.definitions = dict[str, Machine]()
        """Of machines that move."""
        self.without_storage = set[str]()
        """Servers where no machine arrives."""
        self.waiting = list[Work]()
        self.ended = list[Work]()
        self.begun = list[tuple[int, str, str, Fence]]()
        """Starts: when, machine, type, and by which fence."""
        self.fresh = dict[str, tuple[int, str]]()
        """Machines started by the service that no job has used since: when, and the server."""
        self.stopping_since = dict[str, int]()
        """When a machine was last told to stop or close, or by hand withdrawn."""
        self.demand = {each: [0] for each in self.types}
        """Slots of waiting jobs by type, at each second."""
        self.opened_at = dict[str, int]()
        self._wanted = dict.fromkeys(self.types, 0)
        self.by_hand = False
        self._due = list[tuple[int, int, Callable[[], None]]]()
        self._number = 0
        self._dropped = dict[tuple[str, ...], bool]()
        self._excess = dict[str, tuple[int, int, int, int]]()

    # -- time and messages ------------------------------------------------------------------------------------------

    def after(self, seconds: int, call: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (self.now + seconds, self._number, call))

    def send(self, way: tuple[str, ...], call: Callable[[], None]) -> None:
        """A message that may be lost, late, or come twice."""
        times, random = self.times, self.random
        is_lost = random.random() < times.lost and not self._dropped.get(way, False)
        self._dropped[way] = is_lost
        if is_lost:
            return
        self.after(random.randint(0, times.delay), call)
        if times.repeated and random.random() < times.repeated:
            self.after(random.randint(0, 3 * times.delay), call)

    def step(self) -> None:
        """One second."""
        self.now += 1
        while self._due and self._due[0][0] <= self.now:
            heapq.heappop(self._due)[2]()
        self._schedule()
        for name, slots in self._wanted.items():
            self.demand[name].append(slots)

    # -- machines ---------------------------------------------------------------------------------------------------

    def put(self, server: Computer, templates: Iterable[str] | None = None) -> None:
        """A server with the templates of all types, or with these."""
        self.servers[server.name] = server
        for kind in self.plan.types:
            if templates is None or kind.template in templates:
                server.machines[kind.template] = Machine(kind.template, kind.need)
                self.hosts.setdefault(kind.template, Host())

    def add(self, server: str, machine: Machine) -> None:
        """Before the start, or by hand."""
        self.servers[server].machines[machine.name] = machine
        if machine.type:
            self.images[machine.name] = self.types[machine.type].image_mb
        if machine.state == State.ON:
            self.up.add(machine.name)
        self.hosts.setdefault(machine.name, Host(is_open=machine.is_open))

    def change(self, server: Computer, name: str, **changes: object) -> None:
        machine = server.machines[name]._replace(**changes)  # type: ignore[arg-type]
        if "state" in changes or "doing" in changes:
            machine = machine._replace(since=float(self.now))
        server.machines[name] = machine
        self.check_room(server)

    def check_room(self, server: Computer) -> None:
        """Only what is done by hand makes a server more overbooked."""
        now, before = excess(server), self._excess.get(server.name, (0, 0, 0, 0))
        if not self.by_hand and any(new > old for new, old in zip(now, before, strict=True)):
            raise BrokenError(f"overbooked {server.name}: {now} too much after {before}")
        self._excess[server.name] = now

    def excess_of(self, server: Computer) -> tuple[int, int, int, int]:
        return self._excess.get(server.name, (0, 0, 0, 0))

    def is_on(self, name: str) -> bool:
        return any(each.machines[name].state == State.ON for each in self.servers.values() if name in each.machines)

    def power_off(self, server: Computer, name: str, *, by_us: bool) -> None:
        """Its jobs wait again."""
        host = self.hosts[name]
        if by_us and host.jobs:
            raise BrokenError(f"killed the job {min(host.jobs)}: {name} was stopped by the service")
        for work in host.jobs.values():
            work.started = None
            self.submit(work)
        host.jobs.clear()
        self.up.discard(name)
        self.fresh.pop(name, None)
        self.change(server, name, state=State.OFF, doing=None)

    def power_on(self, server: Computer, name: str) -> None:
        machine = server.machines[name]
        others = [each.name for each in self.servers.values() if each is not server and name in each.machines]
        if any(self.servers[each].machines[name].state != State.OFF for each in others):
            raise BrokenError(f"twice: {name} starts on {server.name}, and is on elsewhere")
        if machine.doing is not Doing.STARTING and machine.state != State.OFF:
            return
        self.change(server, name, state=State.ON, doing=None)
        if self.random.random() < self.times.never_up:
            return
        since = server.machines[name].since

        def booted() -> None:
            there = server.machines.get(name)
            if there is not None and there.state == State.ON and there.since == since:
                self.up.add(name)

        self.after(self.times.boot, booted)

    # -- the agent of a server --------------------------------------------------------------------------------------

    def ask(self, name: str, fence: Fence) -> Answer | None:
        """What a server answers; None: its agent is dead."""
        server = self.servers[name]
        if not server.is_alive:
            return None
        server.heard = server.heard._replace(fence=max(server.heard.fence, fence))
        return Answer(server.seen(), server.heard.fence, self.now)

    def order(self, name: str, order: Order) -> Result | None:
        """None: its agent is dead."""
        server = self.servers[name]
        if not server.is_alive:
            return None
        if fault := guarding.may_obey(order, server.heard, self.now):
            return Result(fault)
        server.heard = guarding.obeyed(order, server.heard)
        found = self._obeyed(server, order)
        return Result(found, is_refused=bool(found)) if isinstance(found, str) else found

    def _obeyed(self, server: Computer, order: Order) -> Result | str:  # noqa: PLR0911 - a kind each
        match order.action:
            case Start(name, target, source) if source:
                return self._leave(server, name, target)
            case Start(name):
                return self._start(server, order, name)
            case Clone() as action:
                return self._clone(server, order, action)
            case Stop() as action:
                return self._stop(server, action)
            case Delete() as action:
                return self._delete(server, action)
            case Forget(name):
                return self._forget(server, name)
            case Arrive(name, _, source):
                return self._arrive(server, name, source)
            case Settle(name, _, source):
                return self._settle(server, order, name, source)
            case Stay(name, _, target):
                return self._stay(server, name, target)
        raise AssertionError(order)

    def _touched(self, machine: Machine) -> None:
        if not machine.type or machine.always_on or machine.name in self.plan.always_on:
            raise BrokenError(f"touched {machine.name}, which is not ours or always on")

    # -- moves ------------------------------------------------------------------------------------------------------

    def _leave(self, server: Computer, name: str, target: str) -> Result | str:
        there = server.machines.get(name)
        if there is None:
            return Result()
        if fault := guarding.may_give(there, target):
            return fault
        self._touched(there)
        self.change(server, name, given_to=target)
        self.definitions[name] = there._replace(given_to="", state=State.OFF, doing=None)
        return Result(id=name, xml="<domain/>")

    def _arrive(self, server: Computer, name: str, source: str) -> str:
        there = server.machines.get(name)
        if there is not None:
            is_same = there.came_from == source and there.state == State.OFF
            return "" if is_same else f"there is a machine {name} already"
        if server.name in self.without_storage:
            return f"the image of {name} is in no storage pool of {server.name}"
        server.machines[name] = self.definitions[name]._replace(came_from=source)
        return ""

    def _forget(self, server: Computer, name: str) -> str:
        there = server.machines.get(name)
        if there is None:
            return ""
        if fault := guarding.may_forget(there):
            return fault
        target = self.servers[there.given_to].machines.get(name)
        if target is None and name in self.images and not self.by_hand:
            raise BrokenError(f"lost: {server.name} forgets {name}, which {there.given_to} does not have")
        del server.machines[name]
        return ""

    def _settle(self, server: Computer, order: Order, name: str, source: str) -> str:
        there = server.machines.get(name)
        if there is None:
            return f"there is no machine {name}"
        if there.came_from == source:
            others = [each.name for each in self.servers.values() if each is not server and name in each.machines]
            if others:
                raise BrokenError(f"twice: {name} settles on {server.name}, and {others} have it")
            self.change(server, name, came_from="")
        return self._start(server, order, name)

    def _stay(self, server: Computer, name: str, target: str) -> str:
        there = server.machines.get(name)
        if there is None or there.given_to != target:
            return f"{name} was not given to {target}"
        if name in self.servers[target].machines:
            raise BrokenError(f"twice: {name} stays on {server.name}, and {target} has it")
        self.change(server, name, given_to="")
        return ""

    # -- starts and ends --------------------------------------------------------------------------------------------

    def _start(self, server: Computer, order: Order, name: str) -> str:
        there = server.machines.get(name)
        if there is None:
            return f"there is no machine {name}"
        if fault := guarding.may_start(server.seen(), there):
            return fault
        self._touched(there)
        self._begin(server, there, order.fence)
        self.change(server, name, doing=Doing.STARTING)
        self.after(self.times.power, lambda: self._power(server, name))
        return ""

    def _power(self, server: Computer, name: str) -> None:
        there = server.machines.get(name)
        if there is not None and there.doing is Doing.STARTING:
            self.power_on(server, name)

    def _clone(self, server: Computer, order: Order, action: Clone) -> str:
        kind = self.types.get(action.type)
        if kind is None or action.machine in self.images:
            return f"there is an image of {action.machine}, or no type {action.type}"
        if kind.template not in server.machines:
            return f"there is no template {kind.template}"
        machine = Machine(action.machine, kind.need, type=kind.name, doing=Doing.CLONING, since=float(self.now))
        free_mb = self.plan.store_mb - sum(self.images.values())
        if fault := guarding.may_clone(server.seen(), machine, kind.image_mb, free_mb):
            return fault
        self._begin(server, machine, order.fence)
        server.machines[machine.name] = machine
        self.images[machine.name] = kind.image_mb
        if sum(self.images.values()) > self.plan.store_mb:
            raise BrokenError(f"images take more than {self.plan.store_mb} MiB")
        self.hosts.setdefault(machine.name, Host())
        self.check_room(server)
        life = server.life

        def copied() -> None:
            there = server.machines.get(machine.name)
            if there is not None and there.doing is Doing.CLONING and server.life == life and server.is_alive:
                self.change(server, machine.name, doing=Doing.STARTING)
                self.after(self.times.power, lambda: self._power(server, machine.name))

        self.after(self.times.copy, copied)
        return ""

    def _stop(self, server: Computer, action: Stop) -> str:
        there = server.machines.get(action.machine)
        if there is None:
            return ""
        if fault := guarding.may_stop(there):
            return fault
        self._touched(there)
        if self.hosts[there.name].jobs:
            raise BrokenError(f"killed a job: {there.name} is stopped by the service")
        self.change(server, there.name, doing=Doing.STOPPING)
        self.withdrawn(there.name)

        def stopped() -> None:
            now = server.machines.get(action.machine)
            if now is not None and now.doing is Doing.STOPPING:
                self.power_off(server, action.machine, by_us=True)

        self.after(self.times.stop, stopped)
        return ""

    def _delete(self, server: Computer, action: Delete) -> str:
        there = server.machines.get(action.machine)
        if there is None:
            return ""
        if fault := guarding.may_delete(there):
            return fault
        self._touched(there)
        del server.machines[there.name]
        self.images.pop(there.name, None)
        return ""

    def die(self, server: Computer) -> None:
        """The agent; machines go on. What it was starting is on or not."""
        server.is_alive = False
        for name, there in list(server.machines.items()):
            if there.doing is Doing.STARTING and self.random.random() < 0.5:
                self.change(server, name, doing=None)
            elif there.doing is Doing.STOPPING:
                self.after(self.times.stop, lambda name=name: self._ended(server, name))  # type: ignore[misc]

    def _ended(self, server: Computer, name: str) -> None:
        there = server.machines.get(name)
        if there is not None and there.doing is Doing.STOPPING:
            self.power_off(server, name, by_us=False)

    def revive(self, server: Computer) -> None:
        """Clones that were half copied go, from its records."""
        server.is_alive, server.life = True, server.life + 1
        for name, there in list(server.machines.items()):
            if there.doing is Doing.CLONING:
                del server.machines[name]
                self.images.pop(name, None)
                self.fresh.pop(name, None)
            elif there.doing is Doing.STARTING:
                self.after(1, lambda name=name: self._power(server, name))  # type: ignore[misc]
        self.check_room(server)

    def _begin(self, server: Computer, machine: Machine, fence: Fence) -> None:
        self.begun.append((self.now, machine.name, machine.type, fence))
        self.fresh[machine.name] = (self.now, server.name)

    def withdrawn(self, name: str) -> None:
        self.stopping_since[name] = self.now

    # -- the batch system -------------------------------------------------------------------------------------------

    def command(self, order: Order) -> None:
        """Open or Close, carried out by the process that gave the order, if it is not too late."""
        if self.now > order.expires:
            return
        name = order.action.machine
        host, there = self.hosts.get(name), next(self.entries(name), None)
        if host is None or there is None:
            return
        self._touched(there)
        host.is_open = isinstance(order.action, Open)
        if isinstance(order.action, Close):
            self.withdrawn(name)
        elif host.is_open:
            self.opened_at[name] = self.now

    def entries(self, name: str) -> Iterator[Machine]:
        return (each.machines[name] for each in self.servers.values() if name in each.machines)

    def submit(self, work: Work) -> None:
        insort(self.waiting, work, key=lambda each: each.rank)
        self._wanted[work.type] += work.job.slots

    def cancel(self, works: list[Work]) -> None:
        for work in works:
            self.waiting.remove(work)
            self._wanted[work.type] -= work.job.slots

    def _schedule(self) -> None:
        """Jobs start on open machines of their type, in their order."""
        if not self.waiting:
            return
        free = dict[str, list[tuple[str, int]]]()
        for name in sorted(each for each in self.up if self.hosts[each].is_open):
            there = next((each for each in self.entries(name) if each.state == State.ON and each.type), None)
            left = 0 if there is None else self.types[there.type].slots - self.hosts[name].busy
            if there is not None and left > 0:
                free.setdefault(there.type, []).append((name, left))
        if not free:
            return
        for work in list(self.waiting):
            able = free.get(work.type, [])
            place = next((at for at, (_, left) in enumerate(able) if left >= work.job.slots), None)
            if place is not None:
                name, left = able[place]
                able[place] = (name, left - work.job.slots)
                self._run(work, name)

    def _run(self, work: Work, name: str) -> None:
        self.cancel([work])
        host = self.hosts[name]
        host.jobs[work.job.id] = work
        self.fresh.pop(name, None)
        work.started = self.now

        def ended() -> None:
            if host.jobs.get(work.job.id) is work and work.started == started:
                del host.jobs[work.job.id]
                self.ended.append(work)

        started = self.now
        self.after(work.lasts, ended)
