"""Everybody stops and starts again with a disk: nobody has to search (protocol section 3)."""

from __future__ import annotations

from random import Random

import pytest

from subord.core.events import PlaceChanged
from subord.core.network import Network
from subord.core.settings import LAN, Settings
from subord.core.showing import neighbourhood
from subord.sim.world import World

N = 50
GAP_S = 0.008  # between two starts
SETTLE_S = 90.0
POSITIONS = sorted(Random(5).sample(range(1, 4095), N))


@pytest.fixture(scope="module")
def stopped() -> World:
    """A cluster at sparse addresses that has been built once; now nobody runs."""
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
    # Their homes, and the doors on both sides; nobody searched. The root calls those who belong below it.
    assert len([source for source, _ in asked if source != POSITIONS[0]]) <= 3 * N


def test_a_root_remembers_some_of_those_whom_it_led_and_nobody_else_does(stopped: World) -> None:
    for position in POSITIONS:
        if position not in stopped.nodes:
            stopped.start(position)
    stopped.run(SETTLE_S)
    root, guest = POSITIONS[0], POSITIONS[-1]
    led = {position for position in POSITIONS if stopped.leader_of(position) == root}
    remembered = neighbourhood(stopped.nodes[root]).peers
    assert 0 < len(remembered) == min(8, len(led))
    assert set(remembered) <= led
    assert all(peer < guest for peer in neighbourhood(stopped.nodes[guest]).peers)


def test_a_root_that_everybody_has_just_left_remembers_them() -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2), disk=True)
    start(world, [5, 10, 11])
    world.run(SETTLE_S)
    for position in (11, 10):
        world.leave(position)
        world.run(1.0)
    assert neighbourhood(world.nodes[5]).peers == (10, 11)


def test_who_was_root_and_finds_its_home_alive_follows_it() -> None:
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
