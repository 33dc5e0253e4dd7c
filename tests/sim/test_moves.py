"""A death of an interior node, or its return, moves its subordinates and few other nodes."""

from __future__ import annotations

import pytest
from loops import over

from subord.sim import moves
from subord.sim.growth import depth_min
from subord.sim.moves import LAYOUTS, ORDERS, SIZE, Case, Layout, MovesRun, Order, churn, happen, positions_of
from subord.sim.violation import Violation

pytestmark = pytest.mark.slow

NODES = 60
EVENTS = 3
CHAIN_MAX = 8  # moves of all events together beyond those of the subordinates; none where there are homes
DEEPER_MAX = 3  # levels beyond the flattest tree


@over(("layout", "fanout"), [*((layout, 2) for layout in LAYOUTS), ("dense", 8), ("random", 8)])
def test_a_death_and_a_return_move_few(layout: Layout, fanout: int) -> None:
    run = MovesRun(Case(layout=layout, fanout=fanout, nodes=NODES), "random")
    found = happen(run, EVENTS)
    beyond_max = 0 if layout in ("dense", "holes") else CHAIN_MAX
    assert len(found) == EVENTS
    assert all(each.died >= each.subordinates and each.returned >= 1 for each in found), found
    assert sum(each.died - each.subordinates for each in found) <= beyond_max, found
    assert sum(max(0, each.returned - each.subordinates - 1) for each in found) <= beyond_max, found
    assert run.depth() <= depth_min(NODES, fanout) + DEEPER_MAX


@pytest.mark.parametrize("fanout", [2, 3])
def test_in_a_dense_network_only_the_subordinates_move(fanout: int) -> None:
    for each in happen(MovesRun(Case(layout="dense", fanout=fanout, nodes=40), "ascending"), EVENTS):
        assert (each.died, each.returned) == (each.subordinates, each.subordinates + 1), each
        assert (each.died_others, each.returned_others) == (0, 0), each


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_start_makes_no_deep_tree(order: Order) -> None:
    started = MovesRun(Case(layout="end", fanout=2, nodes=NODES), order).started
    assert started.order == order
    assert started.depth <= depth_min(NODES, 2) + DEEPER_MAX
    assert 2 <= started.subordinates_max <= 2 + 2


def test_churn_makes_no_deep_tree() -> None:
    found = churn(MovesRun(Case(layout="thirds", fanout=2, nodes=NODES), "random"), minutes=2)
    assert found.deaths == 2 * moves.CHURN_PER_MIN * NODES
    assert len(found.depths) == 2
    assert found.depth_after <= found.depth_before + 1


@over("layout", LAYOUTS)
def test_a_layout_has_all_its_nodes(layout: Layout) -> None:
    found = positions_of(layout, NODES, moves.Random(1))
    assert len(found) == len(set(found)) == NODES
    assert found == sorted(found)
    assert found[0] >= 1
    assert found[-1] <= SIZE


def test_there_are_no_more_victims_than_interior_nodes() -> None:
    assert len(happen(MovesRun(Case(layout="dense", fanout=2, nodes=5), "ascending"), EVENTS)) == 1
    assert happen(MovesRun(Case(layout="dense", fanout=4, nodes=5), "ascending"), EVENTS) == []


def test_the_seed_decides_everything() -> None:
    played = [
        happen(MovesRun(Case(layout="random", fanout=2, nodes=20, seed=seed), "random"), 2) for seed in (1, 1, 2)
    ]
    assert played[0] == played[1] != played[2]


def test_moves_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "QUIET_WITHIN_S", 5.0)
    with pytest.raises(Violation, match="no rest after 5 s"):
        MovesRun(Case(layout="dense", fanout=2, nodes=3), "ascending")
