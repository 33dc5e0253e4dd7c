"""The tree that the engine of orders reads: the roster of a real node, and the register of members beside it."""

from __future__ import annotations

import msgspec
from small_world import SmallWorld

from subord.core.carriage.engine.ranges import Ranges
from subord.core.members.register import Record, Register, Run, State
from subord.core.roster_tree import RosterTree


def rested(nodes: int = 7) -> SmallWorld:
    world = SmallWorld.dense(nodes, 2)
    world.run(20)
    return world


def split_of(tree: RosterTree, *pairs: tuple[int, int]) -> tuple[bool, dict[int, str], dict[str, str]]:
    found = tree.split(Ranges.of_pairs(pairs))
    below = {via: str(nodes) for via, nodes in found.below.items()}
    return found.own, below, {cause: str(nodes) for cause, nodes in found.absent.items()}


def test_targets_are_split_by_the_branches_of_the_root() -> None:
    tree = RosterTree(rested().nodes[1])
    assert str(tree.every()) == "1-7"
    assert split_of(tree, (1, 7)) == (True, {2: "2,4-5", 3: "3,6-7"}, {})
    assert split_of(tree, (5, 6)) == (False, {2: "5", 3: "6"}, {})


def test_the_nodes_of_a_branch_are_listed() -> None:
    tree = RosterTree(rested().nodes[1])
    assert str(tree.listed(2, Ranges.of_pairs([(1, 1 << 23)]))) == "2,4-5"
    assert str(tree.listed(2, Ranges.of([1, 3, 5, 9]))) == "5"


def test_what_the_roster_does_not_list_is_known_from_the_register() -> None:
    """8 was up and is not listed: it is on its way, or cut off; 9 is down, 10 has left, 11 was forgotten."""
    states = {8: State.UP, 9: State.DOWN, 10: State.LEFT, 11: State.FORGOTTEN}
    register = Register(250, [Run(each, each, Record(1, state)) for each, state in states.items()])
    tree = RosterTree(rested().nodes[1], register)
    assert str(tree.every()) == "1-9"
    causes = {"moved": "8", "down": "9", "left": "10", "unknown": "11-12"}
    assert split_of(tree, (1, 12)) == (True, {2: "2,4-5", 3: "3,6-7"}, causes)
    assert split_of(tree, (9, 9)) == (False, {}, {"down": "9"})


def test_a_lost_root_of_a_young_cluster_is_on_its_way() -> None:
    """The register does not have it yet."""
    tree = RosterTree(rested().nodes[1], Register(250, []), lambda: {9})
    assert str(tree.every()) == "1-7,9"
    assert split_of(tree, (8, 9))[2] == {"moved": "9", "unknown": "8"}


def test_only_a_root_knows_all_members() -> None:
    world = rested()
    assert RosterTree(world.nodes[1]).is_settled(world.now)
    assert not RosterTree(world.nodes[2]).is_settled(world.now)
    young = RosterTree(world.nodes[1], settles=lambda node, now: node is world.nodes[1] and now > world.now)
    assert not young.is_settled(world.now)
    assert young.is_settled(world.now + 1.0)


def test_a_node_that_vanished_is_down() -> None:
    world = rested()
    world.kill(7)
    world.run_until(lambda: split_of(RosterTree(world.nodes[1]), (7, 7))[2] == {"down": "7"}, within_s=20)


def test_a_node_that_said_goodbye_is_no_member() -> None:
    """Its leader reports it as missing for a while."""
    world, register = rested(), Register(250)
    world.kill(7)
    tree = RosterTree(world.nodes[1], register)
    world.run_until(lambda: split_of(tree, (7, 7))[2] == {"down": "7"}, within_s=20)
    assert str(tree.every()) == "1-7"
    register.merge([Run(7, 7, Record(1, State.LEFT))])
    assert str(tree.every()) == "1-6"


def test_nodes_below_one_that_moved_are_found_with_it() -> None:
    """4 is now below 3, and 2 has not noticed: both report 8 and 9, in equal rows."""
    world = rested(15)
    root = world.nodes[1]
    rows = {each: root.roster.rows[each][1].change for each in (4, 8, 9)}
    rows[4] = msgspec.structs.replace(rows[4], leader=3, moves=rows[4].moves + 1)
    for each in (8, 9):
        root.roster.state(3, rows[each], world.now)
    assert split_of(RosterTree(root), (8, 9))[1] == {2: "8-9"}
    root.roster.state(3, rows[4], world.now)
    assert split_of(RosterTree(root), (4, 10))[1] == {2: "5,10", 3: "4,6-9"}


def test_a_branch_is_split_by_its_subordinates() -> None:
    tree = RosterTree(rested(15).nodes[1])
    found = tree.split_below(2, Ranges.of_pairs([(2, 15)]))
    assert {via: str(nodes) for via, nodes in found.items()} == {4: "4,8-9", 5: "5,10-11"}
