"""The snapshot of a node: measurements, ranking, and the sizes of its tables (core/snapshots.py)."""

from __future__ import annotations

import msgspec
import pytest
from measured_world import performing
from small_world import SmallWorld

from subord.core.events import PlaceChanged
from subord.core.messages import No
from subord.core.placement.latency import Reading
from subord.core.quantize import UNKNOWN, class_of, quantity_of
from subord.core.search.answers import Answers
from subord.core.snapshots import roster, why
from subord.core.view import Asked, Near, Place


def measuring(mapping: str = "latency") -> SmallWorld:
    """Three nodes; 1 leads 2 and 3."""
    world = SmallWorld.dense(3, 2, mapping=mapping)
    world.run(30)
    assert world.leaders() == {1: 0, 2: 1, 3: 1}
    return world


def test_an_unmeasured_leader_is_shown_by_its_echoes() -> None:
    world = measuring()
    node = world.nodes[2]
    node.optimizer.latencies.known.clear()
    leader, trip_s = node.uplink.leader, node.uplink.round_trip_s
    assert leader is not None
    assert trip_s > 0
    heard = Near(position=1, round_trip_s=trip_s, performance=None, ago_s=world.now - leader.heard_at)
    assert world.shown(2).ranking.near == (heard,)
    assert node.optimizer.latencies.known == {}, "reading changes nothing"
    node.uplink._round_trips.clear()
    assert world.shown(2).ranking.near == (), "no echo yet"


def test_the_near_are_shown_by_distance_and_as_they_were_measured() -> None:
    world = measuring()
    fast = class_of(200.0)
    world.nodes[2].optimizer.latencies.known = {
        1: Reading(0.5, UNKNOWN, world.now - 3),
        3: Reading(0.25, fast, world.now - 2),
    }
    assert world.shown(2).ranking.near == (
        Near(position=3, round_trip_s=0.25, performance=quantity_of(fast), ago_s=2),
        Near(position=1, round_trip_s=0.5, performance=None, ago_s=3),
    )


def test_where_nodes_have_homes_distances_are_not_shown() -> None:
    assert measuring("ip").shown(2).ranking.near == ()


def test_moves_made_and_moves_held_back_are_shown_apart() -> None:
    world = measuring()
    budget = world.nodes[2].optimizer.budget
    budget.moves, budget.held = 3, 2
    shown = world.shown(2).ranking
    assert (shown.mapping, shown.level, shown.moves, shown.moves_held) == ("latency", 1, 3, 2)


def test_every_table_that_could_grow_is_shown_by_its_name() -> None:
    """The names are those of the metrics."""
    shown = measuring().shown(1).tables
    assert shown["rows"] == 3
    assert shown["subordinates"] == 2
    assert sorted(shown) == [
        "answers",
        "asked",
        "candidates",
        "claims",
        "distances",
        "former",
        "hidden",
        "peers",
        "pins",
        "questions",
        "refusals",
        "row_probes",
        "rows",
        "standings",
        "subordinates",
        "unproven",
        "unreported",
        "vain_beats",
    ]


def test_rows_and_reasons_name_measurement_and_leader() -> None:
    jobs = {1: 800.0, 2: 400.0, 3: 200.0}
    world = performing(jobs)
    shown = {row.position: row.performance for row in roster(world.nodes[1], world.now).rows}
    assert shown == {
        1: quantity_of(class_of(800.0)),
        2: quantity_of(class_of(400.0)),
        3: quantity_of(class_of(200.0)),
    }
    assert [why(world.nodes[position], world.now).leader for position in (1, 2)] == [None, 1]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("crash", "lost: its process ended"),
        ("kill", "lost: no process listens"),
        ("vanish", "lost: it was silent"),
        ("leave", "said goodbye"),
    ],
)
def test_the_answer_of_a_dead_home_is_when_and_how_it_ended(end: str, words: str) -> None:
    world = SmallWorld.dense(7, 2)
    world.run(30)
    assert world.leaders()[4] == 2
    getattr(world, end)(2)
    world.run(40)
    assert 2 not in world.nodes
    (answer,) = (each for each in why(world.nodes[4], world.now).asked if each.position == 2)
    assert answer.answer == words
    assert 35 < answer.ago_s <= 40
    world.start(2)
    world.run(30)
    (answer,) = (each for each in why(world.nodes[4], world.now).asked if each.position == 2)
    assert answer.answer == "accepted"


REFUSED = "refused by 3 candidates: settings or keys differ (2), no free slot (1)"


def test_a_node_that_is_refused_everywhere_says_so() -> None:
    world = SmallWorld.empty(2)
    world.start_all((1, 2, 3, 9))
    world.run(20)
    world.own_settings[5] = msgspec.structs.replace(world.settings, fanout=8)
    world.start(5)
    world.run(20)
    counted = "refused by 3 candidates: settings or keys differ (3)"
    (placed,) = world.noticed(PlaceChanged, 5)
    assert isinstance(placed, PlaceChanged)
    assert placed.place is Place.ROOT
    assert placed.reason.startswith("refused by ")
    assert "settings or keys differ (" in placed.reason
    assert roster(world.nodes[5], world.now).refused == world.shown(5).refused == counted
    assert why(world.nodes[5], world.now).reason == placed.reason
    assert roster(world.nodes[1], world.now).refused is None, "9 and 5 are no candidates"
    assert world.shown(2).refused is None


def test_refusals_are_counted_by_reason_until_another_answer_or_search() -> None:
    answers = Answers()
    for position, no in enumerate((No.TERMS, No.FULL, No.TERMS), 1):
        answers.mark(1.0, position, "refused: as it says", no)
    assert answers.refusals(lambda _position: True) == REFUSED
    answers.mark(2.0, 1, "no answer")
    answers.mark(2.0, 3, "has room")
    assert answers.refusals(lambda _position: True) == "refused by 1 candidate: no free slot (1)"
    assert answers.refusals(lambda position: position != 2) is None
    answers.searching_since = 2.0
    assert answers.refusals(lambda _position: True) is None


def test_a_refusing_node_that_died_or_ranks_above_is_not_counted_any_more() -> None:
    world = SmallWorld.empty(2)
    world.start_all((1, 2, 9))
    world.run(20)
    world.own_settings[5] = msgspec.structs.replace(world.settings, fanout=8)
    world.start(5)
    world.run(20)
    assert world.shown(5).refused == "refused by 2 candidates: settings or keys differ (2)"
    world.vanish(1)
    world.run(60)
    assert world.shown(5).refused == "refused by 1 candidate: settings or keys differ (1)"
    world.nodes[5].search.answers.mark(world.now, 9, "refused: fan-out 2, we use 8", No.TERMS)
    assert world.shown(5).refused == "refused by 1 candidate: settings or keys differ (1)"


def test_a_home_lost_by_silence_is_asked_again_and_its_silence_tells_nothing_new() -> None:
    answers = Answers()
    answers.ended(1.0, 2, "silence")
    answers.mark(5.0, 2, "no answer")
    assert answers.shown(5.0) == (Asked(position=2, answer="lost: it was silent", ago_s=4.0),)
    answers.mark(6.0, 2, "no daemon there")
    assert answers.shown(6.0) == (Asked(position=2, answer="no daemon there", ago_s=0.0),)
    answers.ended(7.0, 2, None)
    answers.ended(8.0, 2, "closed")
    assert answers.shown(8.0) == (Asked(position=2, answer="said goodbye", ago_s=1.0),)
