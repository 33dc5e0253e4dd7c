"""Places by round trip in whole clusters: nodes at several sites with delays between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

import pytest
from measured_world import REST_S, dwelling, losses, moved, wide_edges
from small_world import SmallWorld

from subord.core.edges.leader import ROUND_TRIPS
from subord.core.events import Measured
from subord.core.mapping.latency import REST_FACTOR
from subord.core.messages import Ask, Message, Probe
from subord.core.placement.latency import CANDIDATES_MAX, SAMPLES
from subord.core.placement.move_budget import HOUR_S, MOVES_PER_HOUR_MAX
from subord.core.quantize import CLASS_MAX
from subord.core.settings import LAN
from subord.core.view import Position
from subord.sim.checkers.fingerprints import Fingerprint
from subord.sim.checkers.safety import Checkers

pytestmark = pytest.mark.slow

RARE_S = REST_FACTOR * LAN.home_interval_s_max


def interleaved(nodes: int, sites: int = 2) -> dict[Position, int]:
    return {position: position % sites for position in range(1, nodes + 1)}


def probes(world: SmallWorld) -> Counter[Position]:
    """The number of probes that each node sends or answers from now on."""
    sent: Counter[Position] = Counter()
    fate = world.fate

    def counting(source: Position, target: Position, message: Message) -> Sequence[float]:
        sent[source] += isinstance(message, Probe)
        return fate(source, target, message)

    world.fate = counting
    return sent


# -- near ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fanout", [2, 4, 8])
def test_two_sites_interleaved_end_with_one_wide_edge(fanout: int) -> None:
    world = dwelling(interleaved(24), fanout)
    world.run(4 * REST_S)
    assert world.whole()
    assert wide_edges(world) == [(2, 1)]
    assert all(leader < position for position, leader in world.leaders().items())


def test_three_sites_in_a_row_end_with_two() -> None:
    """3 follows 1, which it asked first: 2 is at half that distance, but not below it because of the last wire."""
    world = dwelling({p: (p - 1) % 3 for p in range(1, 25)})
    world.run(6 * REST_S)
    assert wide_edges(world) == [(2, 1), (3, 1)]


def test_on_one_wire_no_node_moves_for_distance() -> None:
    world = dwelling(dict.fromkeys(range(1, 25), 0))
    world.run(10)
    before = world.moves()
    world.run(2 * RARE_S)
    assert moved(world, before) == {}


def test_settled_nodes_stay() -> None:
    world = dwelling(interleaved(24))
    world.run(4 * REST_S)
    before = world.moves()
    world.run(4 * RARE_S)
    assert (moved(world, before), losses(world, but="displaced")) == ({}, 0)


def test_noise_of_thirty_per_cent_causes_no_move() -> None:
    world = dwelling(interleaved(16))
    world.run(4 * REST_S)
    before = world.moves()
    fair = world.fate
    world.fate = lambda source, target, message: [
        delay_s * world.chance.uniform(0.7, 1.3) for delay_s in fair(source, target, message)
    ]
    world.run(6 * RARE_S)
    assert moved(world, before) == {}


def test_a_node_that_changes_its_site_finds_near_leaders() -> None:
    """Echoes of its leader take longer than before: it looks soon, although looks have become rare."""
    world = dwelling(interleaved(16))
    world.run(8 * RARE_S)
    for position in (16, 14, 12):
        world.weather.site_of[position] = 1
        took_s = world.run_until(lambda p=position: world.leaders()[p] % 2 == 1, within_s=RARE_S)  # type: ignore[misc]
        assert took_s < (ROUND_TRIPS + 3) * LAN.beat_interval_s
        world.run(RARE_S)
    before = world.moves()
    world.run(REST_S)
    assert moved(world, before) == {}


def test_a_near_but_full_leader_exchanges_its_highest_guest() -> None:
    """At site 1 only 2 may lead 3, and all its slots are taken by guests that may follow others."""
    world = dwelling({1: 0, 2: 1, 4: 1, 5: 1}, fanout=2, guest_slots=1)
    world.run(RARE_S)
    world.weather.site_of |= {6: 1, 3: 1}
    world.start_all((6,))
    world.run(2 * RARE_S)
    assert set(world.nodes[2].downlink.slots.taken) == {4, 5, 6}
    world.start_all((3,))
    world.run(2 * RARE_S)
    assert world.whole()
    assert world.leaders()[3] == 2
    assert world.leaders()[6] not in (1, 2)
    assert wide_edges(world) == [(2, 1)]


# -- what a look costs -----------------------------------------------------------------------------------------------


def test_a_start_costs_so_many_probes_and_the_rest_none() -> None:
    world = dwelling({})
    sent = probes(world)
    world.weather.site_of = interleaved(16)
    world.start_all(world.weather.site_of)
    world.run(4 * RARE_S)
    looks = 3  # without a near leader, after the move, and too early
    assert 0 < sum(sent.values()) <= 2 * 15 * looks * CANDIDATES_MAX * SAMPLES
    sent.clear()
    world.run(4 * RARE_S)
    assert sum(sent.values()) == 0, "where no place can be better, echoes tell when that changes"


def test_below_its_computed_leader_a_newcomer_asks_no_neighbour() -> None:
    world = dwelling({})
    asked: list[Position] = []
    world.on_message = lambda _source, target, message, _copies: (
        asked.append(target) if isinstance(message, Ask) else None
    )
    world.weather.site_of = interleaved(16)
    world.start_all(world.weather.site_of)
    world.run(RARE_S)
    assert set(asked) == {1}, "all ask the root for advice"


def test_no_node_moves_more_often_than_allowed() -> None:
    """It changes its site every minute, and finds near leaders everywhere."""
    world = dwelling(interleaved(12))
    world.run(REST_S)
    node, turns = world.nodes[12], MOVES_PER_HOUR_MAX + 10
    for turn in range(turns):
        world.weather.site_of[12] = turn % 2
        world.run(HOUR_S / turns - 10)
    assert (
        node.optimizer.budget.moves <= MOVES_PER_HOUR_MAX < node.optimizer.budget.moves + node.optimizer.budget.held
    )
    world.run(HOUR_S)
    assert world.whole()
    assert wide_edges(world) == [(2, 1)]


# -- missing answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1e-9, 0.0, -1.0, inf])
def test_an_unrequested_answer_changes_nothing(seconds: float) -> None:
    world = dwelling(interleaved(8))
    world.run(4 * REST_S)
    node = world.nodes[8]
    before = Fingerprint.of(node), dict(node.optimizer.latencies.known), world.leaders()
    for number in (0, 1, 2**63):
        for position in (1, 3, 5, 8, 200):
            world.feed(8, Measured(position, number, seconds, CLASS_MAX))
    assert (Fingerprint.of(node), dict(node.optimizer.latencies.known), world.leaders()) == before


def test_without_any_answer_no_node_moves_or_waits() -> None:
    """A firewall blocks probes alone."""
    world = SmallWorld.empty(4, "10.0.0.0/24", mapping="latency")
    fates = world.fate
    world.fate = lambda s, t, m: () if type(m).__name__ == "Probe" else fates(s, t, m)
    world.weather.site_of = interleaved(8)
    world.start_all(range(1, 9))
    world.run(2 * RARE_S)
    assert world.whole()
    assert all(not node.optimizer.latencies.known for node in world.nodes.values())


@pytest.mark.parametrize("seed", range(4))
def test_under_faults_lower_positions_lead(seed: int) -> None:
    world = SmallWorld.empty(3, "10.0.0.0/24", seed=seed, mapping="latency")
    world.watcher = Checkers(world.settings)
    world.fate = lambda source, target, _message: world.weather.fate(source, target)
    world.weather.site_of = interleaved(12, 3)
    world.start_all(range(1, 13))
    world.weather.set(loss=0.25, delay_s=0.0, jitter_s=0.5, doubled=0.2)
    for _ in range(40):
        world.weather.site_of[world.chance.randint(1, 12)] = world.chance.randint(0, 3)
        world.run(world.chance.choice((0.1, 3.0, 20.0)))
    world.weather.fair()
    world.run_until(world.whole, within_s=4 * RARE_S)
