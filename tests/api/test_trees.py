"""A roster becomes a tree: every row once, whatever the roster contains."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.api.models import nodes, trees
from subord.api.models.members import RosterDocument, RowDocument, TreeDocument
from subord.core.view import Liveness, Place
from tests.api.fake_node_api import World


def paper_tree() -> TreeDocument:
    node = World().node(1)
    return trees.tree(nodes.roster(node.settings, node.roster()))


def row(name: int, leader: int | None) -> RowDocument:
    return RowDocument(
        address=f"10.0.0.{name}",
        position=name,
        level=0,
        offset=0,
        leader=None if leader is None else f"10.0.0.{leader}",
        place=Place.HOME,
        incarnation=1,
        since_s=0.0,
        standing="live",
    )


def test_the_paper_tree_is_nested() -> None:
    tree = json.loads(trees.encoded(paper_tree()))
    assert (tree["nodes"], tree["depth"], tree["at_home"], tree["complete"], tree["note"]) == (11, 3, 11, True, None)

    def leaders(node: dict[str, Any]) -> dict[int, list[int]]:
        subordinates = {node["position"]: [each["position"] for each in node["subordinates"]]}
        for each in node["subordinates"]:
            subordinates |= leaders(each)
        return subordinates

    (root,) = tree["roots"]
    assert {"address", "position", "level", "offset", "place", "subordinates"} <= root.keys()
    assert {position: subordinates for position, subordinates in leaders(root).items() if subordinates} == {
        1: [2, 3],
        2: [4, 5],
        3: [6, 7],
        4: [8, 9],
        5: [10, 11],
    }
    assert root["place"] == "root"


def test_standings_are_counted_and_missing_rows_are_not_nodes() -> None:
    world = World()
    world.liveness = {7: Liveness.MISSING, 6: Liveness.STALE, 5: Liveness.HELD}
    node = world.node(1)
    tree = trees.tree(nodes.roster(node.settings, node.roster()))
    assert (tree.nodes, tree.missing, tree.stale, tree.held) == (9, 1, 1, 1)
    assert len(tree.rows) == 11


@over(
    ("rows", "expected"),
    [
        ([], []),
        ([(1, None)], [(1, 0, None)]),
        ([(1, None), (4, 3)], [(1, 0, None), (4, 0, "its leader 10.0.0.3 is not in this roster")]),
        (
            [(1, None), (5, 4), (4, 9)],
            [(1, 0, None), (4, 0, "its leader 10.0.0.9 is not in this roster"), (5, 1, None)],
        ),
        ([(1, None), (3, None)], [(1, 0, None), (3, 0, "has no leader")]),
        ([(1, None), (3, 2), (2, 3)], [(1, 0, None), (2, 0, "is led in a circle"), (3, 1, None)]),
        ([(1, None), (2, 2)], [(1, 0, None), (2, 0, "is led in a circle")]),
        ([(2, 1), (4, 2)], [(2, 0, None), (4, 1, None)]),
        ([(1, None), (2, 1), (2, 1)], [(1, 0, None), (2, 1, None), (2, 1, None)]),
    ],
)
def test_bad_rosters_are_arranged_with_a_reason(
    rows: list[tuple[int, int | None]], expected: list[tuple[int, int, str | None]]
) -> None:
    arranged = trees.arranged(tuple(row(name, leader) for name, leader in rows))
    assert [(each.position, each.real_level, each.apart) for each in arranged] == expected


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 12), st.none() | st.integers(1, 12)), max_size=20))
def test_no_row_is_lost_and_every_depth_follows(rows: list[tuple[int, int | None]]) -> None:
    arranged = list(trees.arranged(tuple(row(name, leader) for name, leader in rows)))
    assert sorted(each.position for each in arranged) == sorted(name for name, _ in rows)
    depths = [each.real_level for each in arranged]
    assert all(after <= before + 1 for before, after in pairwise(depths))
    # A row stands below its leader.
    above: list[str] = []
    for each in arranged:
        del above[each.real_level :]
        assert not above or each.leader == above[-1]
        above.append(each.address)


def test_a_chain_of_thousands_is_no_recursion() -> None:
    rows = tuple(
        msgspec.structs.replace(row(1, None), address=f"fd00::{n}", leader=f"fd00::{n - 1}" if n else None)
        for n in range(3000)
    )
    roster = RosterDocument(owner="fd00::0", is_root=True, root="fd00::0", leader=None, quiet_s=0.0, rows=rows)
    tree = trees.tree(roster)
    assert tree.depth == 2999
    assert trees.encoded(tree).count(b'"subordinates"') == 3000
