"""How many nodes move when one dies and when it comes back, and how deep the tree is: in dense and sparse networks.

Intuition: one family moves out of a block of flats, and moves in again later. Count the vans in the street. If a
whole stairwell moves each time, the house rules are bad, however good the plan of the flats.

A move is a leader that is not the last one that the node had; the first place of a returning node is one, too. Moves
are counted without a gap: what comes after the quiet time that ends an event counts for the next event.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Literal, get_args

import msgspec

from subord.core.address.network import Network
from subord.core.events import Notice, PlaceChanged
from subord.core.state.settings import Settings, TimingName
from subord.core.state.view import Position
from subord.sim.checkers.checker import Violation
from subord.sim.world.world import World

Order = Literal["ascending", "reverse", "random"]
Layout = Literal["dense", "holes", "thirds", "random", "blocks", "end"]
ORDERS: tuple[Order, ...] = get_args(Order)
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

NETWORK, SIZE = "10.0.0.0/16", 65_534
TIMING: TimingName = "lan"
GAP_S = 0.008  # between two starts
QUIET_S = 60.0  # nobody moves for so long, and there is one root: the event is over
QUIET_WITHIN_S = 3600.0
LOOK_EVERY_S = 1.0
BLOCKS = 5
DEAD_SHARE = 0.05  # of the layout with holes
CHURN_PER_MIN = 0.1  # share of the nodes that die in a minute
CHURN_AWAY_S = 2.0  # and come back after so long


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is played. The seed decides the layout, the node that all have as seed, the order and the victims."""

    layout: Layout
    fanout: int  # guest slots are as many
    nodes: int = 200
    seed: int = 1


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster after its start."""

    order: Order
    depth: int  # edges below the root
    subordinates_max: int
    settled_s: float  # the last move, from the last start


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """An interior node died, and came back after all was quiet."""

    victim: Position
    subordinates: int  # when it died
    died: int  # moves
    died_others: int  # of these, by nodes that were not led by the victim
    returned: int  # moves, its own first place counted
    returned_others: int  # of these, by others than the victim and its subordinates of before and after


class Churned(msgspec.Struct, frozen=True, kw_only=True):
    """Minutes in which nodes die and come back all the time."""

    depth_before: int
    depths: tuple[int, ...]  # at the end of each minute
    depth_after: int  # when all was quiet again
    deaths: int
    moves: int


def positions_of(layout: Layout, nodes: int, chance: Random) -> list[Position]:
    """So many positions of NETWORK, ascending. `blocks` may hold up to BLOCKS - 1 nodes less."""
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


class Town:
    """A world that started in some order and is quiet, with a counter of moves."""

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
        self._last: dict[Position, Position] = {}  # the leader that a node had last
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
        """Until nobody has moved for QUIET_S and there is one root. Raises Violation after QUIET_WITHIN_S."""
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
        """Start it again, without memory."""
        if position not in self.world.nodes:
            self.world.start(position)

    def leaders(self) -> dict[Position, Position]:
        """Who has a living leader -> that leader."""
        found = {position: self.world.leader_of(position) for position in self.world.living()}
        return {position: leader for position, leader in found.items() if leader in found}

    def roots(self) -> int:
        """How many have no leader, or one that is dead."""
        return len(self.world.nodes) - len(self.leaders())

    def depth(self) -> int:
        """Edges between the farthest node and the root that it can reach."""
        leaders = self.leaders()
        found: dict[Position, int] = {}
        for position in self.world.living():  # whoever leads is lower, hence comes before
            found[position] = found[leaders[position]] + 1 if position in leaders else 0
        return max(found.values())


def happen(town: Town, events: int) -> list[Happened]:
    """So many interior nodes below the root die and come back, one after the other; fewer if there are no more."""
    found: list[Happened] = []
    for _ in range(events):
        leaders = town.leaders()
        had = {each.victim for each in found}
        interior = sorted(p for p in set(leaders.values()) if p in leaders and p not in had)
        if not interior:
            break
        found.append(_happened(town, town.victims.choice(interior)))
    return found


def _happened(town: Town, victim: Position) -> Happened:
    below = _below(town, victim)
    town.crash(victim)
    town.settle()
    died = town.take()
    town.come_back(victim)
    town.settle()
    returned, near = town.take(), below | _below(town, victim) | {victim}
    return Happened(
        victim=victim,
        subordinates=len(below),
        died=died.total(),
        died_others=sum(times for position, times in died.items() if position not in below),
        returned=returned.total(),
        returned_others=sum(times for position, times in returned.items() if position not in near),
    )


def _below(town: Town, leader: Position) -> set[Position]:
    return {position for position, its_leader in town.leaders().items() if its_leader == leader}


def churn(town: Town, minutes: int) -> Churned:
    """CHURN_PER_MIN of the nodes die in each minute, at any time, and come back after CHURN_AWAY_S."""
    before, depths, deaths = town.depth(), [], 0
    town.take()
    for _ in range(minutes):
        times = round(CHURN_PER_MIN * len(town.positions))
        instants = [0.0, *sorted(town.victims.uniform(0, 60) for _ in range(times)), 60.0]
        for earlier, at in pairwise(instants):
            town.world.run(at - earlier)
            if at < 60:
                deaths += _strike(town)
        depths.append(town.depth())
    town.settle()
    return Churned(
        depth_before=before, depths=tuple(depths), depth_after=town.depth(), deaths=deaths, moves=town.take().total()
    )


def _strike(town: Town) -> int:
    """One of the living dies, and comes back later. Returns how many died."""
    victim = town.victims.choice(town.world.living())
    town.crash(victim)
    town.world.after(CHURN_AWAY_S, town.come_back, victim)
    return 1
