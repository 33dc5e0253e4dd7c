"""A node whose leader reports only itself: `tree` and `errors` say so."""

from __future__ import annotations

import msgspec

from subord.api.handlers import problems
from subord.api.query.root_query import find_roster
from subord.core.state.view import RosterView, Snapshot
from tests.api.fake_shown import FakeShown, World

HIDDEN = (4, 5, 8, 9, 10, 11)
BUDGET_S = 2.0


class Deceived(FakeShown):
    """The root, whose subordinate 2 reports only itself; everybody answers when asked."""

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


def deceived(told: tuple[int, ...] = ()) -> World:
    world = World()
    root = world.known[1] = Deceived(world, 1)
    root.hidden = told
    return world


async def test_errors_compares_how_many_answer_with_how_many_are_listed() -> None:
    for position in (1, 3, 8):
        found = await problems.find(deceived().node(position), BUDGET_S)
        assert (found.nodes, found.listed) == (11, 5)
        troubles = {each.text: each.addresses for each in found.problems if each.kind == "count"}
        assert troubles == {
            "the root lists 5, and by their own word they are 11": ("10.0.0.1",),
            "6 more nodes answer for its branch than it reports": ("10.0.0.2",),
        }


async def test_errors_of_an_honest_tree_has_no_difference() -> None:
    world = World()
    world.hung = {4}
    found = await problems.find(world.node(8), BUDGET_S)
    assert not [each for each in found.problems if each.kind == "count"]
    assert found.listed == 11


async def test_counts_are_not_compared_while_nodes_move() -> None:
    world = deceived()
    world.known[1].quiet_s = 0.5
    found = await problems.find(world.node(1), BUDGET_S)
    assert not [each for each in found.problems if each.kind == "count"]


async def test_a_tree_that_lacks_the_one_who_asks_is_not_complete() -> None:
    world = deceived()
    assert (await find_roster(world.node(3))).complete
    found = await find_roster(world.node(8))
    assert not found.complete
    assert found.note == "10.0.0.1 (root) does not list 10.0.0.8: a leader above does not report it"


async def test_those_who_told_the_root_are_named() -> None:
    world = deceived(told=HIDDEN)
    found = await find_roster(world.node(3))
    assert not found.complete
    assert found.note == (
        "10.0.0.1 (root) does not list 10.0.0.4, 10.0.0.5, 10.0.0.8, 10.0.0.9 and others: "
        "a leader above does not report it"
    )
    told = (await problems.find(world.node(3), BUDGET_S)).problems
    (unlisted,) = [each for each in told if each.kind == "unlisted"]
    assert unlisted.nodes == len(HIDDEN)
    assert unlisted.text == "not listed by the root 10.0.0.1: a leader above it does not report it"
