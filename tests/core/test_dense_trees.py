"""In a dense network the tree is the computed one, in any start order (docs/protocol.md, section 2)."""

from __future__ import annotations

from random import Random

import pytest
from loops import over
from small_world import SmallWorld

from subord.core.view import Place

FIGURE_1 = {1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 8: 4, 9: 4, 10: 5, 11: 5}
ORDERS = ("forward", "reverse", "random")
LEVEL_ENDS = [
    (fanout, full + off)
    for fanout in (2, 3, 8)
    for full in (1 + fanout, 1 + fanout + fanout**2)
    for off in (-1, 0, 1)
]


def complete_tree(size: int, fanout: int) -> dict[int, int]:
    """Leaders by position, filled level by level: the next free slot below the first node that has one."""
    leaders, waiting = {1: 0}, [1] * fanout
    for position in range(2, size + 1):
        leaders[position] = waiting.pop(0)
        waiting += [position] * fanout
    return leaders


def paper_tree(size: int, fanout: int) -> dict[int, int]:
    """Leaders by the printed formulas: level l holds n with p^l <= n < p^(l+1), offset o = n - p^l."""
    places: dict[tuple[int, int], int] = {}
    leaders = {1: 0}
    for n in range(1, size + 1):
        level = 0
        while fanout ** (level + 1) <= n:
            level += 1
        offset = n - fanout**level
        places[level, offset] = n
        if n > 1:
            leaders[n] = places[level - 1, offset // fanout] if level else 1
    return leaders


def started(size: int, fanout: int, order: str, gap_s: float, **options: object) -> SmallWorld:
    positions = list(range(1, size + 1))
    if order == "reverse":
        positions.reverse()
    elif order == "random":
        Random(size * fanout).shuffle(positions)
    world = SmallWorld.empty(fanout, **options)
    world.start_all(positions, gap_s)
    return world


def assert_is(world: SmallWorld, tree: dict[int, int], within_s: float) -> None:
    world.run_until(lambda: world.leaders() == tree and world.whole(), within_s=within_s)
    assert world.places() == {Place.ROOT: 1, Place.HOME: len(tree) - 1}
    sizes = {p: node.roster.live for p, node in world.nodes.items() if tree[p] == 0}
    assert sizes == {1: len(tree)}


def assert_cheap(world: SmallWorld) -> None:
    assert world.changes() == 0
    assert sum(node.search.exchanges for node in world.nodes.values()) <= 1.1 * len(world.nodes)


@pytest.mark.slow
@over("gap_s", [0.0, 0.5])
@over("order", ORDERS)
def test_eleven_nodes_stand_as_in_figure_1(order: str, gap_s: float) -> None:
    world = started(11, 2, order, gap_s)
    assert_is(world, FIGURE_1, within_s=20)
    before = world.changes()
    world.run(60)
    assert (world.leaders(), world.changes()) == (FIGURE_1, before)


@pytest.mark.slow
@over("order", ORDERS)
@over(("fanout", "size"), LEVEL_ENDS)
def test_level_ends_together(fanout: int, size: int, order: str) -> None:
    world = started(size, fanout, order, gap_s=0.0)
    assert_is(world, complete_tree(size, fanout), within_s=3)
    assert_cheap(world)


@pytest.mark.slow
@over("order", ORDERS)
@over(("fanout", "size"), [each for each in LEVEL_ENDS if each[1] < 20])
def test_level_ends_half_a_second_apart(fanout: int, size: int, order: str) -> None:
    """A leader that starts after `patience_s` finds its subordinates elsewhere, and they come home."""
    world = started(size, fanout, order, gap_s=0.5)
    assert_is(world, complete_tree(size, fanout), within_s=20)


@pytest.mark.slow
@over(("fanout", "size", "order"), [(2, 260, "forward"), (8, 260, "random"), (2, 516, "random"), (8, 516, "reverse")])
def test_across_octets(fanout: int, size: int, order: str) -> None:
    """10.0.0.255, 10.0.1.0 and 10.0.1.255 are usable; byte order would put the root at 10.0.1.0."""
    world = started(size, fanout, order, gap_s=0.0)
    assert world.settings.network.address_text_of(256) == "10.0.1.0"
    assert_is(world, complete_tree(size, fanout), within_s=3)
    assert_cheap(world)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["reverse", "random"])
def test_across_octets_one_after_the_other(order: str) -> None:
    world = started(260, 8, order, gap_s=0.05)
    assert_is(world, complete_tree(260, 8), within_s=30)


@pytest.mark.slow
@over("order", ORDERS)
@over(("fanout", "size"), [(2, 11), (3, 8), (3, 9), (3, 10), (3, 26), (3, 27), (3, 28), (8, 260)])
def test_the_numbering_of_the_paper(fanout: int, size: int, order: str) -> None:
    """For p > 2 level 0 holds p - 1 nodes; position 1 leads the rest of it."""
    world = started(size, fanout, order, gap_s=0.0, numbering_name="paper")
    tree = paper_tree(size, fanout)
    assert [position for position, leader in tree.items() if leader == 1] == list(range(2, min(2 * fanout, size + 1)))
    assert_is(world, tree, within_s=3)
    assert_cheap(world)
