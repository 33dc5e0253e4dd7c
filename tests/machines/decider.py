"""The simulated process that decides: the rounds of the service, with messages of a simulated world.

What it decides is checked against what it saw, by arithmetic of its own.
"""

from __future__ import annotations

from subord.services.machines.deciding.iteration import Decision
from subord.services.machines.fencing import Process
from subord.services.machines.managing.rounds import Batch, Host, Rounds
from subord.services.machines.model import State
from subord.services.machines.orders import Clone, Fence, Order, Start, server_of
from subord.services.machines.servers import Answer, Result
from tests.machines.checks import Watch, check_decision, check_order
from tests.machines.world import BrokenError


class Decider:
    def __init__(self, watch: Watch, life: int, *, is_alone: bool = False) -> None:
        self.watch = watch
        world = self.world = watch.world
        self.plan = world.plan
        process = Process(Fence(1, life), world.now, world.now, world.now, is_alone=is_alone)
        self.rounds = Rounds(self.plan, process)
        self.is_asleep = False
        self.is_dead = False
        self._woke_at = -1
        self._answered = dict[str, int]()
        """When the question was asked that a server has answered last."""
        self._mail = list[tuple[int, Answer]]()
        self._results = list[tuple[Order, Result]]()
        self._held = list[Order]()

    @property
    def last(self) -> Decision:
        return self.rounds.last

    @property
    def decisions(self) -> int:
        return self.rounds.decisions

    # -- times ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Questions at the start of a period, the decision at its end."""
        if self.is_asleep or self.is_dead:
            return
        phase = self.world.now % self.plan.period_s
        if phase == 0:
            self._ask()
        elif phase == self.plan.period_s - 2:
            self._decide()

    def sleep(self, *, while_deciding: bool) -> None:
        """Until `wake`, it does nothing, and its messages wait. `while_deciding`: between deciding and ordering."""
        if while_deciding:
            self._held = self._orders()
        self.is_asleep = True

    def wake(self) -> None:
        """It goes on where it was, and learns only then that time has passed."""
        self.is_asleep = False
        self._woke_at = self.world.now
        for order in self._held:
            self._send(order)
        self._held = []
        mail, self._mail = self._mail, []
        for asked_at, answer in mail:
            self._hear(asked_at, answer)
        results, self._results = self._results, []
        for order, result in results:
            self._follow(order, result)
        self._decide()

    # -- asking -----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        world, asked_at = self.world, self.world.now
        fence = self.rounds.asked(asked_at)
        for name in world.servers:

            def asked(name: str = name) -> None:
                answer = world.ask(name, fence)
                if answer is not None:
                    late = world.random.randint(0, world.times.delay)
                    world.after(late, lambda: self._hear(asked_at, answer))

            world.send(("ask", name, str(fence.life)), asked)

    def _hear(self, asked_at: int, answer: Answer) -> None:
        if self.is_asleep:
            self._mail.append((asked_at, answer))
        else:
            name = answer.server.name
            self._answered[name] = max(asked_at, self._answered.get(name, -1))
            self.rounds.hear(answer, asked_at, self.world.now)

    # -- deciding ---------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        self.rounds.awake(self.world.now)
        if not self.rounds.hindrance(self.world.now):
            for order in self._orders():
                self._send(order)

    def _orders(self) -> list[Order]:
        world = self.world
        batch = Batch(
            tuple(each.job for each in world.waiting),
            {name: Host(name in world.up, host.is_open, host.busy) for name, host in world.hosts.items()},
            frozenset(world.images),
        )
        orders = self.rounds.decide(batch, world.now)
        seen, decision = self.rounds.seen, self.rounds.last
        assert seen is not None
        self._check_known()
        self._note_unheard()
        check_decision(self.plan, seen, decision)
        check_order(self.plan, seen, decision)
        self.watch.decided_at = world.now
        for each in decision.given:
            if server_of(each.action) and not isinstance(each.action, Start | Clone):
                world.withdrawn(each.action.machine)
        return list(orders)

    def _send(self, order: Order) -> None:
        world, name = self.world, server_of(order.action)
        if not name:
            world.send(("batch", order.action.machine), lambda: None if self.is_asleep else world.command(order))
            return

        def ordered() -> None:
            result = world.order(name, order)
            if result is not None:
                late = world.random.randint(0, world.times.delay)
                world.after(late, lambda: self._follow(order, result))

        world.send(("order", name), ordered)

    def _follow(self, order: Order, result: Result) -> None:
        if self.is_dead:
            return
        if self.is_asleep:
            self._results.append((order, result))
        elif (step := self.rounds.follow(order, result, self.world.now)) is not None:
            self._send(step)

    def _note_unheard(self) -> None:
        """A process asks nothing while it sleeps. If one answer is lost after that, the one before it does not count
        any more, and what comes up on that server is not counted on, though its agent was never dead."""
        now, answer_s = self.world.now, self.plan.waits.answer_s
        for name, asked_at in self._answered.items():
            if now - asked_at > answer_s and asked_at < self._woke_at:
                self.watch.unheard[name] = now

    def _check_known(self) -> None:
        """Every machine that was on for a round is in what it sees."""
        known = {name for each in self.rounds.known.values() for name in (m.name for m in each.server.machines)}
        for server in self.world.servers.values():
            answer = self.rounds.known.get(server.name)
            if answer is None:
                continue
            for machine in server.machines.values():
                if machine.state == State.ON and machine.since < answer.asked_at and machine.name not in known:
                    raise BrokenError(f"unknown {machine.name} on {server.name} is on for a round")
