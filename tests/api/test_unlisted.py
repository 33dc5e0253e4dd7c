"""A node whose leader reports only itself: `tree` and `errors` name it, and `errors` its leader."""

from __future__ import annotations

import msgspec
from trio.testing import MockClock

from subord.api.handlers import problems
from subord.api.query.root_query import find_roster
from subord.core.members.membership import REGISTER
from subord.core.members.register import Record, Run, State
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
    root.quiet_s = 6.0
    root.tracker.membership.exchange.spread(REGISTER, [Run(1, 11, Record(1, State.UP))])
    world.cut_off = set(HIDDEN)
    return world


async def test_a_leader_that_hides_its_branch_is_named() -> None:
    for position in (1, 3, 8):
        found = await problems.find(world_with_hidden_branch().node(position), BUDGET_S)
        assert (found.nodes, found.listed, found.silent_nodes) == (5, 5, 6)
        differences = {each.text: each.addresses for each in found.problems if each.kind == "count"}
        assert differences == {"6 more nodes answer for its branch than it reports": ("10.0.0.2",)}


async def test_no_leader_is_named_while_nodes_move() -> None:
    world = world_with_hidden_branch()
    world.known[1].quiet_s = 4.0
    found = await problems.find(world.node(1), BUDGET_S)
    assert not [each for each in found.problems if each.kind == "count"]


async def test_a_node_that_answers_nothing_names_no_leader(autojump_clock: MockClock) -> None:
    world = world_with_hidden_branch()
    world.hung = set(HIDDEN)
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
