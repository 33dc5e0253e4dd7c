"""The snapshot of a node: measurements, ranking, and the sizes of its tables (core/snapshots.py)."""

from __future__ import annotations

from small_world import SmallWorld

from subord.core.placement.latency import Reading
from subord.core.quantize import UNKNOWN, class_of, quantity_of
from subord.core.view import Near


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
        "questions",
        "refusals",
        "row_probes",
        "rows",
        "standings",
        "subordinates",
        "unreported",
        "vain_beats",
    ]
