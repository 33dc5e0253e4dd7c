"""The whole cluster stops and starts with its disks: no node has to search (docs/protocol.md, section 3)."""

from __future__ import annotations

from random import Random

import pytest

from subord.core.address.network import Network
from subord.core.events import Neighbourhood, PlaceChanged
from subord.core.settings import LAN, Settings
from subord.core.snapshots import neighbourhood
from subord.core.state.states import Phase
from subord.sim.world.world import World

pytestmark = pytest.mark.slow

N = 50
GAP_S = 0.008  # between two starts
SETTLE_S = 90.0
POSITIONS = sorted(Random(5).sample(range(1, 4095), N))


@pytest.fixture(scope="module")
def stopped() -> World:
    """A stopped cluster at sparse addresses, with what its nodes kept on disk."""
    settings = Settings(network=Network.parse("10.0.0.0/20"), fanout=N, guest_slots=N)
    world = World(settings, disk=True)
    start(world, POSITIONS)
    world.run(SETTLE_S)
    assert roots(world) == POSITIONS[:1]
    for position in POSITIONS[::-1]:
        world.crash(position)
    return world


def start(world: World, positions: list[int]) -> None:
    for position in positions:
        world.start(position)
        world.run(GAP_S)


def remembered(world: World, position: int) -> Neighbourhood:
    found = neighbourhood(world.nodes[position])
    assert found is not None
    return found


def roots(world: World) -> list[int]:
    return [position for position in world.nodes if world.leader_of(position) == 0]


def test_a_whole_cluster_stands_as_soon_as_its_root_knows_that_it_was_root(stopped: World) -> None:
    moves: list[PlaceChanged] = []
    asked: set[tuple[int, int]] = set()
    stopped.on_notice = lambda _, notice: moves.append(notice) if isinstance(notice, PlaceChanged) else None
    stopped.on_message = lambda source, target, *_: asked.add((source, target)) if target not in POSITIONS else None
    start(stopped, POSITIONS)
    stopped.run(2 * LAN.answer_s)
    assert roots(stopped) == POSITIONS[:1]
    assert len(moves) == N  # one place each
    # Their homes and nearest neighbours, without a search; the root sends `Back` to its computed subordinates.
    assert len([source for source, _ in asked if source != POSITIONS[0]]) <= 3 * N


@pytest.mark.parametrize("order", ["random", "reverse"])
@pytest.mark.parametrize("fanout", [2, N])
def test_a_node_that_starts_before_its_old_leader_waits_for_it(fanout: int, order: str) -> None:
    """Otherwise half of them were roots, or elsewhere, when it came, and moved for seconds."""
    world = World(Settings(network=Network.parse("10.0.0.0/20"), fanout=fanout, guest_slots=fanout), disk=True)
    start(world, POSITIONS)
    world.run(SETTLE_S)
    for position in POSITIONS:
        world.crash(position)
    start(world, POSITIONS[::-1] if order == "reverse" else Random(1).sample(POSITIONS, N))
    began = world.now
    while world.now < began + SETTLE_S:
        world.run(0.1)
    assert roots(world) == POSITIONS[:1]
    assert world.moved_at - began < (LAN.patience_s if fanout == N else 2 * LAN.patience_s)


def test_only_a_root_remembers_some_of_its_subordinates(stopped: World) -> None:
    for position in POSITIONS:
        if position not in stopped.nodes:
            stopped.start(position)
    stopped.run(SETTLE_S)
    root, guest = POSITIONS[0], POSITIONS[-1]
    led = {position for position in POSITIONS if stopped.leader_of(position) == root}
    ours = remembered(stopped, root)
    assert ours.leader is None
    assert 0 < len(ours.led) <= 8
    assert set(ours.led) <= set(POSITIONS[1:])
    assert led <= set(ours.led) or len(led) > 8
    theirs = remembered(stopped, guest)
    assert (theirs.leader, theirs.led) == (stopped.leader_of(guest), ())
    assert all(peer < guest for peer in theirs.peers)


def test_a_root_without_subordinates_remembers_the_last_ones() -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2), disk=True)
    start(world, [5, 10, 11])
    world.run(SETTLE_S)
    for position in (11, 10):
        world.leave(position)
        world.run(1.0)
    assert remembered(world, 5) == Neighbourhood(world.nodes[5].context.incarnation, None, (), (11, 10))


def test_a_former_root_follows_its_home_if_that_lives() -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2), disk=True)
    start(world, [5, 10, 11])
    world.run(SETTLE_S)
    assert roots(world) == [5]
    world.crash(5)
    start(world, [1, 2])
    world.run(SETTLE_S)
    moves: list[PlaceChanged] = []
    world.on_notice = lambda position, notice: (
        moves.append(notice) if position == 5 and isinstance(notice, PlaceChanged) else None
    )
    world.start(5)
    world.run(LAN.answer_s)
    assert [move.leader for move in moves] == [2]


def test_a_second_restart_within_the_time_of_a_save_is_saved_too() -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2), disk=True)
    start(world, [1, 2])
    world.run(1.0)
    world.crash(2)
    world.start(2)
    world.run(SETTLE_S)
    second = world.nodes[2].context.incarnation
    world.crash(2)
    world.start(2, incarnation=0)
    assert world.nodes[2].context.incarnation == second + 1  # one more than that on disk


def test_a_node_that_lost_its_leader_just_before_the_stop_remembers_it() -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2), disk=True)
    start(world, [5, 10, 11, 20])
    world.run(SETTLE_S)
    assert world.leader_of(20) == 10
    world.crash(5)
    while world.nodes[10].phase is not Phase.ORPHAN:
        world.run(0.001)
    assert neighbourhood(world.nodes[10]) is None  # and the file on disk stays


def test_a_root_that_restarts_keeps_its_subordinates_on_disk() -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2), disk=True)
    start(world, [5, 10, 11])
    world.run(SETTLE_S)
    for position in (11, 10, 5):
        world.crash(position)
    world.start(5)
    world.run(SETTLE_S)
    assert set(remembered(world, 5).led) == {10, 11}


def test_a_former_root_of_a_part_follows_the_lower_root_that_it_remembers() -> None:
    """Sparse: its home has never lived, so only the disk names the lower root."""
    world = World(Settings(network=Network.parse("10.0.0.0/16"), fanout=8, guest_slots=8), disk=True)
    for position in (3_000, 40_000, 50_000):
        world.start(position, known=(3_000,))
    world.run(SETTLE_S)
    assert roots(world) == [3_000]
    world.crash(3_000)
    world.run(SETTLE_S)
    assert roots(world) == [40_000]
    world.start(3_000, known=())
    world.crash(40_000)
    moves: list[PlaceChanged] = []
    world.on_notice = lambda position, notice: (
        moves.append(notice) if position == 40_000 and isinstance(notice, PlaceChanged) else None
    )
    world.run(LAN.patience_s)
    world.start(40_000)
    world.run(LAN.patience_s)
    assert [move.leader for move in moves] == [3_000]


@pytest.mark.parametrize("order", ["ascending", "random"])
def test_a_cluster_that_was_stopped_from_the_root_downwards_has_one_root_again(order: str) -> None:
    """Each was root for a moment before it stopped: none of them may act as a former root."""
    world = World(Settings(network=Network.parse("10.0.0.0/20"), fanout=N, guest_slots=N), disk=True)
    start(world, POSITIONS)
    world.run(SETTLE_S)
    for position in POSITIONS:
        world.leave(position)
        world.run(1.0)
    assert not world.nodes
    stood: list[PlaceChanged] = []
    world.on_notice = lambda _, notice: stood.append(notice) if isinstance(notice, PlaceChanged) else None
    start(world, POSITIONS if order == "ascending" else Random(1).sample(POSITIONS, N))
    world.run(SETTLE_S)
    assert roots(world) == POSITIONS[:1]
    assert sum(place.leader is None for place in stood) <= 10


def test_a_node_whose_old_leader_has_died_finds_another_at_once() -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/20"), fanout=8, guest_slots=8), disk=True)
    start(world, POSITIONS)
    world.run(SETTLE_S)
    guest = next(p for p in reversed(POSITIONS) if world.leader_of(p) not in {0, POSITIONS[0]})
    leader = world.leader_of(guest)
    world.crash(guest)
    world.crash(leader)  # its host reports that no daemon runs there
    world.run(SETTLE_S)
    world.start(guest)
    world.run(2 * LAN.answer_s)
    assert world.leader_of(guest) not in {0, leader}
