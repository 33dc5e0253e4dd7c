"""The table of waiting times of the text, in order and in periods; windows, and priority, over time.

12 servers with 216 cores, as in the text, and an iteration each 10 s.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from loops import over

from subord.services.machines.model import Capacity, Job, Machine, State
from subord.services.machines.plan import Plan, Type, Waits
from tests.machines.campaign import CORES
from tests.machines.checks import Watch
from tests.machines.decider import Decider
from tests.machines.world import Computer, Times, Work, World

PERIOD_S = 10
BOOT_S, COPY_S = 25, 200
SMALL = Type(name="small", template="s", queues=("small",), memory_mb=1000, image_mb=1000)
LARGE = Type(
    name="large", template="l", queues=("large",), cores=8, memory_mb=8000, image_mb=1000, slots=8, window_s=120
)


class Site:
    def __init__(self, *machines: Machine, window_s: int = 120, servers: int = 12) -> None:
        import msgspec

        large = msgspec.structs.replace(LARGE, window_s=window_s)
        plan = Plan(
            manager=1, types=(SMALL, large), period_s=PERIOD_S, store_mb=900_000, waits=Waits(order_s=15, answer_s=25)
        )
        times = Times(boot=BOOT_S, copy=COPY_S, delay=1)
        self.world = World(plan, times, Random(1))
        for number, cores in enumerate(CORES[:servers]):
            server = Computer(f"s{number:02}", Capacity(cores, cores * 2048, 0, cores), 2000)
            self.world.put(server)
        for machine in machines:
            self.world.add("s00", machine)
        self.watch = Watch(self.world)
        self.decider = Decider(self.watch, 1, is_alone=True)
        self.submitted = 0
        self.run(60)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.step()
            self.decider.step()
            self.watch.look()

    def submit(self, queue: str, rank: int = 1, lasts: int = 60, slots: int = 1) -> Work:
        self.submitted += 1
        job = Job(f"{queue}{self.submitted}", queue, slots)
        work = Work(job, queue, rank * 1000 + self.submitted, lasts, self.world.now)
        self.world.submit(work)
        return work

    def waited(self, work: Work, limit: int = 1000) -> int:
        """Seconds until the job starts."""
        for _ in range(limit):
            if work.started is not None:
                return work.started - work.submitted
            self.run(1)
        raise AssertionError(f"{work} has not started: {dict(self.decider.last.whys)}")


def small(name: str, state: State) -> Machine:
    return Machine(name, SMALL.need, state, "small")


def test_216_cores() -> None:
    assert sum(CORES) == 216
    assert len(CORES) == 12


ALWAYS = small("free", State.ON)._replace(is_open=True, always_on=True)
STATES: dict[str, tuple[tuple[Machine, ...], int, int]] = {
    "free": ((ALWAYS,), 0, 0),
    "closed": ((small("m", State.ON),), 0, 1),
    "off": ((small("m", State.OFF),), BOOT_S, 3),
    "to be cloned": ((), BOOT_S + COPY_S, 3),
}
"""Machines that are there; seconds that a machine takes itself, and periods beside them."""


@pytest.mark.slow
def test_the_table_of_waiting_times() -> None:
    """In the order of the text, at each second of a period."""
    slowest, fastest = dict[str, int](), dict[str, int]()
    for name, (machines, takes_s, periods) in STATES.items():
        waits = []
        for second in range(PERIOD_S):
            site = Site(*machines)
            site.run(second)
            waits.append(site.waited(site.submit("small")))
        slowest[name], fastest[name] = max(waits), min(waits)
        assert takes_s <= min(waits), (name, waits)
        assert max(waits) <= takes_s + periods * PERIOD_S + 3, (name, waits)
    states = list(STATES)
    for one, other in pairwise(states):
        assert slowest[one] < fastest[other], (slowest, fastest)


def test_jobs_start_in_the_order_of_the_scheduler() -> None:
    """One server with 8 cores, and 30 jobs of each of two priorities: no job starts long before a better one."""
    site = Site(servers=1)
    late = [site.submit("small", rank=5, lasts=30) for _ in range(30)]
    site.run(30)
    early = [site.submit("small", rank=1, lasts=30) for _ in range(30)]
    site.run(1500)
    begun = [each.started for each in (*early, *late)]
    assert None not in begun
    running = 8  # late ones that had machines coming when the better ones came
    after = sorted(each.started or 0 for each in late)[running:]
    assert max(each.started or 0 for each in early) <= after[0] + PERIOD_S


def test_a_large_job_is_not_starved_by_small_ones() -> None:
    site = Site(servers=1)
    for _ in range(100):
        site.submit("small", rank=5, lasts=20)
    site.run(400)
    assert len(site.world.ended) > 8
    work = site.submit("large", rank=1, slots=8)
    takes_s = 20 + BOOT_S + COPY_S
    assert site.waited(work) <= takes_s + 10 * PERIOD_S


@over(("window_s", "bound_s"), [(120, 120 + 60), (300, 300 + 60)])
def test_a_window_bounds_how_long_one_type_keeps_its_room(window_s: int, bound_s: int) -> None:
    """A queue that is never empty keeps 8 slots busy; a job of another type comes first, and gets the room."""
    site = Site(window_s=window_s, servers=1)
    for _ in range(300):
        site.submit("large", rank=5, lasts=60)
    site.run(400)
    assert len(site.world.ended) >= 8
    work = site.submit("small", rank=1)
    assert site.waited(work, 2000) <= bound_s + BOOT_S + COPY_S + 6 * PERIOD_S


def test_without_a_window_it_does_not() -> None:
    """As the text says of its own site."""
    site = Site(window_s=0, servers=1)
    for _ in range(300):
        site.submit("large", rank=5, lasts=60)
    site.run(400)
    work = site.submit("small", rank=1)
    site.run(800)
    assert work.started is None
