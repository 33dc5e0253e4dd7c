"""Drawn loads and faults for two simulated clusters that send each other jobs, seed by seed.

    PYTHONPATH=. .venv/bin/python tests/transfer/campaign.py --seeds 10000 [--first N]

Each seed draws two clusters with their limits, jobs in bursts of 12 or 100 (each 100th seed one of 1,000), and
faults: agents that die, also between a record and what follows from it; transfer hosts that die with their starters;
batch systems that are silent or do what they were told late; a link that is cut, and messages that are lost, late, or
come twice; clocks that differ; copies of records that are restored; jobs that are deleted, suspended, or started anew
at home, or deleted abroad. Then all is repaired, and all jobs have to end, and to be forgotten. The exit code is 1 if
an invariant of checks.py is broken; the seeds are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from subord.services.transfer import away
from subord.services.transfer.cells.interface import Being
from subord.services.transfer.jobs import Wanted
from subord.services.transfer.plan import Peer, Plan, Request, TransferQueue, faults
from subord.services.transfer.sides import sending
from tests.seeds import Verdict, run_seeds
from tests.transfer.agent import Agent, Starter
from tests.transfer.batch import Batch, Job
from tests.transfer.checks import check_ends, check_looks, check_room, check_wants, settled
from tests.transfer.world import BrokenError, Times, World

LARGE_EVERY = 100
FAULTS_S, SETTLES_S = 240, 3000
KINDS = (
    "agent",
    "agent before",
    "agent behind",
    "host",
    "silent",
    "cut",
    "again",
    "again",
    "again",
    "admin delete",
    "admin suspend",
)
RECORDS = ("restore", "restore", "forgets", "forgets")
"""If the accounting is lost as well, nothing is left that could tell that a job has run."""
WISHES = ("delete", "suspend", "suspend")
NAMES = ("alpha", "beta")


def play(seed: int) -> Verdict:
    stage = Stage(seed)
    try:
        stage.run()
    except BrokenError as error:
        text = str(error)
        return Verdict(seed, text.split(maxsplit=1)[0].rstrip(":"), f"at {stage.world.now} s: {text}")
    return Verdict(seed, counts=stage.world.counts)


class Stage:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.is_large = seed % LARGE_EVERY == LARGE_EVERY - 1
        self.world = World(random, draw_times(random))
        self.world.is_rough = self.world.times.fails > 0
        self.busy = random.choice((0, 1, 2))
        """The cluster that has more jobs than slots; 2: neither."""
        self.agents = list[Agent]()
        for name, other in (NAMES, NAMES[::-1]):
            plan = draw_plan(random, name, other, is_large=self.is_large)
            assert not list(faults(plan))
            self._add(name, plan)
        self.agents[0].peer, self.agents[1].peer = self.agents[1], self.agents[0]
        self.starters = list[Starter]()
        self.at = dict[int, list[str]]()
        self.copies = not self.is_large and random.random() < 0.7
        self.entries = random.choice((1000, 1000, 5))
        """Jobs that one message says something of, while this seed is played."""
        self.stops = list[tuple[Agent, Job, int]]()
        """Jobs that were suspended or deleted, and when."""
        count = random.choice((0, 0, 3, 8, 15, 30))
        self.is_calm = not count and not self.world.times.lost and not self.world.times.fails
        forgets = random.choice((RECORDS, RECORDS, ("accounting",)))
        for kinds, drawn in ((KINDS + forgets, count), (WISHES, random.choice((0, 8, 24)))):
            for _ in range(drawn):
                self._later(random.randint(5, FAULTS_S - 10), random.choice(kinds))

    def _add(self, name: str, plan: Plan) -> None:
        random, number = self.random, len(self.agents)
        batch = Batch(
            self.world,
            name,
            slots=random.choice((0, 0, 1) if number == self.busy else (5, 20, 40)) if not self.is_large else 60,
            transfer_slots=random.choice((2, 10, 40)) if not self.is_large else 1000,
            tells_deleted=random.random() < 0.5,
            binds=random.random() < 0.7,
            start=lambda job: self._start(number, job),
            is_open=lambda: self.agents[number].is_open(),  # noqa: PLW0108 - there is no agent yet
        )
        skew, pace = random.choice((0, -5000, 3600)), random.choice((1.0, 0.97, 1.03))
        self.agents.append(Agent(self.world, plan, batch, skew, pace))

    def _start(self, number: int, job: Job) -> Starter | None:
        agent = self.agents[number]
        if agent.host_down_until > self.world.now:
            return None
        starter = Starter(job, agent, job.was_started)
        self.starters.append(starter)
        return starter

    # -- running ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        with _messages_of(self.entries):
            self._run()

    def _run(self) -> None:
        for _ in range(FAULTS_S):
            self._arrive()
            for what in self.at.pop(self.world.now, ()):
                self.world.counts[what.split("#")[0]] += 1
                self._fault(what)
            self._second()
        self._repair()
        reason = ""
        for second in range(SETTLES_S):
            self._second()
            if second % 20 == 0:
                reason = settled(self.agents)
                if not reason:
                    break
        if reason:
            raise BrokenError(reason)
        check_ends(self.world, self.agents)
        self.world.counts["jobs"] += sum(len(each.batch.done) for each in self.agents)

    def _second(self) -> None:
        world = self.world
        world.now += 1
        world.happen()
        for what in self.at.pop(-world.now, ()):
            self._fault(what)
        for agent in self.agents:
            agent.batch.step()
        self.starters = [each for each in self.starters if each.is_alive]
        for starter in self.starters:
            starter.step()
        for agent in self.agents:
            if self.copies and world.now < FAULTS_S:
                agent.disk.copy()
            agent.step()
            check_room(agent)
            check_looks(agent)
        self.stops = [each for each in self.stops if each[1].in_transfer and (each[1].suspends or each[1].killed)]
        if self.is_calm:
            for agent, job, since in self.stops:
                check_wants(agent, job, since)

    def _arrive(self) -> None:
        random = self.random
        if self.world.now == 20 and self.is_large:
            self._burst(random.choice(self.agents), 1000)
        elif random.random() < 0.03:
            self._burst(self._crowded(), random.choice((12, 12, 12, 12, 40)) if not self.is_large else 12)
        elif random.random() < 0.1:
            self._burst(self._crowded(), 1)

    def _crowded(self) -> Agent:
        is_any = self.busy == 2 or self.random.random() < 0.15
        return self.random.choice(self.agents) if is_any else self.agents[self.busy]

    def _burst(self, agent: Agent, jobs: int) -> None:
        random = self.random
        jobs = min(jobs, 60 - len(agent.batch.jobs)) if not self.is_large else jobs
        for _ in range(jobs):
            lasts = random.choice((1, 10, 30, 60)) if jobs < 50 else 10
            end = random.choice(("0 0", "0 0", "7 0", "0 11"))
            flag = random.choice(("error", "failed")) if random.random() < 0.04 else ""
            requests = random.choice(((("bad", "1"),), (("here", "1"),))) if random.random() < 0.05 else ()
            agent.batch.submit_native(
                f"{lasts} {end} {flag}".strip(), can_leave=random.random() < 0.9, requests=requests
            )

    # -- faults -----------------------------------------------------------------------------------------------------

    def _later(self, seconds: int, what: str) -> None:
        self.at.setdefault(self.world.now + seconds, []).append(what)

    def _fault(self, what: str) -> None:
        random, world = self.random, self.world
        agent = random.choice(self.agents)
        match what:
            case "agent" | "host":
                self._kill(agent, with_host=what == "host")
            case "agent before" | "agent behind":
                agent.dies_next = what.split()[1]
                agent.reboot_s = random.randint(1, 60)
            case "silent":
                agent.batch.silent_until = world.now + random.choice((3, 20, 60))
                world.is_rough = True
            case "cut":
                world.is_cut = True
                world.after(random.choice((5, 30, 120)), self._mend)
            case "forgets":
                agent.on_taken = lambda: self._forget(agent)
            case "restore":
                self._restore(agent)
            case "accounting":
                agent.batch.accounting.clear()
                world.doubts.add(agent.peer_name)
            case _:
                self._to_a_job(what, agent)

    def _mend(self) -> None:
        self.world.is_cut = False

    def _kill(self, agent: Agent, *, with_host: bool) -> None:
        if not agent.is_alive:
            return
        lasts = self.random.randint(1, 90)
        agent.die()
        agent.reboot_at = self.world.now + lasts
        if with_host:
            agent.host_down_until = self.world.now + lasts
            for starter in [each for each in self.starters if each.agent is agent and each.is_alive]:
                starter.vanish()
                self._host_lost(starter)

    def _host_lost(self, starter: Starter) -> None:
        """The batch system puts the job back, or it is lost."""
        batch, job = starter.agent.batch, starter.job
        if self.random.random() < 0.8 and not job.killed:
            self.world.after(self.random.randint(1, 20), lambda: batch.put_back(job))
        else:
            batch.finish(job, "lost")

    def _restore(self, agent: Agent) -> None:
        """It dies, and an older copy of its records is there when it comes back."""
        if agent.disk.copies and agent.is_alive:
            self._kill(agent, with_host=False)
            agent.disk.restore(self.random.choice(agent.disk.copies))
            agent.reboot_at = self.world.now + self.random.randint(1, 10)
            self.world.doubts.add(agent.peer_name)
            self.world.counts["restored"] += 1

    def _forget(self, agent: Agent) -> None:
        """Jobs that it takes, and of which home does not hear, are forgotten by an older copy of its records."""
        agent.disk.copy()
        copy = agent.disk.copies[-1]
        self.world.is_cut = True
        self.world.doubts.add(agent.peer_name)

        def restore() -> None:
            if agent.is_alive:
                self._kill(agent, with_host=False)
            agent.disk.restore(copy)
            agent.reboot_at = self.world.now + self.random.randint(1, 10)
            self.world.is_cut = False

        self.world.after(self.random.randint(1, 30), restore)

    def _to_a_job(self, what: str, agent: Agent) -> None:
        random, batch = self.random, agent.batch
        leaving = [each for each in batch.jobs.values() if each.in_transfer and each.starter.is_alive]
        foreign = [each for each in batch.jobs.values() if each.mark]
        if what.startswith("admin"):
            if not foreign:
                return
            job = random.choice(foreign)
            self.world.doubts.add(job.origin)
            if what == "admin delete":
                batch.kill(job)
            elif job.being == Being.RUNNING:
                job.being = Being.SUSPENDED
                self.world.after(30, lambda: _set_going(job))
            return
        if not leaving:
            return
        sent = [each for each in leaving if each.starter.was_sent]
        job = random.choice(sent if sent and what == "again" else leaving)
        if what == "delete":
            job.killed = True
            self.stops.append((agent, job, self.world.now))
            agent.want(job, Wanted.DELETED)
        elif what == "suspend":
            job.suspends = True
            self.stops.append((agent, job, self.world.now))
            agent.want(job, Wanted.SUSPENDED)
            self.world.after(random.randint(1, 60), lambda: _resume(agent, job))
        else:
            job.starter.vanish()
            job.suspends = False
            self.world.after(random.randint(0, 3), lambda: batch.put_back(job))

    def _repair(self) -> None:
        world = self.world
        world.times = world.times.__class__(delay=world.times.delay, command=world.times.command, lag=world.times.lag)
        world.is_cut = False
        for agent in self.agents:
            agent.dies_next = ""
            agent.exchange_s = 5
            agent.batch.slots = max(agent.batch.slots, 2)
            if not agent.is_alive:
                agent.reboot_at = world.now


@contextmanager
def _messages_of(entries: int) -> Iterator[None]:
    """Other tests of this process find the bounds as they were, also when a seed has failed."""
    before = [(each, each.ENTRIES_MAX) for each in (sending, away)]
    try:
        for each, _ in before:
            setattr(each, "ENTRIES_MAX", entries)  # noqa: B010 - as tests patch it
        yield
    finally:
        for each, was in before:
            setattr(each, "ENTRIES_MAX", was)  # noqa: B010


def _set_going(job: Job) -> None:
    if job.being == Being.SUSPENDED:
        job.being = Being.RUNNING


def _resume(agent: Agent, job: Job) -> None:
    job.suspends = False
    if job.in_transfer:
        agent.want(job, Wanted.RUN)


# -- drawing --------------------------------------------------------------------------------------------------------


def draw_times(random: Random) -> Times:
    is_bad = random.random() < 0.5
    return Times(
        delay=random.choice((0, 1, 2)),
        lost=random.choice((0.05, 0.3)) if is_bad else 0.0,
        twice=random.choice((0.05, 0.3)) if is_bad else 0.0,
        late=random.choice((0.05, 0.3)) if is_bad else 0.0,
        command=random.choice((0, 1, 2)),
        fails=random.choice((0.0, 0.05, 0.2)) if is_bad else 0.0,
        lag=random.choice((0, 15)),
    )


def draw_plan(random: Random, name: str, other: str, *, is_large: bool) -> Plan:
    return Plan(
        host=1,
        cluster=name,
        peer=Peer(name=other, addresses=("10.0.0.1:7",), certificates=("MIIAAA==",)),
        queues=(TransferQueue(name="transfer"),),
        slots_max=100 if is_large else random.choice((0, 1, 5, 10, 20, 20, 40)),
        idle_pending_max=30 if is_large else random.choice((0, 4, 10, 30)),
        lease_s=random.choice((10, 30)),
        poll_s=5,
        permit_s=random.choice((20, 60)),
        requests=(Request(name="here", to="there", values=(("2", "2"),), is_closed=True),),
        is_high_throughput=random.random() < 0.2,
    )


# -- all of them ----------------------------------------------------------------------------------------------------


def main(words: list[str]) -> int:
    return run_seeds(words, "drawn loads and faults for two simulated clusters", play)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
