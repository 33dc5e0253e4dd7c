"""The full scan before the first search (core/discovery/scan.py)."""

from __future__ import annotations

import pytest
from small_world import SmallWorld

from subord.core.events import Start
from subord.core.messages import Ask, Propose
from subord.core.settings import LAN
from subord.core.view import Place

NETWORK = "10.0.0.1-10.0.0.20"


def scanning(nodes: int, network: str = NETWORK, fanout: int = 20) -> SmallWorld:
    world = SmallWorld.empty(fanout, network)
    world.start_with = Start(full_scan=True)
    world.start_all(range(1, nodes + 1))
    return world


def test_all_nodes_ask_all_and_each_follows_one() -> None:
    world = scanning(20)
    world.run_until(world.whole, within_s=5)
    assert world.sent["Ask"] >= 20 * 19
    assert world.leaders() == {1: 0, **dict.fromkeys(range(2, 21), 1)}
    assert all(node.leader_changes == 0 for node in world.nodes.values())


def test_a_question_counts_as_an_answer() -> None:
    world = SmallWorld.empty(20, "10.0.0.1-10.0.0.2")
    world.start_with = Start(full_scan=True)
    world.hosts.add(2)
    world.start_all((1,))
    world.run(0.15)
    asked = world.sent["Ask"]
    world.start_all((2,))
    world.run_until(world.whole, within_s=0.01)
    assert world.sent["Ask"] == asked + 1


def test_a_silent_node_delays_the_scan_no_longer_than_a_silent_home() -> None:
    world = scanning(19)
    world.run(LAN.patience_s - 0.1)
    assert {node.place for node in world.nodes.values()} == {None}
    assert world.sent["Propose"] == 0
    world.run_until(world.whole, within_s=1)


def test_the_nearest_node_that_answers_is_chosen() -> None:
    world = SmallWorld.empty(2, NETWORK)
    world.start_all((1, 2, 3, 5))
    world.run(60)
    world.start_with = Start(full_scan=True)
    said = []
    world.on_message = lambda source, target, message, _copies: said.append((source, target, type(message)))
    world.start_all((9,))  # its home, 4, does not live
    world.run_until(lambda: world.nodes[9].place is Place.GUEST, within_s=5)
    assert {target for source, target, kind in said if (source, kind) == (9, Ask)} == set(range(1, 21)) - {9}
    others = [target for source, target, kind in said if (source, kind) == (9, Propose) and target != 4]
    assert others[0] == world.leader_of(9) == 5


def test_in_a_network_of_one_the_scan_ends_at_once() -> None:
    world = scanning(1, "10.0.0.1", 2)
    world.run_until(lambda: world.nodes[1].place is Place.ROOT, within_s=1)


@pytest.mark.parametrize("leaves_at_s", [0.0, 0.3])
def test_a_node_that_leaves_during_the_scan_looks_for_no_place(leaves_at_s: float) -> None:
    world = scanning(2)
    world.run(leaves_at_s)
    world.leave(2, 0.1)
    world.run(10)
    assert world.sent["Propose"] == 0
