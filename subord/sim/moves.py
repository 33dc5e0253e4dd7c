"""Counts the moves of nodes when one dies and returns, and the depth of the tree, in dense and sparse networks.

A move is a leader other than the node's last one; the first place of a returning node is one, too. No move is lost: a
move after the quiet time of an event counts for the next event.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Literal, get_args

import msgspec

from subord.core.address.network import Network
from subord.core.events import Notice, PlaceChanged
from subord.core.settings import Settings, TimingName
from subord.core.view import Position
from subord.sim.violation import Violation
from subord.sim.world.world import World

Order = Literal["ascending", "reverse", "random"]
Layout = Literal["dense", "holes", "thirds", "random", "blocks", "end"]
ORDERS: tuple[Order, ...] = get_args(Order)
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

NETWORK, SIZE = "10.0.0.0/16", 65_534
TIMING: TimingName = "lan"
GAP_S = 0.008  # between two starts
QUIET_S = 60.0  # an event ends after this time without moves, with one root
QUIET_WITHIN_S = 3600.0
LOOK_EVERY_S = 1.0
BLOCKS = 5
DEAD_SHARE = 0.05  # of the layout with holes
CHURN_PER_MIN = 0.1  # share of the nodes that die in a minute
CHURN_AWAY_S = 2.0  # until they return


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A layout and its seed, which decides the positions, the common seed node, the order and the victims."""

    layout: Layout
    fanout: int  # guest slots are as many
    nodes: int = 200
    seed: int = 1


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster after all starts."""

    order: Order
    depth: int  # edges from the root to the deepest node
    subordinates_max: int
    settled_s: float  # from the last start to the last move


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """An interior node died, and returned after all moves had ended."""

    victim: Position
    subordinates: int  # when it died
    died: int  # moves
    died_others: int  # of these, by nodes that were no subordinates of the victim
    returned: int  # moves, including its own first place
    returned_others: int  # of these, neither by the victim nor by its former or present subordinates


class Churned(msgspec.Struct, frozen=True, kw_only=True):
    """Minutes in which nodes die and return continuously."""

    depth_before: int
    depths: tuple[int, ...]  # at the end of each minute
    depth_after: int  # at rest
    deaths: int
    moves: int


def positions_of(layout: Layout, nodes: int, chance: Random) -> list[Position]:
    """`nodes` positions of NETWORK, ascending. `blocks` may hold up to BLOCKS - 1 fewer."""
    match layout:
        case "dense":
            return list(range(1, nodes + 1))
        case "holes":
            return sorted(chance.sample(range(1, round(nodes / (1 - DEAD_SHARE)) + 1), nodes))
        case "thirds":
            return list(range(3, 3 * nodes + 1, 3))
        case "random":
            return sorted(chance.sample(range(1, SIZE + 1), nodes))
        case "blocks":
            length = nodes // BLOCKS
            starts = sorted(chance.sample(range(1, SIZE - BLOCKS * length), BLOCKS))
            return [start + number * length + i for number, start in enumerate(starts) for i in range(length)]
        case "end":
            return list(range(SIZE - nodes + 1, SIZE + 1))


class MovesRun:
    """A world at rest after starts in some order, with a counter of moves."""

    def __init__(self, case: Case, order: Order) -> None:
        chance = Random(f"{case.seed}/moves")
        self.positions = positions_of(case.layout, case.nodes, chance)
        self.victims = Random(f"{case.seed}/victims")
        settings = Settings(
            network=Network.parse(NETWORK), fanout=case.fanout, guest_slots=case.fanout, timing_name=TIMING
        )
        self.world = World(settings, case.seed)
        self.world.seeds = (chance.choice(self.positions),)
        self.world.hosts.update(self.positions)
        self.world.on_notice = self._hear
        self.moves: Counter[Position] = Counter()  # since `take`
        self._last: dict[Position, Position] = {}  # the last leader of each node
        self.started = self._start(order, chance)
        self.take()

    def _start(self, order: Order, chance: Random) -> Started:
        in_order = sorted(self.positions, reverse=order == "reverse")
        if order == "random":
            chance.shuffle(in_order)
        for position in in_order:
            self.world.start(position)
            self.world.run(GAP_S)
        last_start = self.world.now
        self.settle()
        return Started(
            order=order,
            depth=self.depth(),
            subordinates_max=max(Counter(self.leaders().values()).values()),
            settled_s=max(0.0, self.world.moved_at - last_start),
        )

    def _hear(self, position: Position, notice: Notice) -> None:
        if isinstance(notice, PlaceChanged) and notice.leader not in (None, self._last.get(position)):
            assert notice.leader is not None
            self._last[position] = notice.leader
            self.moves[position] += 1

    def settle(self) -> None:
        """Run until no node has moved for QUIET_S and there is one root. Raises Violation after QUIET_WITHIN_S."""
        began = self.world.now
        while self.world.now - max(began, self.world.moved_at) < QUIET_S or self.roots() > 1:
            self.world.run(LOOK_EVERY_S)
            if self.world.now - began > QUIET_WITHIN_S:
                raise Violation("moves", self.world.now, f"no rest after {QUIET_WITHIN_S:g} s, roots: {self.roots()}")

    def take(self) -> Counter[Position]:
        """The moves since the last call, by node."""
        taken, self.moves = self.moves, Counter()
        return taken

    def crash(self, position: Position) -> None:
        """Its process dies; its next leader counts as a move, even if it is the same."""
        self.world.crash(position)
        self._last.pop(position, None)

    def come_back(self, position: Position) -> None:
        """Start it again, without a disk."""
        if position not in self.world.nodes:
            self.world.start(position)

    def leaders(self) -> dict[Position, Position]:
        """Nodes with a living leader -> that leader."""
        found = {position: self.world.leader_of(position) for position in self.world.living()}
        return {position: leader for position, leader in found.items() if leader in found}

    def roots(self) -> int:
        """The number of nodes without a living leader."""
        return len(self.world.nodes) - len(self.leaders())

    def depth(self) -> int:
        """Edges on the longest path from a node up to its root."""
        leaders = self.leaders()
        found: dict[Position, int] = {}
        for position in self.world.living():  # a leader is lower, hence comes first
            found[position] = found[leaders[position]] + 1 if position in leaders else 0
        return max(found.values())


def happen(run: MovesRun, events: int) -> list[Happened]:
    """`events` interior nodes below the root die and return, one at a time; fewer if there are not as many."""
    found: list[Happened] = []
    for _ in range(events):
        leaders = run.leaders()
        had = {each.victim for each in found}
        interior = sorted(p for p in set(leaders.values()) if p in leaders and p not in had)
        if not interior:
            break
        found.append(_happened(run, run.victims.choice(interior)))
    return found


def _happened(run: MovesRun, victim: Position) -> Happened:
    below = _below(run, victim)
    run.crash(victim)
    run.settle()
    died = run.take()
    run.come_back(victim)
    run.settle()
    returned, near = run.take(), below | _below(run, victim) | {victim}
    return Happened(
        victim=victim,
        subordinates=len(below),
        died=died.total(),
        died_others=sum(times for position, times in died.items() if position not in below),
        returned=returned.total(),
        returned_others=sum(times for position, times in returned.items() if position not in near),
    )


def _below(run: MovesRun, leader: Position) -> set[Position]:
    return {position for position, its_leader in run.leaders().items() if its_leader == leader}


def churn(run: MovesRun, minutes: int) -> Churned:
    """CHURN_PER_MIN of the nodes die in each minute at random instants, and return after CHURN_AWAY_S."""
    before, depths, deaths = run.depth(), [], 0
    run.take()
    for _ in range(minutes):
        times = round(CHURN_PER_MIN * len(run.positions))
        instants = [0.0, *sorted(run.victims.uniform(0, 60) for _ in range(times)), 60.0]
        for earlier, at in pairwise(instants):
            run.world.run(at - earlier)
            if at < 60:
                deaths += _strike(run)
        depths.append(run.depth())
    run.settle()
    return Churned(
        depth_before=before, depths=tuple(depths), depth_after=run.depth(), deaths=deaths, moves=run.take().total()
    )


def _strike(run: MovesRun) -> int:
    """A random living node dies and is set to return. Returns the number of deaths."""
    victim = run.victims.choice(run.world.living())
    run.crash(victim)
    run.world.after(CHURN_AWAY_S, run.come_back, victim)
    return 1
