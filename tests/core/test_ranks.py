"""Ranks by performance in whole clusters: which nodes move, and which do not (docs/protocol.md, section 7).

In each of them every leader outranks its subordinates at any instant, by the classes by which both stand (S1).
"""

from __future__ import annotations

from random import Random

import pytest
from loops import over
from measured_world import REST_S, demand_order, falling, losses, moved, performing, performs, rank_classes
from small_world import SmallWorld

from subord.core.events import PlaceChanged
from subord.core.messages import (
    Goodbye,
    Message,
    No,
    Propose,
    Why,
    Wish,
)
from subord.core.placement.move_budget import HOUR_S, MOVES_PER_HOUR_MAX
from subord.core.quantize import class_of
from subord.core.settings import LAN
from subord.core.view import Place

JOBS = falling(15)  # fan-out 2: 1 leads 2 and 3, and so on
SOON_S = 5.0


@pytest.fixture
def world() -> SmallWorld:
    """Fifteen nodes at rest, the lowest position the best."""
    world = performing(JOBS)
    world.after_each = lambda _world: demand_order(world)
    assert rank_classes(world) == {position: class_of(jobs) for position, jobs in JOBS.items()}
    assert all(world.leaders()[position] < position for position in JOBS)
    return world


def level_of(world: SmallWorld, position: int) -> int:
    return len(world.nodes[position].uplink.path)


# -- at rest ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_node_stands_on_its_level(world: SmallWorld) -> None:
    assert [level_of(world, p) for p in (1, 2, 3, 4, 7)] == [0, 1, 1, 2, 2]
    assert all(2 <= level_of(world, p) <= 3 for p in range(8, 16))
    before = world.moves()
    world.run(10 * REST_S)
    assert (moved(world, before), losses(world)) == ({}, 0)


@pytest.mark.parametrize("order", ["falling", "rising", "mixed"])
def test_in_any_order_of_addresses_fast_nodes_stand_high(order: str) -> None:
    jobs = {
        "falling": JOBS,
        "rising": {16 - p: jobs for p, jobs in JOBS.items()},
        "mixed": dict(zip(Random(1).sample(list(JOBS), len(JOBS)), JOBS.values(), strict=True)),
    }[order]
    world = performing(jobs)
    best = max(jobs, key=lambda p: jobs[p])
    assert world.roots() == [best]
    for position, leader in world.leaders().items():
        assert leader == 0 or jobs[leader] > jobs[position]


@over("nodes", [1, 2, 3])
@over(("fanout", "guest_slots"), [(2, 1), (2, 2), (64, 1)])
@over("numbering_name", ["complete", "paper"])
def test_very_small_clusters(nodes: int, fanout: int, guest_slots: int, numbering_name: str) -> None:
    world = performing(
        {p: float(10**p) for p in range(1, nodes + 1)},
        fanout,
        guest_slots=guest_slots,
        numbering_name=numbering_name,
    )
    assert world.roots() == [nodes]
    before = world.moves()
    world.run(REST_S)
    assert moved(world, before) == {}


@pytest.mark.slow
def test_thirty_per_cent_of_noise_cause_no_move(world: SmallWorld) -> None:
    chance, before = Random(1), world.moves()
    for _ in range(30):
        for position, jobs in JOBS.items():
            performs(world, position, jobs * chance.uniform(0.7, 1.3))
        world.run(1)
    world.run(REST_S)
    assert moved(world, before) == {}
    assert rank_classes(world) == {position: class_of(jobs) for position, jobs in JOBS.items()}


def test_without_measurements_positions_rank() -> None:
    world = SmallWorld.empty(2, "10.0.0.0/24", mapping="performance")
    world.start_all(range(1, 16))
    world.run(REST_S)
    assert world.whole()
    assert world.roots() == [1]
    assert set(rank_classes(world).values()) == {0}
    assert all(leader < position for position, leader in world.leaders().items())


def test_a_node_that_measures_ranks_before_one_that_does_not() -> None:
    world = SmallWorld.empty(2, "10.0.0.0/24", mapping="performance")
    world.jobs = {7: 1.0}
    world.start_all(range(1, 8))
    world.run(REST_S)
    assert world.roots() == [7]
    assert world.whole()


@pytest.mark.slow
def test_a_source_that_falls_silent_changes_nothing(world: SmallWorld) -> None:
    before = world.moves()
    for position in JOBS:
        performs(world, position, 0.0)
    world.run(REST_S)
    assert moved(world, before) == {}
    assert rank_classes(world) == {position: class_of(jobs) for position, jobs in JOBS.items()}


# -- upwards ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_best_becomes_root_and_only_the_old_root_moves(world: SmallWorld) -> None:
    before = world.moves()
    performs(world, 15, 1e12)
    world.run_until(lambda: world.roots() == [15] and world.whole(), within_s=SOON_S)
    world.run(REST_S)
    assert moved(world, before) == {1: 1, 15: 1}
    assert world.leaders()[1] == 15
    assert losses(world) == 0


@pytest.mark.slow
def test_a_leaf_that_becomes_faster_rises_and_hardly_another_node_moves(world: SmallWorld) -> None:
    before = world.moves()
    performs(world, 15, JOBS[2] * 1.1)
    world.run_until(lambda: level_of(world, 15) == 1, within_s=SOON_S)
    world.run(REST_S)
    assert world.leaders()[15] == 1
    assert moved(world, before) == {15: 1}
    assert losses(world) == 0


def test_without_room_a_node_that_belongs_further_down_gives_way() -> None:
    """The root has its four: the two slowest of them stand too high."""
    world = performing(falling(5))
    world.start_all((6,))
    world.run(REST_S)
    performs(world, 6, falling(5)[2] * 1.1)
    world.run_until(lambda: world.leaders()[6] == 1, within_s=SOON_S)
    world.run(REST_S)
    assert world.whole()
    assert len(world.nodes[1].downlink.slots.taken) <= 4


@pytest.mark.slow
def test_no_better_class_counts_before_it_is_accepted(world: SmallWorld) -> None:
    """All proposals are lost: 15 keeps its place and its class."""
    world.lossy = lambda source, _target, message: source == 15 and isinstance(message, Propose)
    leader, standing = world.leaders()[15], rank_classes(world)[15]
    performs(world, 15, 1e8)
    world.run(REST_S)
    assert (world.leaders()[15], rank_classes(world)[15]) == (leader, standing)
    world.lossy = lambda *_: False
    world.run_until(lambda: rank_classes(world)[15] == class_of(1e8), within_s=REST_S)
    assert losses(world) == 0


# -- downwards ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_slower_node_dismisses_those_that_outrank_it_and_sinks_alone(world: SmallWorld) -> None:
    """No node is without a leader meanwhile."""
    before, led = world.moves(), set(world.nodes[2].downlink.slots.taken)
    said: list[tuple[int, Message]] = []
    world.on_message = lambda source, _target, message, _copies: said.append((source, message))
    assert led
    performs(world, 2, JOBS[15] / 8)
    world.run_until(lambda: rank_classes(world)[2] == class_of(JOBS[15] / 8), within_s=SOON_S)
    assert not world.nodes[2].downlink.slots.taken
    world.run_until(lambda: level_of(world, 2) >= 2 and world.whole(), within_s=REST_S)
    world.run(REST_S)
    assert losses(world) == 0
    words = [message.why for source, message in said if source == 2 and isinstance(message, Goodbye)]
    assert words.count(Why.LEAVING) >= len(led)
    assert led | {2} <= set(moved(world, before))
    assert set(moved(world, before)) <= led | {2} | {p for p in JOBS if world.leaders()[p] in led}


@pytest.mark.slow
def test_subordinates_that_do_not_outrank_it_stay(world: SmallWorld) -> None:
    below = world.nodes[4].downlink.slots.taken
    led = set(below)
    assert led
    before = world.moves()
    performs(world, 4, max(JOBS[p] for p in led) * 1.8)  # another class, which none of them outranks
    world.run(REST_S)
    assert set(below) == led
    assert losses(world) == 0
    assert not led & set(moved(world, before))


@pytest.mark.slow
def test_a_root_that_becomes_the_slowest_sinks_and_no_node_loses_its_leader(world: SmallWorld) -> None:
    performs(world, 1, 1e-3)
    world.run_until(lambda: world.roots() == [2] and world.whole(), within_s=SOON_S)
    world.run(REST_S)
    assert losses(world, but="displaced") == 0
    assert level_of(world, 1) >= 2


def test_it_waits_for_subordinates_whose_goodbyes_are_lost(world: SmallWorld) -> None:
    """Their goodbyes are lost: as long as one outranks it, it keeps its class and repeats the goodbye."""
    world.lossy = lambda source, _target, message: source == 2 and isinstance(message, Goodbye)
    world.sent.clear()
    performs(world, 2, 1e-3)
    world.run(20)
    assert rank_classes(world)[2] == class_of(JOBS[2])
    assert world.sent["Goodbye"] >= 20 / LAN.answer_s / 1.2
    world.lossy = lambda *_: False
    world.run_until(lambda: rank_classes(world)[2] == class_of(1e-3), within_s=SOON_S)
    assert losses(world) == 0


def test_a_dip_leaves_no_trace(world: SmallWorld) -> None:
    """It sinks, and recovers before those that outrank it have left: then it accepts others again."""
    world.lossy = lambda source, _target, message: source == 2 and isinstance(message, Goodbye)
    performs(world, 2, 1e-3)
    world.run(1)
    performs(world, 2, JOBS[2])
    world.run(1)
    world.lossy = lambda *_: False
    assert world.nodes[2].context.mapping.leading_rank() == (-class_of(JOBS[2]), 2)
    assert world.nodes[2].downlink.slots.judge(99, Wish.GUEST, standing=1) is not No.RANK


@pytest.mark.slow
@pytest.mark.parametrize("factor", [8.0, 0.125])
def test_all_change_at_once_and_stay_in_order(world: SmallWorld, factor: float) -> None:
    for position, jobs in reversed(JOBS.items()):
        performs(world, position, jobs * factor)
    world.run(REST_S)
    assert world.whole()
    assert rank_classes(world) == {position: class_of(jobs * factor) for position, jobs in JOBS.items()}
    assert world.roots() == [1]


@pytest.mark.slow
def test_the_whole_order_is_turned_round(world: SmallWorld) -> None:
    for position in JOBS:
        performs(world, position, JOBS[16 - position])
    world.run(3 * REST_S)
    assert world.whole()
    assert world.roots() == [15]
    assert rank_classes(world) == {position: class_of(JOBS[16 - position]) for position in JOBS}


# -- bounds ---------------------------------------------------------------------------------------------------------


TURNS = MOVES_PER_HOUR_MAX + 6


def by_turns(world: SmallWorld, position: int, jobs: float) -> None:
    """Within an hour it becomes that fast, and as slow as before, again and again."""
    for _ in range(TURNS):
        for each in (jobs, 1.0):
            performs(world, position, each)
            world.run(HOUR_S / 3 / TURNS)


@pytest.mark.slow
def test_moves_by_choice_are_counted_and_bounded() -> None:
    world = performing({1: 1e9, 2: 1e6, 3: 1e5, 4: 1e4, 5: 1e4, 6: 1e4, 7: 1.0})
    budget = world.nodes[7].optimizer.budget
    before = budget.moves
    by_turns(world, 7, 1e7)
    assert before < budget.moves <= MOVES_PER_HOUR_MAX
    assert budget.held > 0
    assert world.whole()
    assert rank_classes(world)[7] == class_of(1.0), "it may not rise, and has sunk"
    world.run(HOUR_S)
    performs(world, 7, 1e7)
    world.run_until(lambda: rank_classes(world)[7] == class_of(1e7), within_s=2 * REST_S)


@pytest.mark.slow
def test_to_become_root_is_a_move_as_well() -> None:
    world = performing({1: 1e3, 2: 1e2, 3: 1.0})
    by_turns(world, 3, 1e6)
    risen = [n for n in world.noticed(PlaceChanged, 3) if isinstance(n, PlaceChanged) and n.place is Place.ROOT]
    assert len(risen) <= MOVES_PER_HOUR_MAX


@pytest.mark.slow
def test_to_follow_the_same_leader_again_is_no_move(world: SmallWorld) -> None:
    """A lost session begins anew, which is no choice."""
    before = [node.optimizer.budget.moves for node in world.nodes.values()]
    for position in (4, 5, 6, 7):
        leader = world.nodes[position].uplink.leader
        assert leader is not None
        world.nodes[leader.position].downlink.slots.taken.pop(position)
        world.nodes[leader.position].roster.drop(position, world.now)
    world.run(REST_S)
    assert world.sent["Stranger"] > 0
    assert world.whole()
    assert [node.optimizer.budget.moves for node in world.nodes.values()] == before


@pytest.mark.slow
def test_a_node_that_may_not_move_dismisses_none(world: SmallWorld) -> None:
    """It belongs further up and would move alone, but has moved too often."""
    deepest = max(world.nodes, key=lambda p: level_of(world, p))
    fast = world.leaders()[deepest]
    node = world.nodes[fast]
    for _ in range(MOVES_PER_HOUR_MAX):
        node.optimizer.budget.spend(world.now)
    sent: list[Goodbye] = []

    def note(source: int, _target: int, message: Message, _copies: int) -> None:
        sent.extend([message] if source == fast and isinstance(message, Goodbye) else [])

    world.on_message = note
    node.optimizer.rank_change._off_min = 1  # one level is far in so small a tree
    performs(world, fast, JOBS[2] * 1.1)
    world.run(REST_S)
    assert (node.optimizer.budget.held > 0, sent) == (True, [])


@pytest.mark.slow
@over("seed", range(3))
def test_no_node_outranks_its_leader_under_faults(seed: int) -> None:
    """A quarter of all messages is lost, some are doubled or late, and performance changes at random."""
    world, chance = performing(falling(12), watched=True), Random(seed)
    world.fate = lambda source, target, _message: world.weather.fate(source, target)
    world.weather.set(loss=0.25, delay_s=0.0, jitter_s=0.5, doubled=0.2)
    for _ in range(60):
        performs(world, chance.randint(1, 12), 10 ** chance.uniform(0, 9))
        if chance.random() < 0.1:
            position = chance.randint(1, 12)
            world.crash(position)
            world.start(position)
        world.run(chance.choice((0.05, 0.5, 3.0)))
    world.weather.fair()
    world.run_until(world.whole, within_s=10 * REST_S)
