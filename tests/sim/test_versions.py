"""Two releases in one simulated cluster: they form one tree, and each pair finds its best common version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from loops import over
from small_world import SmallWorld

from subord.core.messages import Message, Versions
from subord.core.view import Position
from subord.sim.draw.seed import draw
from subord.sim.player import Play
from subord.sim.world.later_release import BOTH, LATER, ONLY_LATER
from subord.wire.codec import WIRE, Wire
from subord.wire.versions import TELL_S

pytestmark = pytest.mark.slow

NODES = 31
HEALED_S_MAX = 30.0
FOUND_S_MAX = TELL_S + 2 * 2.5 * 1.1  # and one beat of each end


class Mixed(SmallWorld):
    """Records the version of each datagram that arrives."""

    heard: dict[tuple[Position, Position], int]

    def deliver(self, source: Position, target: Position, data: bytes, by_multicast: bool = False) -> None:
        self.heard[source, target] = data[1]
        super().deliver(source, target, data, by_multicast)

    def versions(self) -> dict[tuple[Position, Position], int]:
        """The version of the last datagram on each edge, in both directions."""
        edges = [(a, b) for a, b in self.leaders().items() if b]
        return {(a, b): self.heard[a, b] for pair in edges for a, b in (pair, pair[::-1])}

    def best(self) -> dict[tuple[Position, Position], int]:
        """The best common version of each edge, in both directions."""
        return {
            (a, b): max(set(self.wires[a].spoken) & set(self.wires[b].spoken))
            for edge in self.leaders().items()
            if edge[1]
            for a, b in (edge, edge[::-1])
        }


def mixed(wire_of: Callable[[Position], Wire], nodes: int = NODES, **options: object) -> Mixed:
    world = Mixed.empty(2, **options)
    assert isinstance(world, Mixed)
    world.heard = {}
    for position in range(1, nodes + 1):
        world.wires[position] = wire_of(position)
    world.start_all(range(1, nodes + 1))
    world.run_until(world.whole, HEALED_S_MAX)
    return world


def replaced(world: Mixed, position: Position, wire: Wire) -> None:
    """A daemon leaves, and another release starts in its place; there is one tree all the time."""
    world.leave(position)
    world.run_until(lambda: position not in world.nodes, HEALED_S_MAX)
    world.run_until(world.whole, HEALED_S_MAX)
    world.wires[position] = wire
    world.start(position)
    world.run_until(world.whole, HEALED_S_MAX)


def old_and_new(position: Position) -> Wire:
    """Edges lead from old to new, from new to old, and between two equal releases."""
    return BOTH if position % 3 == 0 or position % 4 == 1 else WIRE


@pytest.mark.parametrize("mapping", ["ip", "performance"])
def test_half_old_half_new_is_one_tree_and_each_edge_has_its_best_version(mapping: str) -> None:
    world = mixed(old_and_new, mapping=mapping)
    world.run(FOUND_S_MAX)
    assert world.versions() == world.best()
    kinds = {(world.wires[a] is BOTH, world.wires[b] is BOTH) for a, b in world.best()}
    assert kinds == {(True, True), (True, False), (False, True), (False, False)}
    before = world.moves()
    world.run(300)
    assert (world.whole(), world.moves()) == (True, before)
    assert world.dropped == {}
    assert not any(world.shown(position).refusals for position in world.nodes)


def test_a_cluster_is_upgraded_node_by_node_and_one_goes_back() -> None:
    world = mixed(lambda _: WIRE, nodes=11)
    for position in (1, *range(11, 1, -1)):
        replaced(world, position, BOTH)
    world.run(HEALED_S_MAX + FOUND_S_MAX)
    assert set(world.versions().values()) == {LATER}
    before = world.leaders()
    replaced(world, 4, WIRE)  # it leads two, and is led
    world.run(HEALED_S_MAX + FOUND_S_MAX)
    assert world.leaders() == before
    assert world.versions() == world.best()


def test_a_restart_with_an_older_daemon_moves_no_node() -> None:
    """Crash and start within the grace: its neighbours use a version that it cannot read, and are told so at once."""
    world = mixed(lambda _: BOTH, nodes=11)
    world.run(60)
    before, leaders = world.moves(), world.leaders()
    world.crash(2)
    world.wires[2] = WIRE
    world.run(0.15)
    world.start(2)
    world.run(30)
    assert (world.whole(), world.leaders()) == (True, leaders)
    assert {p: moves for p, moves in world.moves().items() if p != 2} == {p: before[p] for p in before if p != 2}
    assert world.versions() == world.best()


def test_two_releases_apart_the_one_between_is_enough() -> None:
    """Version 3 alone, and 1 with 3; a node with version 1 alone is refused by address, and moves no node."""
    world = mixed(lambda position: ONLY_LATER if position % 2 else BOTH)
    world.run(FOUND_S_MAX)
    assert set(world.versions().values()) == {LATER}
    before = world.moves()
    world.wires[32] = WIRE  # its computed leader 16 has both versions, and accepts it
    world.start(32)
    world.run(30)
    assert world.leader_of(32) == 16
    world.wires[33] = WIRE
    world.crash(16)
    world.crash(32)
    del before[16]
    world.run(90)
    world.start(33)  # at home below 16, which is away; the even positions have its version
    world.run(60)
    assert world.leader_of(33) % 2 == 0
    reasons = {refusal.address: refusal.reason for refusal in world.shown(33).refusals}
    assert set(reasons.values()) <= {"speaks wire versions [3], we do not", "speaks wire version 3, we do not"}


@over(("low", "high"), [(BOTH, ONLY_LATER), (ONLY_LATER, BOTH), (BOTH, BOTH), (WIRE, BOTH), (BOTH, WIRE)])
def test_announcements_are_understood_one_release_away(low: Wire, high: Wire) -> None:
    world = SmallWorld.empty(2)
    world.multicast = True
    lows, highs = (1000, 2222, 3333), (40000, 51000, 60000)
    world.wires |= {**dict.fromkeys(lows, low), **dict.fromkeys(highs, high)}
    world.start_all((*highs[::-1], *lows[::-1]))
    world.run_until(world.whole, HEALED_S_MAX)


LIES: list[tuple[str, Wire, Wire, tuple[int, ...]]] = [
    ("that a new one is old", BOTH, BOTH, (1,)),
    ("that an old one is new", BOTH, WIRE, (1, LATER)),
    ("that an old one is much newer", BOTH, WIRE, (LATER,)),
    ("that a node has no version", BOTH, BOTH, ()),
    ("that a node has no common version", BOTH, WIRE, (200,)),
]


@over(("one", "other", "spoken"), [pytest.param(*row[1:], id=row[0]) for row in LIES])
def test_lies_about_versions_move_no_node_and_do_not_last(one: Wire, other: Wire, spoken: tuple[int, ...]) -> None:
    world = mixed(lambda position: one if position.bit_length() % 2 else other, nodes=15)
    world.run(60)
    before = world.moves()
    for leader, subordinate in ((1, 2), (2, 4), (4, 8), (4, 9)):
        world.tell(leader, subordinate, Versions(spoken))  # to both at once: neither can correct the other
        world.tell(subordinate, leader, Versions(spoken))
    world.run(FOUND_S_MAX)
    assert world.versions() == world.best()
    assert (world.whole(), world.moves()) == (True, before)


def test_versions_cost_little_between_old_and_new_and_nothing_among_equals() -> None:
    sent: list[tuple[Position, Position]] = []

    def note(source: Position, target: Position, message: Message) -> bool:
        if isinstance(message, Versions):
            sent.append((source, target))
        return False

    for wires, per_edge_max in (({WIRE}, 0), ({BOTH}, 0), ({WIRE, BOTH}, 60 / TELL_S + 1)):
        world = mixed(lambda position, wires=wires: sorted(wires, key=id)[position % len(wires)])  # type: ignore[misc]
        world.run(60)
        world.lossy = note
        sent.clear()
        world.run(60)
        assert len(sent) <= per_edge_max * (NODES - 1)
        assert bool(sent) == (len(wires) > 1)


@over("seed", range(24))
def test_drawn_faults_hold_with_old_and_new(seed: int) -> None:
    """S1 to S14, then L1 to L10, as in the campaigns."""
    play = Play(draw(seed))
    for position in play.positions[seed % 2 :: 2]:
        play.world.wires[position] = BOTH
    play.run()
