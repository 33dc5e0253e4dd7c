"""The agent of a simulated transfer host and the starters of its queue, as an agent of a real one drives the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from subord.services.batch.records import Unavailable
from subord.services.transfer import away, home
from subord.services.transfer.cells.interface import Deed
from subord.services.transfer.exchange import (
    ENTRIES_MAX,
    Answer,
    Message,
    Stage,
    decode_answer,
    decode_message,
    encode,
)
from subord.services.transfer.home import Start, Verb, Verdict, verdict_of
from subord.services.transfer.jobs import Key, Wanted
from subord.services.transfer.plan import Plan
from subord.services.transfer.states import AwayRecord, HomeRecord, HomeState
from subord.services.transfer.thresholds import is_alarm, sensed, threshold_of
from tests.transfer.batch import Batch, Job
from tests.transfer.checks import check_permits, check_verdict
from tests.transfer.world import Disk, World

ANSWER_S = 4
SUBMITS_MAX = 20


@dataclass(eq=False)
class Starter:
    job: Job
    agent: Agent
    may_have_run: bool
    key: Key | None = None
    attempt: int = 0
    was_sent: bool = False
    is_connected: bool = False
    is_alive: bool = True
    retry_at: int = 0

    def step(self) -> None:
        agent = self.agent
        if self.is_connected or not self.is_alive or not agent.is_alive or agent.world.now < self.retry_at:
            return
        spec = agent.batch.spec_of(self.job)
        at_ms = agent.wall_ms()
        start = Start(self.job.id, 0, "transfer", spec, at_ms, self.attempt, self.was_sent, self.may_have_run)
        key = agent.home.start(start, agent.clock())
        if key is None:
            self.end(Verdict(Verb.AGAIN))
            return
        self.key, self.is_connected = key, True
        agent.starters[key] = self
        if not self.attempt:
            agent.world.attached[key] = agent.world.now
        if agent.commit():
            self.attempt = key.attempt
            agent.tell()

    def end(self, verdict: Verdict) -> None:
        """It does what it was told, and ends."""
        batch, key, world = self.agent.batch, self.key, self.agent.world
        self.is_alive = False
        if key is not None:
            check_verdict(world, self.job, key, verdict)
        if verdict.verb in (Verb.AGAIN, Verb.STAY):
            world.counts[verdict.verb] += 1
            self.job.is_marked = self.job.is_marked or verdict.verb == Verb.STAY
            if self.job.killed:
                batch.finish(self.job, "0 9")
            else:
                batch.put_back(self.job, is_again=False)
        else:
            signal = verdict.number if verdict.verb == Verb.KILL else 0
            status = verdict.number if verdict.verb == Verb.EXIT else 0
            batch.finish(self.job, "unknown" if verdict.verb == Verb.ERROR else f"{status} {signal}")
        if key is not None and self.is_connected and self.agent.is_alive:
            self.agent.starters.pop(key, None)
            if world.random.random() < 0.8:
                self.agent.home.told(key)
            self.agent.home.leave(key, self.agent.clock())
            self.agent.commit()

    def vanish(self) -> None:
        """It was killed, and says nothing."""
        self.is_alive = False
        if self.key is not None and self.is_connected and self.agent.is_alive:
            self.agent.starters.pop(self.key, None)
            self.agent.home.leave(self.key, self.agent.clock())
        self.is_connected = False


class Agent:
    def __init__(self, world: World, plan: Plan, batch: Batch, skew_s: int, pace: float) -> None:
        self.world, self.plan, self.batch = world, plan, batch
        self.skew_s, self.pace = skew_s, pace
        self.disk: Any = Disk()
        self.peer: Agent | None = None
        self.starters = dict[Key, Starter]()
        self.is_alive = False
        self.dies_next = ""
        self.grants = dict[int, float]()
        self.looks = list[int]()
        self.exchange_s = 2
        self.reboot_at: int | None = None
        self.reboot_s = 5
        self.on_taken: Callable[[], None] | None = None
        self.host_down_until = 0
        self.boot()

    @property
    def peer_name(self) -> str:
        return self.plan.peer_name

    def clock(self) -> float:
        return self.pace * (self.world.now - self._booted_at) + self._zero

    def wall_ms(self) -> int:
        return (1_700_000_000 + self.world.now + self.skew_s) * 1000

    # -- its life ---------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        self.is_alive, self.reboot_at = True, None
        self._booted_at, self._zero = self.world.now, float(self.world.random.randint(0, 1000))
        begun = self.disk.begin(self.wall_ms())
        self.life = begun.life
        self.home = home.Home(self.plan, begun.life, begun.home, self.clock())
        self.away = away.Away(self.plan, begun.life, begun.away, self.clock())
        self.starters.clear()
        self.grants.clear()
        self.looks.clear()
        self._is_looking = False
        self._calls = 0
        self._look_at = self._work_at = self._send_at = 0
        self._asked_at: int | None = None
        self.commit()

    def die(self) -> None:
        self.is_alive, self.dies_next = False, ""
        self.reboot_at = self.world.now + self.reboot_s
        for each in self.starters.values():
            each.is_connected = False
            each.retry_at = self.world.now + self.world.random.randint(1, 5)
        self.starters.clear()
        self.world.counts["death"] += 1

    def commit(self) -> bool:
        """Whether it lives on, and may do what follows from what it wrote."""
        of_home, of_away = self.home.changes(), self.away.changes()
        if of_home.records or of_away.records:
            if self.dies_next == "before":
                self.die()
                return False
            self.away.written = self.disk.write(of_home, of_away)
            if self.dies_next == "behind":
                self.die()
                return False
        else:
            self.away.written = self.disk.write(of_home, of_away)
        return True

    def tell(self) -> None:
        for record in self.home.news():
            starter = self.starters.get(record.key)
            if starter is None:
                continue
            verdict = verdict_of(record)
            if verdict is None:
                starter.was_sent = record.state != HomeState.WAITING
            else:
                self.world.after(self.world.random.randint(0, 1), self._ending(starter, verdict))

    def _ending(self, starter: Starter, verdict: Verdict) -> Callable[[], None]:
        def do() -> None:
            if starter.is_alive:
                starter.end(verdict)

        return do

    # -- each second ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        now = self.world.now
        if not self.is_alive:
            if self.reboot_at is not None and now >= self.reboot_at:
                self.boot()
            return
        if not self._calls and not self._is_looking:
            if now >= self._look_at:
                self._look()
            elif now >= self._work_at:
                self._work_at = now + 2
                self._work(None)
        if self.is_alive and now >= self._send_at and (self._asked_at is None or now > self._asked_at + ANSWER_S):
            self._exchange()

    def _mine(self, do: Callable[..., None]) -> Callable[..., None]:
        """What comes back to a process that has died is lost."""
        life = self.life

        def only(*result: Any) -> None:
            if self.is_alive and self.life == life:
                do(*result)

        return only

    def _look(self) -> None:
        self._is_looking, began = True, self.clock()
        self._look_at = self.world.now + self.plan.poll_s
        self.looks.append(self.world.now)

        def looked(result: Any) -> None:
            self._is_looking = False
            if isinstance(result, Unavailable):
                return
            self.home.looked(result.leaving, began, result.restarting, result.loose)
            self.away.looked(result, began, self.clock())
            self._work(result)

        self.batch.command(self.batch.look, self._mine(looked))

    def _work(self, look: Any) -> None:
        work = self.away.due(self.clock(), SUBMITS_MAX)
        self.home.tick(self.clock())
        to_bind, to_let_go = self.home.bonds()
        lost = self.home.forgotten_bonds(look.bound) if look else []
        if not self.commit():
            return
        self.tell()
        batch = self.batch
        for record in work.submits:
            self._submit(record)
        for deed, ids in work.deeds:
            self._act(deed, ids)
        if work.searches:
            began, asked = self.clock(), work.searches
            self._call(lambda: batch.ended(asked), lambda found: self._accounted(asked, found, began))
        if to_bind:
            works = [each.work for each in to_bind]
            self._call(lambda: batch.bind(works, is_bound=True), lambda x: self._bound(to_bind, x))
        if to_let_go or lost:
            gone = [each.work for each in to_let_go] + lost
            recalled = [job for jobs in self.home.recalls(gone).values() for job in jobs]
            self._call(lambda: batch.let_go(gone, recalled), lambda x: self._let_go(to_let_go, x))

    def _call(self, apply: Callable[[], Any], on_result: Callable[[Any], None], *, is_awaited: bool = True) -> None:
        self._calls += is_awaited

        def done(result: Any) -> None:
            self._calls -= is_awaited
            on_result(result)
            if self.commit():
                self.tell()

        self.batch.command(apply, self._mine(done))

    def _submit(self, record: AwayRecord) -> None:
        """Looks do not wait for it."""
        key, user, spec = record.key, record.user, record.spec
        assert spec is not None
        self._call(
            lambda: self.batch.submit(key.mark, user, spec),
            lambda outcome: self.away.submitted(key, outcome, self.clock()),
            is_awaited=False,
        )

    def _act(self, deed: Deed, ids: Sequence[str]) -> None:
        self._call(lambda: self.batch.act(deed, ids), lambda _: None)

    def _accounted(self, asked: Any, found: Any, began: float) -> None:
        if not isinstance(found, Unavailable):
            self.away.accounted(asked, found, began, self.clock())

    def _bound(self, keys: list[Key], result: Any) -> None:
        self.home.bound(keys, is_done=not isinstance(result, Unavailable))

    def _let_go(self, keys: list[Key], result: Any) -> None:
        self.home.let_go(keys, is_done=not isinstance(result, Unavailable))

    # -- the exchange -----------------------------------------------------------------------------------------------

    def _exchange(self) -> None:
        message = self.home.message(self.clock())
        if message is None or not self.commit():
            return
        self.tell()
        self._send_at, self._asked_at = self.world.now + self.exchange_s, self.world.now
        assert len(message.submits) + len(message.cares) + len(message.forgets) <= ENTRIES_MAX
        body = encode(message)
        peer = self.peer
        assert peer is not None
        self.world.send(lambda: peer.receive(decode_message(body)))
        self.world.counts["messages"] += 1

    def receive(self, message: Message) -> None:
        if not self.is_alive:
            return
        now = self.clock()
        before = {each.key: self.away.book.records.get(each.key) for each in message.submits}
        answer = self.away.hear(message, now)
        taken = [
            each
            for each in message.submits
            if (was := before[each.key]) is None or was.stage == Stage.ABSENT
            if (found := self.away.book.records.get(each.key)) is not None
            if found.stage not in (Stage.ABSENT, Stage.SOUGHT) and found.reason != "it was never submitted"
        ]
        check_permits(self, taken, answer, now)
        if taken and self.on_taken is not None:
            self.on_taken()
            self.on_taken = None
        if not self.commit():
            return
        peer, body = self.peer, encode(answer)
        assert peer is not None
        self.world.send(lambda: peer.answered(decode_answer(body)))

    def answered(self, answer: Answer) -> None:
        if not self.is_alive or not self.home.heard(answer, self.clock()):
            return
        self._asked_at = None
        if self.commit():
            self.tell()

    # -- the queue --------------------------------------------------------------------------------------------------

    def is_open(self) -> bool:
        """What the load sensor, which reports every 9 s, and the threshold of the queue make of it."""
        if not self.is_alive:
            return False
        sending = self.home.sending
        age = self.clock() - sending.pending_at
        idle = 0 if self.plan.idle is None else self.plan.idle
        return not is_alarm(sensed(sending.pending, age, self.plan.poll_s), threshold_of(idle)) or (
            self.plan.idle is None and sending.pending is not None
        )

    def want(self, job: Job, wanted: Wanted) -> None:
        """A method of the queue, which is lost if the agent is dead."""
        if self.is_alive and self.home.want(job.id, 0, wanted, self.clock()) and self.commit():
            self.tell()

    def records(self) -> list[HomeRecord]:
        return list(self.home.desk.records.values())
