"""Plays a scenario with real daemons: one step after the other, in real time.

The script is that of `subord/sim/scenario/`, which says what each step means; the simulator plays the same one.
What takes time beside other steps (a slow host, churn) is left to timers.
"""

from __future__ import annotations

import random
import sched
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack

import msgspec

from netlab.lab import READ_INTERVAL_S, Lab, start_order
from netlab.processes.enter import NodeCommand
from netlab.scenarios import bad_input
from netlab.scenarios.assertions import Assertions, Shortfall
from netlab.scenarios.faults import FaultInjector
from netlab.scenarios.node_state import NodeState
from netlab.scenarios.orders import GivenOrders
from netlab.scenarios.report import Answers, PlayedStep, Result, Seen
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Scenario, Step, Way

AGAIN_S = 0.1
RUNNING_S_MIN = 0.01  # a slow host runs at least so long between two stops

ON_NODES = (
    *(definition.Kill, definition.Vanish, definition.Leave, definition.Reuse, definition.Pause, definition.Resume),
    definition.Cut,
)
"""Steps that do one thing to some nodes: the fault injector has a method of the same name."""

Say = Callable[[str], None]


class Player:
    """One scenario in a lab that was just raised. `say` is given a line for each step, `after` each step done."""

    def __init__(
        self, script: Scenario, lab: Lab, *, say: Say, after: Callable[[Step], None] = lambda _step: None
    ) -> None:
        self._script = script
        self._after = after
        self._lab = lab
        self._say = say
        self._chance = random.Random(f"{script.seed}/lab")
        self._nodes = definition.positions_of(script.cluster)
        self._state = NodeState(self._nodes)
        self._assertions = Assertions(lab, self._state, script.cluster)
        self._faults = FaultInjector(lab, self._state, self._assertions)
        self._orders = GivenOrders(lab, self._state, script.cluster.network)
        self._timers = sched.scheduler(time.monotonic)
        self._senders: list[NodeCommand] = []
        self._ending = ExitStack()  # of the senders

    def run(self, file: str) -> Result:
        """All steps, or those up to the first expectation that fails. Raises LabError when the lab itself fails."""
        script, began = self._script, time.monotonic()
        found = Result(file=file, title=script.title, cluster=script.cluster, seed=script.seed)
        self._ending.callback(self._orders.close)
        with self._ending:
            for number, step in enumerate(script.steps, 1):
                at_s = time.monotonic() - began
                self._say(f"{at_s:8.2f}  {self._in_words(step)}")
                try:
                    seen = self._do(step)
                except Shortfall as reason:
                    found.failure = f"step {number} ({step.__struct_config__.tag}): {reason}"
                    self._say(f"{time.monotonic() - began:8.2f}    FAILED: {reason}")
                    break
                self._after(step)
                found.steps.append(PlayedStep(number=number, at_s=at_s, step=step, seen=seen))
                if seen is not None:
                    self._say(f"{time.monotonic() - began:8.2f}    {seen.in_words()}")
                    if seen.faults:
                        found.failure = f"step {number} (expect): {'; '.join(seen.faults)}"
                        break
            else:
                found.babbled = sum(sender.finish()["sent"] for sender in self._senders)
        found.lasted_s = time.monotonic() - began
        return found

    def _in_words(self, step: Step) -> str:
        """The step as in its file, with the positions behind words such as `root`."""
        given = msgspec.to_builtins(step)
        words = [str(given.pop("do"))]
        for key, value in given.items():
            words.append(f"{key} {' | '.join(value) if isinstance(value, tuple) else value}")
            if isinstance(value, str) and ("root" in value or "level" in value):
                words[-1] += f" ({definition.folded(self._named(value)) or 'no node'})"
        return " ".join(words)

    def _named(self, selector: str, among: Iterable[int] | None = None) -> tuple[int, ...]:
        """Raises ScenarioError, which `definition.check` has ruled out."""
        members = self._nodes if among is None else among
        return definition.select(selector, self._script.cluster, among=members, root=self._assertions.root())

    def _wait(self, until: float, condition: Callable[[], bool] = lambda: False) -> bool:
        """Fire timers and read the log, until the condition holds (True) or it is `until`.

        Raises Shortfall when a daemon has ended by itself.
        """
        while True:
            next_s = self._timers.run(blocking=False)  # until the next timer; None: there is none
            self._assertions.look()
            if condition():
                return True
            now = time.monotonic()
            if now >= until:
                return False
            time.sleep(min(READ_INTERVAL_S, until - now, max(0.0, next_s or READ_INTERVAL_S)))

    def _do(self, step: Step) -> Seen | Answers | None:
        name = step.__struct_config__.tag
        if isinstance(step, ON_NODES):
            getattr(self._faults, str(name))(self._named(step.nodes))
            return None
        do: Callable[[Step], Seen | Answers | None] = getattr(self, f"_do_{name}")
        return do(step)

    def _do_start(self, step: definition.Start) -> None:
        order = {"ascending": "together"}.get(step.order, step.order)
        named = start_order(self._named(step.nodes), order, self._chance.getrandbits(32))
        if step.gap_s == 0:
            self._faults.start(named)
            return
        for position in named:
            if position not in self._state.running:
                self._faults.start([position])
                self._wait(time.monotonic() + step.gap_s)

    def _do_restart(self, step: definition.Restart) -> None:
        named = self._named(step.nodes, self._state.running)
        self._faults.kill(named)
        self._wait(time.monotonic() + step.down_s)
        self._faults.start(named)

    def _do_slow(self, step: definition.Slow) -> None:
        until = time.monotonic() + step.for_s
        for position in self._named(step.nodes, self._state.running):
            self._stop(position, step, until)

    def _stop(self, position: int, step: definition.Slow, until: float) -> None:
        now = time.monotonic()
        if now < until:
            self._faults.freeze(position, frozen=True)
            self._timers.enterabs(min(until, now + step.stopped_s), 0, self._go_on, (position, step, until))

    def _go_on(self, position: int, step: definition.Slow, until: float) -> None:
        self._faults.freeze(position, frozen=False)
        again_at = time.monotonic() + max(step.running_s, RUNNING_S_MIN)
        self._timers.enterabs(again_at, 0, self._stop, (position, step, until))

    def _do_block(self, step: definition.Block) -> None:
        self._faults.block(self._named(step.source), self._named(step.target), step.protocol)

    def _do_partition(self, step: definition.Partition) -> None:
        self._faults.partition([self._named(group) for group in step.groups])

    def _do_weather(self, step: definition.Weather) -> None:
        self._faults.lose(step.loss)

    def _do_mend(self, _step: definition.Mend) -> None:
        self._faults.mend()

    def _do_babble(self, step: definition.Babble) -> None:
        cluster, targets = self._script.cluster, self._named(step.target)
        for position in self._named(step.source):
            order = bad_input.Order(
                targets=tuple(self._lab.address(target) for target in targets if target != position),
                what=step.what,
                per_s=step.per_s,
                for_s=step.for_s,
                seed=f"{self._script.seed}/{position}",
                network=cluster.network,
                fanout=cluster.fanout,
                guest_slots=cluster.guest_slots or cluster.fanout,
                numbering=cluster.numbering,
                timing=cluster.timing,
            )
            if order.targets:
                name = self._lab.options.name
                sender = NodeCommand(name, position, "send-bad-input", vars(order), step.for_s)
                self._senders.append(self._ending.enter_context(sender))
                sender.await_begin()

    def _do_churn(self, step: definition.Churn) -> None:
        named = self._named(step.nodes)
        per_s = len(named) * step.percent_per_min / 100 / 60
        until = time.monotonic() + step.for_s
        while True:
            at = time.monotonic() + self._chance.expovariate(per_s)
            position, way = self._chance.choice(named), self._chance.choice(step.ways)
            self._wait(min(at, until))
            if at >= until:
                break
            if position in self._state.running - self._state.paused:
                self._end(position, way)
                self._timers.enter(step.down_s, 0, self._return, (position,))
        self._wait(time.monotonic() + step.down_s + AGAIN_S)

    def _end(self, position: int, way: Way) -> None:
        ways = {"kill": self._faults.kill, "leave": self._faults.leave, "vanish": self._faults.vanish}
        ways[way]((position,))

    def _return(self, position: int) -> None:
        if self._faults.is_leaving(position):  # a graceful end may take longer than `down_s`
            self._timers.enter(AGAIN_S, 0, self._return, (position,))
        else:
            self._faults.start((position,))

    def _do_pass(self, step: definition.Pass) -> None:
        self._wait(time.monotonic() + step.s)

    def _do_order(self, step: definition.Order) -> None:
        self._orders.give(step, self._named(step.nodes))

    def _do_answered(self, step: definition.Answered) -> Answers:
        allowed = () if step.missing is None else self._named(step.missing)
        return self._orders.judge(step, allowed, self._wait)

    def _do_expect(self, step: definition.Expect) -> Seen:
        moved = None if step.moved is None else self._named(step.moved)
        return self._assertions.expect(step, moved, self._wait)
