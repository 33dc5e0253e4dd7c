"""The scheduler of the lab's own batch system. Pure.

Inputs are jobs with priorities, hosts, and the time; it starts jobs by priority, each on a host of its queue that is
up, not drained, and has free slots, as Grid Engine and Slurm do. A host that goes down ends its jobs. Invariant: a
job starts at most once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from netlab.machines.journal import Ran


@dataclass
class Host:
    """`slots`: by queue. `up_at`: when it has booted; None: it is off."""

    name: str
    slots: dict[str, int] = field(default_factory=dict)
    is_drained: bool = False
    up_at: float | None = None
    jobs: set[int] = field(default_factory=set)

    def is_up(self, now: float) -> bool:
        return self.up_at is not None and self.up_at <= now


@dataclass
class Work:
    """A job. `priority`: the higher one starts first; of equal ones that which came first."""

    number: int
    queue: str
    priority: int
    lasts_s: float
    submitted: float
    slots: int = 1
    started: float | None = None
    ended: float | None = None
    host: str = ""
    is_killed: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        return -self.priority, self.number


class Batch:
    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.jobs: dict[int, Work] = {}

    def submit(self, queue: str, priority: int, lasts_s: float, now: float, slots: int = 1) -> int:
        number = len(self.jobs) + 1
        self.jobs[number] = Work(number, queue, priority, lasts_s, now, slots)
        return number

    def add(self, name: str, queue: str, slots: int) -> bool:
        """Whether that changes anything."""
        host = self.hosts.setdefault(name, Host(name))
        is_changed = host.slots.get(queue) != slots
        host.slots[queue] = slots
        return is_changed

    def came_on(self, name: str, up_at: float) -> None:
        """A machine may be no host of the batch system yet."""
        self.hosts.setdefault(name, Host(name)).up_at = up_at

    def went_off(self, name: str, now: float) -> None:
        host = self.hosts.setdefault(name, Host(name))
        host.up_at = None
        for number in list(host.jobs):
            self._end(self.jobs[number], now)
            self.jobs[number].is_killed = True

    def remove(self, name: str) -> str:
        """Why not; ""."""
        host = self.hosts.get(name)
        if host is None or not host.slots:
            return ""
        if host.jobs:
            return f"{name} has jobs {', '.join(map(str, sorted(host.jobs)[:5]))}; the host stays"
        if host.up_at is None:
            del self.hosts[name]
        else:
            host.slots.clear()
        return ""

    def step(self, now: float) -> None:
        for host in self.hosts.values():
            for number in list(host.jobs):
                work = self.jobs[number]
                assert work.started is not None
                if work.started + work.lasts_s <= now:
                    self._end(work, now)
        free = self._free(now)
        for work in self.waiting():
            there = free[work.queue]
            name = next((each for each in there if there[each] >= work.slots), "")
            if not name:
                continue
            host = self.hosts[name]
            for queue in host.slots:
                free[queue][name] -= work.slots
                if free[queue][name] <= 0:
                    del free[queue][name]
            work.started, work.host = now, name
            host.jobs.add(work.number)

    def waiting(self) -> list[Work]:
        """In the order in which they start."""
        return sorted((each for each in self.jobs.values() if each.started is None), key=lambda each: each.rank)

    def used(self, host: Host) -> int:
        return sum(self.jobs[number].slots for number in host.jobs)

    def ran(self) -> Iterator[Ran]:
        """Ranks are places in the order of the scheduler."""
        for rank, each in enumerate(sorted(self.jobs.values(), key=lambda each: each.rank)):
            yield Ran(str(each.number), each.queue, rank, each.submitted, each.started, each.ended, each.host)

    def _free(self, now: float) -> defaultdict[str, dict[str, int]]:
        """Queue -> host -> slots."""
        found: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for host in self.hosts.values():
            if host.is_drained or not host.is_up(now):
                continue
            used = self.used(host)
            for queue, slots in host.slots.items():
                if slots > used:
                    found[queue][host.name] = slots - used
        return found

    def _end(self, work: Work, now: float) -> None:
        work.ended = now
        self.hosts[work.host].jobs.discard(work.number)
