"""Plays a scenario with orders under way, then demands of the settled tree that orders reach every node.

Inputs are a scenario and its seed; output is Played, or a Violation. While the steps go on, drawn orders are issued
at random nodes. When the tree is whole again, an order for all members has no node missing (C10); with an interior
node stopped that node alone is missing (C11). After all deadlines the tables are empty (C4).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from typing import Final

from subord.core.carriage.engine.frames import Order, order_of
from subord.core.carriage.engine.interface import Answer, Wakeup
from subord.core.carriage.engine.ranges import Ranges
from subord.core.members.register import State
from subord.core.members.writer import GRACE_S
from subord.core.view import Position
from subord.sim.draw.first import calm_s
from subord.sim.player import Play, Played
from subord.sim.scenario.definition import Scenario
from subord.sim.services.blobs import BlobSide
from subord.sim.services.drawing import ORDERS_MAX, LeasedDraw, OrderDraw, WriterDraw
from subord.sim.services.judge import Judge
from subord.sim.services.ledger import LedgerSide
from subord.sim.services.lies import Liar
from subord.sim.services.orders import Orders
from subord.sim.services.reports import ReportDraw, ReportSide
from subord.sim.services.truth import LEASED, READ
from subord.sim.violation import Violation
from subord.sim.world.members import Members

LEASED_S: Final = 17.0  # longer than a lease
LEASED_LEFT_S: Final = 60.0
ENDED_S_MAX: Final = 0.5
UNHEARD_S_MAX: Final = 16.0
QUIET_S: Final = 12.0  # until all streams are open
SETTLED_LEFT_S: Final = 20.0  # a chain of many levels keeps a margin at each
SETTLED_S_MAX: Final = 1.0
HUNG_S_MAX: Final = 3.0
AHEAD_S: Final = (0.0, 0.0, 0.0003, 0.0006, 0.001)  # by which an order is ahead of the stop of a node
STORED_S_MAX: Final = 150.0  # the longest pause between two trials, twice
AFTER_STOP_S: Final = 15.0  # a stopped node continues, and all streams open again
AFTER_DEATH_S: Final = 2.0
KNOWN_S_MAX: Final = 45.0  # a root waits no longer for members that it does not know
FIRST_GAP_S: Final = 0.7  # between orders for all members during a first start
FIRST_LEFT_S: Final = 3.0
REMEMBERED_S: Final = 10.0  # of what a root writes: the delay of its looks, and of new nodes
OVER_S: Final = 26.0  # the longest order
LONG_S: Final = 2000.0  # tags are kept no longer
OLDER: Final = "older release"


class OrderPlay:
    """One run of a scenario with orders."""

    def __init__(self, script: Scenario) -> None:
        self.play = Play(script, checked=False)  # the tree has campaigns of its own
        self.world = self.play.world
        if not script.cluster.register:
            self.world.members = Members(self.world)  # as in any daemon; what they remember is not judged
        self.judge = Judge(self.world)
        self.draw = OrderDraw(script.seed, self.play.positions)
        self.orders = Orders(self.world, self.judge, Random(f"{script.seed}/pipes"))
        self.orders.older = self.draw.older
        others = list(self.play.positions)
        self.orders.liars = {each: Liar(Random(f"{script.seed}/lies"), others) for each in sorted(self.draw.liars)}
        self._first = Random(f"{script.seed}/first orders")
        self.judge.calm_s = 0.0 if self.draw.liars else calm_s(script.steps)
        if calm_s(script.steps):
            self.world.hosts.update(self.play.positions)  # up, also where the daemon starts later
        self._act_s: dict[bytes, float] = {}
        self.orders.act_s = lambda tag: self._act_s.get(tag, 0.0)
        self.world.carried = self.orders
        self._left = ORDERS_MAX
        self.reports = ReportSide(self.world, ReportDraw(script.seed, self.play.positions), self.orders.feed)
        self.reports.engine_of, self.reports.has_edge = self.orders.engines.get, self.orders.has_edge
        self.orders.add(self.reports)
        self._leased = LeasedDraw(script.seed, self.play.positions)
        self._begin_ledger(script.seed)
        self.blobs = BlobSide(self.world, Random(f"{script.seed}/blobs"), self.orders.feed)
        self.blobs.engine_of = self.orders.engines.get
        self.orders.add(self.blobs)

    def _begin_ledger(self, seed: int) -> None:
        self._writers = WriterDraw(seed, self.play.positions)
        drawn, orders = self._writers, self.orders
        self.ledger = LedgerSide(self.world, Random(f"{seed}/disks"), drawn.sinks, drawn.spool_bytes, orders.feed)
        self.ledger.engine_of = orders.engines.get
        orders.add(self.ledger)

    def trace(self, say: Callable[[str], None]) -> None:
        """Pass a line for each step, frame and answer to `say`."""
        self.play.say = self.orders.say = say

    def run(self) -> Played:
        """All steps with orders, then the demands. Raises Violation."""
        self.world.after(self.draw.pause_s(), self._issue_drawn)
        self.world.after(self._writers.pause_s(), self._write_drawn)
        self.world.after(self._leased.pause_s(), self._issue_leased)
        self.world.after(FIRST_GAP_S, self._issue_first)
        self.blobs.begin(self._able)
        played = self.play.run()
        self._left = self._writers.left = self._leased.left = 0
        self.world.run(max(QUIET_S, self.reports.settled_at - self.world.now))
        self.orders.measure()
        self.world.run(1.0)
        self._demand_whole()
        self._demand_sum("in a settled tree")
        self._demand_bypass()
        self._demand_sum_after_death()
        self._demand_stored()
        self._demand_blobs()
        self._demand_leases()
        self._demand_over()
        return played

    # -- drawn orders -------------------------------------------------------------------------------------

    def _issue_drawn(self) -> None:
        if not self._left:
            return
        self._left -= 1
        self.world.after(self.draw.pause_s(), self._issue_drawn)
        issuers = [each for each in sorted(self.orders.engines) if each not in self.world.paused]
        if issuers:
            issuer = self.draw.chance.choice(issuers)
            drawn = self.draw.draw(issuer)
            self._act_s[drawn.order.tag] = drawn.act_s
            self._issue(drawn.order, drawn.left_s, drawn.targets)

    def _issue_first(self) -> None:
        """During a first start without faults: a reading of all members."""
        if self.world.now >= self.judge.calm_s:
            return
        self.world.after(FIRST_GAP_S, self._issue_first)
        if able := self._able():
            order = order_of(self._first.randbytes(16), READ, b"", None, self._first.choice(able))
            self._issue(order, FIRST_LEFT_S, None)

    def _issue(self, order: Order, left_s: float, targets: Ranges | None) -> None:
        targets_shown = "all" if targets is None else targets
        self.play.say(f"{order.issuer}: order {order.tag.hex()[:6]} {order.service} to {targets_shown}, {left_s} s")
        self.judge.issued(order.issuer, self.orders.engines[order.issuer], order, left_s, targets)
        self.orders.issue(order.issuer, order, left_s)

    def _issue_leased(self) -> None:
        if not self._leased.left:
            return
        self._leased.left -= 1
        self.world.after(self._leased.pause_s(), self._issue_leased)
        if able := self._able():
            drawn, cancel_s = self._leased.draw(self._leased.chance.choice(able))
            issuer, engine = drawn.order.issuer, self.orders.engines[drawn.order.issuer]
            self._act_s[drawn.order.tag] = drawn.act_s
            self._issue(drawn.order, drawn.left_s, drawn.targets)
            if cancel_s < inf:
                self.world.after(cancel_s, self.orders.cancel, issuer, engine, drawn.order.tag)

    def _write_drawn(self) -> None:
        if not self._writers.left:
            return
        self._writers.left -= 1
        self.world.after(self._writers.pause_s(), self._write_drawn)
        if able := self._able():
            self.ledger.write(self._writers.chance.choice(able))

    def _able(self) -> list[Position]:
        """Nodes with a process that runs."""
        return [each for each in sorted(self.orders.engines) if each not in self.world.paused]

    # -- a settled tree -----------------------------------------------------------------------------------

    def _ask(self, issuer: Position, targets: Ranges | None) -> tuple[Answer, float]:
        """The answer to a reading, and the time that it took."""
        order = order_of(self.draw.tag(), READ, b"", targets, issuer)
        self._issue(order, SETTLED_LEFT_S, targets)
        return self._answered(order, self.world.now)

    def _answered(self, order: Order, began: float) -> tuple[Answer, float]:
        while order.tag in self.judge.open and self.world.now < began + SETTLED_LEFT_S + 1.0:
            self.world.run(0.02)
        if order.tag not in self.judge.answers:
            raise Violation(
                "C2", self.world.now, f"{order.issuer} has no answer after {self.world.now - began:.2f} s"
            )
        return self.judge.answers[order.tag], self.judge.ended_at[order.tag] - began

    def _demand_whole(self) -> None:
        """C10: of a settled tree every node tells, within a second, and the answer for all members says so."""
        able = sorted(self.orders.engines)
        if not able or not self._can_be_whole():
            return
        self._await_register()
        self._await_settled()
        for _ in range(2):
            issuer = self.draw.chance.choice(able)
            targets = self.draw.chance.choice((None, Ranges.of(able), Ranges.of([self.draw.chance.choice(able)])))
            answer, took_s = self._ask(issuer, targets)
            self._demand(issuer, answer, set(able) if targets is None else set(targets), "C10")
            if not answer.is_resolved:
                raise Violation("C10", self.world.now, f"{issuer}: there may be others than {answer.targets}")
            if took_s > SETTLED_S_MAX:
                raise Violation("C10", self.world.now, f"{issuer} was answered after {took_s:.2f} s")

    def _await_register(self) -> None:
        """Wait until no root remembers a node as up that is gone: it may be on its way for GRACE_S."""
        world, until = self.world, self.world.now + GRACE_S + REMEMBERED_S
        while stale := [each for root in self._roots() for each in self._remembered(root) if each not in world.nodes]:
            if world.now > until:
                raise Violation("C10", world.now, f"a root remembers {stale} as up")
            world.run(1.0)

    def _await_settled(self) -> None:
        """Until each root knows all members, at the latest KNOWN_S_MAX after it came."""
        world, members, until = self.world, self.world.members, self.world.now + KNOWN_S_MAX
        assert members is not None
        while young := [p for p in self._roots() if not members.of[p].is_settled(world.nodes[p], world.clock(p))]:
            if world.now > until:
                raise Violation("C10", world.now, f"{young} do not know all members yet")
            world.run(1.0)

    def _remembered(self, position: Position) -> list[Position]:
        assert self.world.members is not None
        return self.world.members.of[position].register.positions(State.UP)

    def _roots(self) -> list[Position]:
        return [each for each in self.world.nodes if self.world.leader_of(each) == 0]

    def _can_be_whole(self) -> bool:
        """Whether the root knows orders, so that there is a coordinator, and no member lies about the tree."""
        return not self.world.unjudged and all(each in self.orders.engines for each in self._roots())

    def _demand(self, issuer: Position, answer: Answer, wanted: set[Position], rule: str) -> None:
        """The nodes of a settled tree that have told: all wanted ones."""
        told = {each for _, nodes in answer.groups for each in nodes} | set(answer.others)
        if told != wanted:
            raise Violation(rule, self.world.now, f"{issuer}: {wanted ^ told} missing or too many: {answer.missing}")
        older = {each for cause, nodes in answer.missing if cause == OLDER for each in nodes}
        if older - self.orders.older:
            raise Violation(rule, self.world.now, f"{issuer}: {older} are no older nodes")

    def _demand_bypass(self) -> None:
        """C11: of a tree with one stopped interior node, that node alone is missing."""
        world, able = self.world, sorted(self.orders.engines)
        interior = sorted({world.leader_of(each) for each in able} - {0})
        hung = [each for each in interior if world.leader_of(each) and each in self.orders.engines]
        if not hung or not self._can_be_whole():
            return
        chance, stopped = self.draw.chance, self.draw.chance.choice(hung)
        issuer = chance.choice([each for each in able if each != stopped])
        targets, ahead_s = chance.choice((None, Ranges.of(able))), chance.choice(AHEAD_S)
        order, began = order_of(self.draw.tag(), READ, b"", targets, issuer), world.now
        if ahead_s:
            self._issue(order, SETTLED_LEFT_S, targets)
            world.run(ahead_s)
        self.play.say(f"{stopped} is stopped")
        world.pause(stopped)
        if not ahead_s:
            self._issue(order, SETTLED_LEFT_S, targets)
        answer, took_s = self._answered(order, began)
        told = {each for _, nodes in answer.groups for each in nodes}
        self._demand(issuer, answer, set(able) - {stopped} | (told & {stopped}), "C11")
        if took_s > HUNG_S_MAX:
            raise Violation("C11", world.now, f"{issuer} was answered after {took_s:.2f} s")
        world.resume(stopped)

    def _demand_stored(self) -> None:
        """C8: no accepted record is lost; in a settled tree with a sink, every spool is emptied."""
        self.ledger.demand_kept()
        if self.world.unjudged or self.orders.older or not self.ledger.sinks & self.orders.engines.keys():
            return
        until = self.world.now + STORED_S_MAX
        while (waiting := self.ledger.waiting()) and self.world.now < until:
            self.world.run(1.0)
        if waiting:
            raise Violation("C8", self.world.now, f"records of {waiting} reach no sink")

    def _demand_sum(self, when: str) -> None:
        """C7: each root has the direct sum."""
        if self.world.unjudged:
            return
        for text in self.reports.wrong():
            raise Violation("C7", self.world.now, f"{when}: {text}")

    def _demand_sum_after_death(self) -> None:
        """C7: when a node without subordinates dies, the sum is right again soon."""
        world = self.world
        leaves = sorted(set(world.nodes) - {world.leader_of(each) for each in world.nodes})
        if world.unjudged or len(leaves) < 2 or not self.reports.is_reporting:
            return
        world.run(AFTER_STOP_S)
        dead = self.draw.chance.choice(leaves)
        self.play.say(f"{dead} is killed")
        world.kill(dead)
        world.run(AFTER_DEATH_S)
        self._demand_sum(f"{AFTER_DEATH_S} s after the death of {dead}")

    def _demand_blobs(self) -> None:
        """C12: in a settled tree every node gets the blob of a source that lives."""
        self.blobs.demand_whole()
        until = self.world.now + STORED_S_MAX
        while not self.world.unjudged and (waiting := self.blobs.waiting()):
            if self.world.now > until:
                raise Violation("C12", self.world.now, f"{waiting} do not get a blob")
            self.world.run(1.0)
        self.blobs.release()

    def _demand_leases(self) -> None:
        """C5: in a settled tree a leased order runs as long as its issuer waits. It ends soon when the order is
        cancelled, and within a lease when the issuer dies."""
        self.world.run(AFTER_STOP_S)
        able = sorted(self.orders.engines)
        if not able or not self._can_be_whole():
            return
        issuer, kills = self._leased.chance.choice(able), self._leased.kills
        order, engine = order_of(self.draw.tag(), LEASED, b"", Ranges.of(able), issuer), self.orders.engines[issuer]
        self._act_s[order.tag] = inf
        self._issue(order, LEASED_LEFT_S, Ranges.of(able))
        self.world.run(LEASED_S)
        self._demand_running(order, set(able))
        if kills:
            self.world.kill(issuer)
        else:
            self.orders.cancel(issuer, engine, order.tag)
        self.world.run(UNHEARD_S_MAX if kills else ENDED_S_MAX)
        self._demand_running(order, set())

    def _demand_running(self, order: Order, wanted: set[Position]) -> None:
        running = self.orders.leases.running(order.tag)
        if running != wanted:
            raise Violation("C5", self.world.now, f"{running ^ wanted} act on {order.tag.hex()}, or do not")

    def _demand_over(self) -> None:
        """C2 and C4: after all deadlines nothing is left."""
        self.world.run(OVER_S)
        self.judge.demand_ends(self.orders.engines)
        for position, engine in self.orders.engines.items():
            self.judge.demand_empty(position, engine, is_late=False)
            self.blobs.demand_empty(position, engine)
            now = self.world.clock(position) + LONG_S
            engine.handle(Wakeup(), now)
            self.judge.demand_empty(position, engine, is_late=True)
            if engine.deadline < inf and not self.ledger.waiting():
                raise Violation("C4", self.world.now, f"{position} still waits for {engine.deadline}")
