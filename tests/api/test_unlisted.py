"""A node whose leader reports only itself: `tree` and `errors` notice the difference."""

from __future__ import annotations

import msgspec

from subord.api.handlers import problems
from subord.api.query.root_query import find_roster
from subord.core.view import RosterView, Snapshot
from tests.api.fake_node_api import FakeNode, World

HIDDEN = (4, 5, 8, 9, 10, 11)
BUDGET_S = 2.0


class PartlyInformedRoot(FakeNode):
    """The root, whose subordinate 2 reports only itself; all nodes answer when asked."""

    hidden: tuple[int, ...] = ()

    def snapshot(self) -> Snapshot:
        view = super().snapshot()
        edges = tuple(
            msgspec.structs.replace(edge, below=1) if edge.position == 2 else edge for edge in view.subordinates
        )
        nodes = view.subtree_nodes - len(HIDDEN)
        return msgspec.structs.replace(view, subordinates=edges, subtree_nodes=nodes, unlisted=self.hidden)

    def roster(self) -> RosterView:
        view = super().roster()
        rows = tuple(row for row in view.rows if row.position not in HIDDEN)
        return msgspec.structs.replace(view, rows=rows, unlisted=self.hidden)


def world_with_hidden_branch(unlisted: tuple[int, ...] = ()) -> World:
    world = World()
    root = world.known[1] = PartlyInformedRoot(world, 1)
    root.hidden = unlisted
    return world


async def test_errors_compares_how_many_answer_with_how_many_are_listed() -> None:
    for position in (1, 3, 8):
        found = await problems.find(world_with_hidden_branch().node(position), BUDGET_S)
        assert (found.nodes, found.listed) == (11, 5)
        differences = {each.text: each.addresses for each in found.problems if each.kind == "count"}
        assert differences == {
            "the root lists 5, and by their own word they are 11": ("10.0.0.1",),
            "6 more nodes answer for its branch than it reports": ("10.0.0.2",),
        }


async def test_equal_counts_are_no_problem() -> None:
    world = World()
    world.hung = {4}
    found = await problems.find(world.node(8), BUDGET_S)
    assert not [each for each in found.problems if each.kind == "count"]
    assert found.listed == 11


async def test_counts_are_not_compared_while_nodes_move() -> None:
    world = world_with_hidden_branch()
    world.known[1].quiet_s = 0.5
    found = await problems.find(world.node(1), BUDGET_S)
    assert not [each for each in found.problems if each.kind == "count"]


async def test_a_tree_without_the_asking_node_is_incomplete() -> None:
    world = world_with_hidden_branch()
    assert (await find_roster(world.node(3))).complete
    found = await find_roster(world.node(8))
    assert not found.complete
    assert found.note == "10.0.0.1 (root) does not list 10.0.0.8: a leader above does not report it"


async def test_unlisted_nodes_are_named() -> None:
    world = world_with_hidden_branch(unlisted=HIDDEN)
    found = await find_roster(world.node(3))
    assert not found.complete
    assert found.note == (
        "10.0.0.1 (root) does not list 10.0.0.4, 10.0.0.5, 10.0.0.8, 10.0.0.9 and others: "
        "a leader above does not report it"
    )
    unlisted = (await problems.find(world.node(3), BUDGET_S)).problems
    (unlisted,) = [each for each in unlisted if each.kind == "unlisted"]
    assert unlisted.nodes == len(HIDDEN)
    assert unlisted.text == "not listed by the root 10.0.0.1: a leader above it does not report it"
