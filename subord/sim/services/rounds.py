"""Plays rounds: an order like one of `subord exec` appends a line to a file on each target while interior nodes fail.

Inputs are a scenario, whose steps end with a settled tree, and its seed; output is Played, or a Violation. In each
round an order is given, and somewhat before or after it interior nodes are killed, restarted, stopped, cut off, or
lost with their hosts. Then the files are compared with the answer: no file has a line twice (C3), a node that has
told has one (C6), and each target that was left alone has told (C10), soon if nothing but a process has died (C11).
When all is mended, some orders are given again at another node.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from typing import Final

import msgspec

from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.core.carriage.engine.frames import Order, order_of
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Position
from subord.sim.checkers.liveness import demand_wholeness
from subord.sim.player import Play, Played
from subord.sim.scenario.definition import Scenario
from subord.sim.services.judge import Judge
from subord.sim.services.orders import Orders
from subord.sim.services.truth import LEASED
from subord.sim.violation import Violation

ROUNDS: Final = 10
LEFT_S: Final = 20.0
RUN_S: Final = (0.0, 0.0, 0.02, 0.4, 2.0)
"""How long the command runs."""
WHEN_S: Final = (-2.0, -0.3, -0.05, 0.0, 0.0003, 0.0006, 0.001, 0.002, 0.005, 0.05, 0.5, 1.5)
"""When nodes fail, from when the order is given."""
FAULTS: Final = ("kill", "restart", "stop", "cut", "vanish")
SOON: Final = ("kill", "restart")
AFTER_S_MAX: Final = 3.0
MANY_SHARE: Final = 0.25  # of the rounds with several nodes that fail
ALL_SHARE: Final = 0.6
AGAIN_SHARE: Final = 0.3
LOOK_S: Final = 0.02
DOWN_S: Final = 0.1  # of a process that is started again
QUIET_S: Final = 15.0  # until all streams are open


class RoundPlay:
    """One run of a scenario, and the rounds after it."""

    def __init__(self, script: Scenario) -> None:
        self.play = Play(script, checked=False)
        self.world = self.play.world
        self._judge = Judge(self.world)
        self._orders = Orders(self.world, self._judge, Random(f"{script.seed}/pipes"))
        self._chance = Random(f"{script.seed}/append")
        self._run_s = 0.0
        self._orders.act_s = lambda _: self._run_s
        self.world.carried = self._orders

    def trace(self, say: Callable[[str], None]) -> None:
        """Pass a line for each step, frame and answer to `say`."""
        self.play.say = self._orders.say = say

    def run(self) -> Played:
        """All rounds. Raises Violation."""
        played = self.play.run()
        for number in range(1, ROUNDS + 1):
            self.world.run(QUIET_S)
            order = self._round(number)
            self._mend()
            if self._chance.random() < AGAIN_SHARE:
                self._again(order)
        return played

    def _round(self, number: int) -> Order:
        chance, world = self._chance, self.world
        able = sorted(self._orders.engines)
        failing, fault = self._failing(), chance.choice(FAULTS)
        spared = [each for each in able if each not in failing]
        issuer = chance.choice(spared)
        named = None if chance.random() < ALL_SHARE else chance.sample(able, chance.randint(1, len(able)))
        targets = None if named is None else Ranges.of(named)
        order = order_of(chance.randbytes(TAG_BYTES), LEASED, b"", targets, issuer)
        self._run_s, when_s = chance.choice(RUN_S), chance.choice(WHEN_S)
        shown = "all" if named is None else targets
        self.play.say(f"round {number}: {issuer} to {shown}, {self._run_s} s; {fault} {failing} after {when_s} s")
        if when_s < 0:
            self._fail(fault, failing)
            world.run(-when_s)
        self._give(order, targets)
        if when_s >= 0:
            world.run(when_s)
            self._fail(fault, failing)
        spared_targets = {*(able if named is None else named)} - {*failing}
        begun_s = self._await(order, spared_targets) - max(0.0, when_s)
        self._compare(order, self._judge.answers[order.tag], spared_targets)
        if fault in SOON and begun_s > AFTER_S_MAX:
            raise Violation("C11", world.now, f"{issuer}: not all targets ran it within {begun_s:.2f} s")
        self.play.say(f"ran {begun_s:.2f} s later on all targets")
        return order

    def _give(self, order: Order, targets: Ranges | None) -> None:
        self._judge.issued(order.issuer, self._orders.engines[order.issuer], order, LEFT_S, targets)
        self._orders.issue(order.issuer, order, LEFT_S)

    def _again(self, order: Order) -> None:
        """Another node gives the same order."""
        self.world.run(QUIET_S)
        issuer = self._chance.choice(sorted(self._orders.engines))
        self.play.say(f"again: {issuer}")
        del self._judge.answers[order.tag]
        given = msgspec.structs.replace(order, issuer=issuer)
        self._give(given, None if order.flat_targets is None else Ranges.unflat(order.flat_targets))
        self._await(given, set())
        self._compare(given, self._judge.answers[order.tag], set())

    def _failing(self) -> list[Position]:
        """Nodes with subordinates, the root among them."""
        world, chance = self.world, self._chance
        interior = sorted({world.leader_of(each) for each in world.nodes} - {0})
        many = chance.random() < MANY_SHARE
        return sorted(chance.sample(interior, min(len(interior), chance.randint(2, 3) if many else 1)))

    def _fail(self, fault: str, failing: list[Position]) -> None:
        world = self.world
        for each in failing:
            match fault:
                case "kill":
                    world.crash(each)
                case "restart":
                    world.crash(each)
                    world.after(DOWN_S, world.start, each)
                case "stop":
                    world.pause(each)
                case "cut":
                    world.weather.cut.add(each)
                case "vanish":
                    world.vanish(each)

    def _mend(self) -> None:
        """All nodes run in a whole tree, and nothing runs of the order."""
        world = self.world
        world.weather.cut.clear()
        for each in sorted(world.paused):
            world.resume(each)
        for each in self.play.positions:
            if each not in world.nodes:
                world.start(each)
        demand_wholeness(world, home=False)

    def _await(self, order: Order, targets: set[Position]) -> float:
        """Until the answer; after how long all these targets had run the command."""
        began, world, times = self.world.now, self.world, self._orders.leases.times
        all_s = inf
        while True:
            if all_s == inf and all(times[each, order.tag] for each in targets):
                all_s = world.now - began
            if order.tag in self._judge.answers:
                return all_s
            if world.now > began + LEFT_S + 1.0:
                raise Violation("C2", world.now, f"{order.issuer} has no answer")
            world.run(LOOK_S)

    def _compare(self, order: Order, answer: Answer, spared: set[Position]) -> None:
        """The answer, and the files."""
        now, tag = self.world.now, order.tag
        lines = {each: self._orders.leases.times[each, tag] for each in self.play.positions}
        told = {each for _, nodes in answer.groups for each in nodes} | set(answer.others)
        twice = sorted(each for each, times in lines.items() if times > 1)
        invented = sorted(each for each in told if not lines[each])
        if twice:
            raise Violation("C3", now, f"{twice} have run {tag.hex()} more than once")
        if invented:
            raise Violation("C6", now, f"{invented} have told, and have not run {tag.hex()}")
        if spared - told:
            raise Violation("C10", now, f"{sorted(spared - told)} have not failed, and are missing: {answer.missing}")
