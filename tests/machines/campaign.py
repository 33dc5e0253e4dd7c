"""Drawn loads and faults for simulated servers, seed by seed.

    PYTHONPATH=. .venv/bin/python tests/machines/campaign.py --seeds 10000 [--first N]

Each seed draws types of machines, servers (12 with 216 cores; each 250th seed 100 with 20 machines each), jobs, and
faults: agents that die, processes that die or sleep, messages that are lost, late or come twice, and changes by hand.
Then all is repaired, and jobs and servers have to settle. The rounds are those of the service. The exit code is 1 if
an invariant of checks.py is broken; the seeds are printed.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from subord.services.machines.model import Capacity, Job, Machine, Need, State
from subord.services.machines.plan import Headroom, Plan, Type, Waits, faults
from tests.machines.checks import TIGHT_MB, Watch, check_images, settled
from tests.machines.decider import Decider
from tests.machines.hands import HANDS
from tests.machines.world import BrokenError, Computer, Times, Work, World, excess
from tests.seeds import Verdict, run_seeds

LARGE_EVERY = 250
FAULTS_S, LARGE_FAULTS_S, SETTLES_S = 260, 150, 900
STUCK_S = 150
CORES = (8, 8, 12, 16, 16, 16, 20, 24, 24, 24, 24, 24)  # 216


def play(seed: int) -> Verdict:
    stage = Stage(seed)
    try:
        stage.run()
    except BrokenError as error:
        text = str(error)
        return Verdict(seed, text.split(maxsplit=1)[0].rstrip(":"), f"at {stage.world.now} s: {text}")
    counts = Counter[str]()
    for what, count in stage.counts.items():
        counts[what.split()[0]] += count
    return Verdict(seed, counts=counts)


class Stage:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.is_large = seed % LARGE_EVERY == LARGE_EVERY - 1
        self.lasts_s = LARGE_FAULTS_S if self.is_large else FAULTS_S
        self.counts = Counter[str]()
        self.plan = draw_plan(random, is_large=self.is_large)
        assert not list(faults(self.plan))
        self.world = World(self.plan, draw_times(random), random)
        draw_servers(self.world, is_large=self.is_large)
        self.watch = Watch(self.world)
        self.life = 0
        self.deciders = list[Decider]()
        self.begin(is_alone=True)
        self.jobs = 0
        self.at = dict[int, list[str]]()
        self._draw_faults()
        self.rate = 0.7 if self.is_large else random.choice((0.05, 0.15, 0.3, 0.6))

    def begin(self, *, is_alone: bool) -> None:
        self.life += 1
        self.deciders.append(Decider(self.watch, self.life, is_alone=is_alone))

    @property
    def current(self) -> Decider:
        return self.deciders[-1]

    # -- running ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for _ in range(self.lasts_s):
            self._arrive()
            for what in self.at.pop(self.world.now, ()):
                self.counts[what] += 1
                self._fault(what)
            self._second()
        self._repair()
        reason = ""
        for second in range(SETTLES_S):
            self._second()
            if second % self.plan.period_s == 0:
                reason = settled(self.world, self.current.last.whys)
                if not reason and second > 100:
                    break
        if reason and not self._goes_on(reason):
            raise BrokenError(reason)
        check_images(self.world)
        self.counts["jobs"] += len(self.world.ended)
        self.counts["starts"] += len(self.world.begun)
        self.counts["decisions"] += sum(each.decisions for each in self.deciders)

    def _goes_on(self, reason: str) -> bool:
        """Whether jobs still start, where there are many for few machines."""
        last = max((each.started or 0 for each in self.world.ended), default=0)
        return reason.startswith("stuck") and self.world.now - last < STUCK_S

    def _second(self) -> None:
        self.world.step()
        for each in self.deciders:
            each.step()
        self.watch.look()

    def _arrive(self) -> None:
        random = self.random
        while random.random() < self.rate:  # below 1
            kind = random.choice(self.plan.types)
            rank = random.randint(0, 3)
            count = random.choice((1, 1, 1, 2, 5)) * (4 if self.is_large else 1)
            for _ in range(count):
                slots = random.choice((1, 1, kind.slots, max(1, kind.slots // 2)))
                job = Job(f"j{self.jobs}", random.choice(kind.queues), slots)
                lasts = random.choice((3, 10, 20, 40))
                self.world.submit(Work(job, kind.name, rank * 100_000 + self.jobs, lasts, self.world.now))
                self.jobs += 1

    # -- faults -----------------------------------------------------------------------------------------------------

    def _draw_faults(self) -> None:
        kinds = ["agent", "process", "sleep", *HANDS]
        for _ in range(self.random.choice((0, 2, 4, 8, 12))):
            when = self.random.randint(5, self.lasts_s - 10)
            self.at.setdefault(when, []).append(self.random.choice(kinds))

    def _fault(self, what: str) -> None:
        world, random = self.world, self.random
        match what:
            case "agent":
                server = random.choice(list(world.servers.values()))
                if server.is_alive:
                    world.die(server)
                    self._later(random.randint(5, 120), f"revive {server.name}")
            case "process":
                if not self.current.is_dead:
                    self.current.is_dead = True
                    self._later(random.randint(1, 30), random.choice(("begin", "begin elsewhere")))
            case "sleep":
                if not self.current.is_asleep and not self.current.is_dead:
                    self.current.sleep(while_deciding=random.random() < 0.5)
                    at = len(self.deciders) - 1
                    self._later(random.randint(2, 150), f"wake {at}")
                    if random.random() < 0.7:
                        self._later(random.randint(1, 60), "begin elsewhere")
            case "begin" | "begin elsewhere":
                self.begin(is_alone=what == "begin" and len(self.deciders) == self.life)
            case str() if what in HANDS:
                HANDS[what](world, self.watch, random)
            case _:
                verb, name = what.split()
                if verb == "revive":
                    world.revive(world.servers[name])
                else:
                    self.deciders[int(name)].wake()

    def _later(self, seconds: int, what: str) -> None:
        self.at.setdefault(self.world.now + seconds, []).append(what)

    def _repair(self) -> None:
        """Nothing is lost any more, all agents run, one process decides, and what was paused by hand goes on."""
        world = self.world
        world.times.lost = world.times.repeated = world.times.never_up = 0.0
        for server in world.servers.values():
            if not server.is_alive:
                world.revive(server)
        for each in self.deciders:
            if each.is_asleep:
                each.wake()
        if self.current.is_dead:
            self.begin(is_alone=False)
        world.by_hand = True
        for server in world.servers.values():
            for machine in list(server.machines.values()):
                if machine.state == State.PAUSED:
                    world.change(server, machine.name, state=State.ON)
                    self.watch.disturbed[machine.name] = world.now
        world.by_hand = False


# -- drawing --------------------------------------------------------------------------------------------------------


def draw_times(random: Random) -> Times:
    is_bad = random.random() < 0.5
    return Times(
        boot=random.choice((5, 15, 40)),
        copy=random.choice((20, 80)),
        stop=random.choice((2, 8)),
        delay=random.choice((1, 3, 6)),
        lost=random.choice((0.05, 0.3)) if is_bad else 0.0,
        repeated=random.choice((0.05, 0.3)) if is_bad else 0.0,
        never_up=random.choice((0.0, 0.0, 0.05)),
    )


def draw_plan(random: Random, *, is_large: bool) -> Plan:
    types = []
    for number in range(random.randint(2, 4)):
        slots = random.choice((1, 1, 1, 4, 8))
        types.append(
            Type(
                name=f"t{number}",
                template=f"template{number}",
                queues=tuple(f"q{number}{letter}" for letter in "ab"[: random.randint(1, 2)]),
                cores=slots * random.choice((1, 1, 2)) if slots < 8 else slots,
                memory_mb=random.choice((512, 1024, 2048)) * slots,
                disk_mb=random.choice((0, 0, 1000)),
                image_mb=random.choice((2000, 4000)),
                slots=slots,
                window_s=random.choice((0, 60, 120)) if slots > 1 else 0,
                most=random.choice((0, 0, 0, 5)),
            )
        )
    return Plan(
        manager=5,
        types=tuple(types),
        headroom=Headroom(cores=random.choice((0, 0, 20)), memory_mb=random.choice((0, 0, 20_000))),
        period_s=10,
        waits=Waits(order_s=15, answer_s=35, batch_s=30, start_s=150, clone_s=300, stop_s=60, delete_s=60),
        store_mb=10_000_000 if is_large else random.choice((1_000_000, 1_000_000, TIGHT_MB)),
        moves=random.random() < 0.8,
    )


def draw_servers(world: World, *, is_large: bool) -> None:
    random = world.random
    count, each_has = (100, 20) if is_large else (12, random.choice((0, 2, 5)))
    for number in range(count):
        cores = CORES[number % len(CORES)]
        capacity = Capacity(cores, cores * random.choice((1024, 2048, 4096)), random.choice((4000, 20_000)), 24)
        server = Computer(f"s{number:03}", capacity, random.choice((2000, 2400, 3000)))
        world.put(server)
        if random.random() < 0.05:
            world.without_storage.add(server.name)
        for index in range(each_has):
            kind = random.choice(world.plan.types)
            if sum(world.images.values()) + kind.image_mb <= world.plan.store_mb - 20_000:
                world.add(server.name, Machine(f"{kind.name}-m{number}-{index}", kind.need, type=kind.name))
        for index in range(random.choice((0, 0, 1))):
            need = Need(random.randint(1, 4), 1024, 0)
            world.add(server.name, Machine(f"foreign-{number}-{index}", need, State.ON))
        if random.random() < 0.08:
            kind = random.choice(world.plan.types)
            machine = Machine(f"always-{number}", kind.need, State.ON, kind.name, is_open=True, always_on=True)
            if _fits(server, machine):
                world.add(server.name, machine)
        for machine in list(server.machines.values()):
            if machine.state == State.OFF and random.random() < 0.3:
                server.machines[machine.name] = machine._replace(state=State.ON)
                if any(excess(server)):
                    server.machines[machine.name] = machine
                else:
                    world.up.add(machine.name)
        world.check_room(server)


def _fits(server: Computer, machine: Machine) -> bool:
    server.machines[machine.name] = machine
    fits = not any(excess(server))
    del server.machines[machine.name]
    return fits


# -- all of them ----------------------------------------------------------------------------------------------------


def main(words: list[str]) -> int:
    return run_seeds(words, "drawn loads and faults for simulated servers", play)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
