"""The nearest leader: one look by hand, its tables and its bounds (core/placement/latency.py).

test_sites.py plays whole clusters.
"""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.edges.leader import Uplink
from subord.core.events import Measure
from subord.core.messages import Advice, Guidance, Wish
from subord.core.placement.latency import (
    CANDIDATES_MAX,
    DRAWN_MIN,
    HINTED_MAX,
    KNOWN_MAX,
    SAMPLES,
    SAMPLES_MIN,
    VAIN_LOOKS_MAX,
    Latencies,
    Reading,
    cost,
    is_nearer,
)
from subord.core.quantize import CLASS_MAX, MIDDLE, UNKNOWN
from subord.core.settings import Settings
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.timers import Timer
from subord.core.view import Position

OWN, LEADER, ABOVE, ROOT = 50, 40, 20, 1
MS = 0.001
FAR_S, NEAR_S = 20 * MS, 1 * MS


class MeasuringNode:
    """Node 50, which follows 40 below 20 below 1, and what it decides."""

    def __init__(self, siblings: tuple[Position, ...] = ()) -> None:
        settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=4, guest_slots=4, mapping="latency")
        self.context = Context(settings, OWN, 1000, Random(1), now=0.0)
        self.uplink = Uplink(self.context, Roster(OWN))
        guidance = Guidance(1, (ROOT, ABOVE, LEADER), (), siblings, adrift=False)
        self.uplink.attach(LEADER, 1, guidance)
        self.decided: list[tuple[Position, Wish]] = []
        self.latencies = Latencies(self.context, self.uplink, lambda *found: self.decided.append(found))
        self.probes: list[Measure] = []

    def look(self, others: tuple[Position, ...] = (), hints: tuple[Position, ...] = (), wanted: int = 0) -> None:
        levels = tuple(1 for _ in hints)
        self.latencies.look(Advice(1, 1, False, ROOT, hints, 0, levels, wanted, others=others))
        self.collect()

    def collect(self) -> list[Measure]:
        """The probes just sent."""
        fresh = [each for each in self.context.actions if isinstance(each, Measure)]
        self.context.actions.clear()
        self.probes += fresh
        return fresh

    def answer(self, seconds: dict[Position, float], performance: dict[Position, int] | None = None) -> None:
        """Each named node answers all probes of this look, and the look ends."""
        said = performance or {}
        fresh = self.probes
        while True:
            self.probes = []
            for each in fresh:
                if each.target in seconds:
                    its = said.get(each.target, UNKNOWN)
                    self.latencies.on_measured(each.target, each.number, seconds[each.target], its)
            if self.context.timers.at(Timer.MEASURE) == inf:
                return
            self.context.now = self.context.timers.at(Timer.MEASURE)
            self.latencies.on_timer()
            fresh = self.collect()

    def pass_samples(self) -> None:
        """No node answers, until the wait for the last answers has begun."""
        for _ in range(SAMPLES - 1):
            self.context.now = self.context.timers.at(Timer.MEASURE)
            self.latencies.on_timer()
            self.collect()

    def echo(self, seconds: float) -> None:
        """The last echoes of the leader took so long."""
        self.uplink._round_trips.clear()
        self.uplink._round_trips.append(seconds)

    def move(self, leader: Position) -> None:
        self.uplink.attach(leader, 1, Guidance(1, (ROOT, leader), (), (), adrift=False))
        self.latencies.settle()

    def full(self, position: Position, highest_guest: Position = 0, hints: tuple[Position, ...] = ()) -> None:
        self.latencies.was_full(position, highest_guest, hints)


# -- what is nearer -------------------------------------------------------------------------------------------------


@over(
    ("one_s", "other_s", "nearer"),
    [
        (NEAR_S, FAR_S, True),
        (FAR_S, NEAR_S, False),
        (10 * MS, 20 * MS, True),
        (10.1 * MS, 20 * MS, False),
        (0.2 * MS, 1.1 * MS, False),  # on one wire all are near
        (0.2 * MS, 1.3 * MS, True),
        (0.0, 0.0, False),
        (FAR_S, FAR_S, False),
        (0.7 * FAR_S, 1.3 * FAR_S, False),  # the same distance, with errors both times
    ],
)
def test_is_nearer(one_s: float, other_s: float, nearer: bool) -> None:
    assert is_nearer(one_s, other_s) is nearer


@over(
    ("own", "its", "factor"),
    [
        (UNKNOWN, UNKNOWN, 1.0),
        (MIDDLE, UNKNOWN, 1.0),
        (UNKNOWN, MIDDLE, 1.0),
        (MIDDLE, MIDDLE, 1.0),
        (MIDDLE, MIDDLE + 2, 0.5),  # twice the jobs halve the cost
        (MIDDLE + 2, MIDDLE, 2.0),
        (1, CLASS_MAX, 2.0**-127),
        (CLASS_MAX, 1, 2.0**127),
    ],
)
def test_cost(own: int, its: int, factor: float) -> None:
    assert cost(Reading(FAR_S, its, 0.0), Reading(1.0, own, 0.0)) == pytest.approx(FAR_S * factor)


# -- candidates -----------------------------------------------------------------------------------------------------


def test_the_candidates_of_a_look() -> None:
    """Its leader, the leader above, nodes that the root names, and siblings; only nodes that may lead it."""
    node = MeasuringNode(siblings=(41, 60, OWN))
    node.look(others=(7, 70), hints=(8,))
    assert [each.target for each in node.probes] == [LEADER, ABOVE, 7, 8, 41]


def test_a_look_costs_so_many_probes_at_most() -> None:
    node = MeasuringNode(siblings=tuple(range(2, 18)))
    node.full(30, hints=tuple(range(21, 29)))
    node.look(others=tuple(range(31, 39)), hints=tuple(range(9, 17)))
    while node.context.timers.at(Timer.MEASURE) < inf:
        node.context.now = node.context.timers.at(Timer.MEASURE)
        node.latencies.on_timer()
        node.collect()
    assert len({each.target for each in node.probes}) == CANDIDATES_MAX
    assert len(node.probes) == CANDIDATES_MAX * SAMPLES
    assert len({each.number for each in node.probes}) == len(node.probes)


def test_each_kind_of_candidate_has_a_part_in_a_look() -> None:
    node = MeasuringNode(siblings=(41, 42))
    node.look(others=(2, 3))
    node.answer({2: 2 * MS, 3: 3 * MS, LEADER: 3 * MS})
    node.look(others=tuple(range(31, 39)), hints=(9, 10))
    targets = {each.target for each in node.probes}
    assert targets & {41, 42}
    assert targets & {2, 3}


def test_after_looks_in_vain_every_named_node_is_still_measured_at_times() -> None:
    """Fewer at a time, but not always the same ones."""
    node, named = MeasuringNode(), tuple(range(2, 10))
    for _ in range(VAIN_LOOKS_MAX):
        node.look(others=named)
        node.answer({LEADER: NEAR_S})
    asked: set[Position] = set()
    for _ in range(60):
        node.look(others=named)
        fresh = {each.target for each in node.probes} & set(named)
        assert len(fresh) == DRAWN_MIN
        asked |= fresh
        node.answer({LEADER: NEAR_S})
    assert asked == set(named)


def test_a_node_that_stops_answering_is_dropped() -> None:
    node = MeasuringNode()
    for _ in range(3):
        node.look(others=(2,))
        node.answer({2: NEAR_S, LEADER: NEAR_S})
    for _ in range(3):
        node.look()
        node.answer({LEADER: NEAR_S})
    node.look()
    assert 2 not in {each.target for each in node.probes}


def test_a_look_under_way_is_not_restarted() -> None:
    node = MeasuringNode()
    node.look(others=(2,))
    before = len(node.probes)
    node.look(others=(3,))
    assert len(node.probes) == before
    node.pass_samples()
    before = len(node.probes)
    node.look(others=(3,))
    assert len(node.probes) == before, "it awaits the last answers"


def test_a_node_without_a_leader_does_not_look() -> None:
    node = MeasuringNode()
    node.uplink.detach()
    node.look(others=(2,))
    assert node.probes == []


def test_beside_a_near_leader_only_a_higher_place_is_measured() -> None:
    node = MeasuringNode()
    node.look(others=(2, 3))
    node.answer({LEADER: 0.3 * MS, 2: FAR_S})
    node.probes = []
    node.look(others=(2, 3), hints=(5,), wanted=1)
    assert {each.target for each in node.probes} == {LEADER, ROOT}
    node.probes = []
    node.latencies.stop()
    node.look(others=(2, 3), hints=(5,), wanted=3)
    assert node.probes == [], "the node does not stand too deep, and its leader is as near as before"


def test_a_leader_whose_echoes_take_longer_is_measured_beside_others() -> None:
    node = MeasuringNode()
    node.echo(0.3 * MS)
    node.look(others=(2, 3))
    node.answer({LEADER: 0.3 * MS, 2: FAR_S})
    for seconds, measured in ((0.5 * MS, set()), (FAR_S, {LEADER, ABOVE, 2, 3})):
        node.probes = []
        node.echo(seconds)
        node.look(others=(2, 3))
        assert {each.target for each in node.probes} == measured


def test_the_echoes_of_a_former_leader_do_not_count() -> None:
    node = MeasuringNode()
    node.echo(FAR_S)
    node.look(others=(2, 3))
    node.answer({LEADER: FAR_S, 2: 0.3 * MS})
    node.move(2)
    for seconds, is_farther in ((0.3 * MS, False), (FAR_S, True)):
        node.echo(seconds)
        assert node.latencies.is_leader_farther is is_farther
        node.look()


def test_a_leader_that_becomes_farther_is_measured_where_no_other_may_lead() -> None:
    node = MeasuringNode()
    node.move(ROOT)
    for seconds, measured in ((FAR_S, {ROOT}), (FAR_S, set()), (3 * FAR_S, {ROOT}), (3 * FAR_S, set())):
        node.probes = []
        node.echo(seconds)
        node.look()
        assert {each.target for each in node.probes} == measured
        node.answer({ROOT: seconds})


def test_a_node_that_stands_too_deep_climbs_to_the_leader_two_levels_above_its_own() -> None:
    """The root names places that are far (seed 1889, latency)."""
    node = MeasuringNode()
    node.look(hints=(5,), wanted=1)
    node.answer({LEADER: 0.3 * MS, ROOT: 0.4 * MS, 5: FAR_S})
    assert node.decided == [(ROOT, Wish.GUEST)]
    node.full(ROOT)
    node.latencies.settle()
    node.full(ROOT)
    node.look(hints=(5,), wanted=1)
    node.answer({LEADER: 0.3 * MS, ROOT: 0.4 * MS, 5: FAR_S})
    assert node.decided == [(ROOT, Wish.GUEST)], "the leader two levels above is full"


def test_a_look_goes_on_with_the_leader_and_four_of_the_nearest() -> None:
    node = MeasuringNode()
    others = tuple(range(2, 12))
    node.look(others=others)
    for each in list(node.probes):
        node.latencies.on_measured(each.target, each.number, FAR_S if each.target == LEADER else NEAR_S, UNKNOWN)
    node.probes = []
    node.context.now = node.context.timers.at(Timer.MEASURE)
    node.latencies.on_timer()
    assert {each.target for each in node.collect()} == {LEADER, 2, 3, 4, 5}


# -- readings -------------------------------------------------------------------------------------------------------


def test_the_least_of_all_answers_counts() -> None:
    node = MeasuringNode()
    node.look(others=(2,))
    for seconds in (FAR_S, NEAR_S, 3 * FAR_S):
        (probe,) = [each for each in node.probes if each.target == 2]
        node.latencies.on_measured(2, probe.number, seconds, UNKNOWN)
        node.probes = []
        node.context.now = node.context.timers.at(Timer.MEASURE)
        node.latencies.on_timer()
        node.collect()
    assert node.latencies.of(2) == NEAR_S


def test_a_single_answer_does_not_count() -> None:
    """Fewer answers than SAMPLES_MIN do not show how much a round trip varies."""
    node = MeasuringNode()
    node.look(others=(2,))
    (only,) = [each for each in node.probes if each.target == 2]
    node.latencies.on_measured(2, only.number, NEAR_S, UNKNOWN)
    node.probes = [each for each in node.probes if each.target == LEADER]
    node.answer({LEADER: FAR_S})
    assert SAMPLES_MIN == 2
    assert (node.latencies.of(2), node.decided) == (None, [])


@pytest.mark.parametrize("what", ["number", "position", "twice", "late"])
def test_what_was_not_asked_changes_nothing(what: str) -> None:
    node = MeasuringNode()
    node.look(others=(2, 3))
    probe = next(each for each in node.probes if each.target == 2)
    if what == "late":
        node.answer({LEADER: FAR_S})
    if what == "twice":
        node.latencies.on_measured(2, probe.number, FAR_S, UNKNOWN)
    position, number = (
        (3, probe.number) if what == "position" else (2, probe.number + (9999 if what == "number" else 0))
    )
    for _ in range(SAMPLES):
        node.latencies.on_measured(position, number, NEAR_S, CLASS_MAX)
    if what != "late":
        node.answer({LEADER: FAR_S})
    assert node.decided == []
    assert set(node.latencies.known) == {LEADER}
    assert node.latencies.of(2) is None


def test_the_table_of_readings_is_bounded_and_drops_the_oldest() -> None:
    node = MeasuringNode()
    node.uplink.attach(LEADER, 1, Guidance(2, (LEADER,), (), (), adrift=False))
    for first in range(2, 38, 8):
        for position in range(first, first + 8):
            node.latencies.known[position + 1000] = Reading(NEAR_S, UNKNOWN, 0.0)
            node.latencies.known[position + 2000] = Reading(NEAR_S, UNKNOWN, 0.0)
    assert len(node.latencies.known) > KNOWN_MAX
    node.look(others=(2,))
    node.answer({2: NEAR_S, LEADER: NEAR_S})
    assert len(node.latencies.known) == KNOWN_MAX
    assert {2, LEADER} <= set(node.latencies.known)
    assert 1002 not in node.latencies.known


# -- the choice -----------------------------------------------------------------------------------------------------


@over(
    ("seconds", "chosen"),
    [
        ({LEADER: FAR_S, 2: NEAR_S}, 2),
        ({LEADER: FAR_S, 2: FAR_S / 2}, 2),
        ({LEADER: FAR_S, 2: FAR_S / 1.9}, None),
        ({LEADER: NEAR_S, 2: FAR_S}, None),
        ({2: NEAR_S}, None),  # its leader does not answer, which the uplink handles
        ({LEADER: FAR_S}, None),
        ({LEADER: FAR_S, 3: NEAR_S, 2: 1.5 * NEAR_S}, 2),  # about as near: the lowest rank counts
        ({LEADER: FAR_S, 3: NEAR_S, 2: 4 * NEAR_S}, 3),
    ],
)
def test_the_choice(seconds: dict[Position, float], chosen: Position | None) -> None:
    node = MeasuringNode()
    node.look(others=(2, 3))
    node.answer(seconds)
    assert node.decided == ([] if chosen is None else [(chosen, Wish.GUEST)])


@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        ({LEADER: 120, 2: 126}, 2),  # eight times the jobs at the same distance
        ({LEADER: 120, 2: 121}, None),
        ({LEADER: 126, 2: 120}, None),
        ({LEADER: UNKNOWN, 2: CLASS_MAX}, None),  # nothing to compare with
    ],
)
def test_where_performance_is_known_it_is_part_of_the_cost(
    classes: dict[Position, int], chosen: Position | None
) -> None:
    node = MeasuringNode()
    node.look(others=(2,))
    node.answer({LEADER: FAR_S, 2: FAR_S}, classes)
    assert node.decided == ([] if chosen is None else [(chosen, Wish.GUEST)])


def test_after_a_full_near_node_its_hints_are_measured() -> None:
    node = MeasuringNode()
    node.full(2, hints=(9, 10))
    node.look(others=(2,))
    assert {9, 10} <= {each.target for each in node.probes}
    node.answer({LEADER: FAR_S, 2: NEAR_S, 9: NEAR_S})
    assert node.decided == [(9, Wish.GUEST)]


@pytest.mark.parametrize(("highest_guest", "gives_way"), [(60, True), (45, False), (0, False)])
def test_a_near_full_node_exchanges_its_highest_guest_for_a_lower_rank(highest_guest: int, gives_way: bool) -> None:
    node = MeasuringNode()
    node.full(2, highest_guest)
    node.look(others=(2,))
    node.answer({LEADER: FAR_S, 2: NEAR_S})
    assert node.decided == ([(2, Wish.DISPLACE)] if gives_way else [])


def test_with_a_new_leader_full_nodes_are_asked_again() -> None:
    node = MeasuringNode()
    node.full(2)
    node.latencies.settle()
    node.look(others=(2,))
    node.answer({LEADER: FAR_S, 2: NEAR_S})
    assert node.decided == [(2, Wish.GUEST)]


def test_a_node_that_was_full_long_ago_is_asked_again() -> None:
    node = MeasuringNode()
    node.full(2)
    node.context.now += 3600.0
    node.look(others=(2,))
    node.answer({LEADER: FAR_S, 2: NEAR_S})
    assert node.decided == [(2, Wish.GUEST)]


def test_hints_and_full_nodes_are_bounded() -> None:
    node = MeasuringNode()
    for position in range(2, 2 + 3 * KNOWN_MAX):
        node.full(position, hints=tuple(range(position, position + 8)))
        assert len(node.latencies._full) <= KNOWN_MAX
        assert len(node.latencies._hinted) <= HINTED_MAX


# -- height ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "climbs"),
    [({LEADER: NEAR_S, 9: NEAR_S}, True), ({LEADER: NEAR_S, 9: FAR_S}, False), ({LEADER: NEAR_S}, False)],
)
def test_a_node_too_deep_climbs_to_a_leader_that_is_not_farther(seconds: dict[Position, float], climbs: bool) -> None:
    node = MeasuringNode()
    long_path = (ROOT, 2, 3, 4, ABOVE, LEADER)
    node.uplink.attach(LEADER, 1, Guidance(1, long_path, (), (), adrift=False))
    node.look(hints=(9,), wanted=2)
    node.answer(seconds)
    assert node.decided == ([(9, Wish.GUEST)] if climbs else [])
