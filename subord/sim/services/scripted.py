"""Orders that a scenario file gives in the simulator: the engine runs in every node, and answers are judged.

Inputs are the steps `order` and `answered`; output is a Violation, or nothing. The judge of all orders (judge.py)
watches them as in a campaign.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import Tag, order_of
from subord.core.view import Position
from subord.sim.player import Play
from subord.sim.scenario.ordering import Answered, Heard, Order, complaint
from subord.sim.services.judge import Judge
from subord.sim.services.orders import Orders
from subord.sim.services.truth import READ
from subord.sim.violation import Violation

LOOK_S: Final = 0.02
GRACE_S: Final = 1.0


class Given(NamedTuple):
    """An order under way, and the nodes that ran when it was given."""

    tag: Tag
    issuer: Position
    engine: Engine
    at: float
    running: frozenset[Position]


class ScriptedOrders:
    """The orders of one play."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._world = play.world
        self._chance = Random(f"{play.script.seed}/orders")
        self._judge = Judge(self._world)
        self._orders = Orders(self._world, self._judge, Random(f"{play.script.seed}/pipes"))
        self._world.carried = self._orders
        self._given: list[Given] = []

    def do(self, step: Order | Answered) -> None:
        """One step. Raises Violation."""
        if isinstance(step, Order):
            self._give(step)
            return
        given, self._given = self._given, []
        for each in given:
            self._wait(each, each.at + step.within_s + GRACE_S)
            wrong = self._complaint(step, each)
            if wrong is not None:
                raise Violation("answered", self._world.now, wrong)

    def _running(self) -> frozenset[Position]:
        """The nodes with a process, also a stopped one."""
        return frozenset(self._orders.engines)

    def _give(self, step: Order) -> None:
        for issuer in self._play.named(step.nodes, sorted(self._running() - self._world.paused.keys())):
            engine = self._orders.engines[issuer]
            for _ in range(step.times):
                order = order_of(self._chance.randbytes(bounds.TAG_BYTES), READ, b"", None, issuer)
                self._given.append(Given(order.tag, issuer, engine, self._world.now, self._running()))
                self._judge.issued(issuer, engine, order, step.left_s, None)
                self._orders.issue(issuer, order, step.left_s)

    def _is_void(self, given: Given) -> bool:
        """Whether the process that gave it has ended."""
        return self._orders.engines.get(given.issuer) is not given.engine

    def _wait(self, given: Given, until: float) -> None:
        while given.tag in self._judge.open and not self._is_void(given) and self._world.now < until:
            self._world.run(LOOK_S)

    def _complaint(self, step: Answered, given: Given) -> str | None:
        answer = self._judge.answers.get(given.tag)
        if answer is None:
            late = f"{given.issuer} has no answer after {self._world.now - given.at:.2f} s"
            return None if self._is_void(given) else late
        told = frozenset(each for _, nodes in answer.groups for each in nodes) | frozenset(answer.others)
        missing = {each: cause for cause, nodes in answer.missing for each in nodes}
        heard = Heard(given.issuer, self._judge.ended_at[given.tag] - given.at, told, missing)
        allowed = frozenset(() if step.missing is None else self._play.named(step.missing, self._play.positions))
        return complaint(step, heard, given.running & self._running(), allowed)


def attach(play: Play) -> Play:
    """Let nodes carry orders, if the scenario gives any."""
    if any(isinstance(step, Order | Answered) for step in play.script.steps):
        play.on_order = ScriptedOrders(play).do
    return play
