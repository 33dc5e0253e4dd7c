"""Shares in a tree of 100 nodes, each with the part of the daemon: deaths, moves, partitions, and lies."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random
from typing import Any

import pytest

from subord.core.carriage.engine.frames import encode, number_of, open_envelope
from subord.core.carriage.shares.bodies import report_frame, row_frame
from subord.core.carriage.shares.interface import DOCUMENT, KEPT, NO_ROW, Branch
from subord.core.carriage.shares.plan import Plan, order_of, read
from subord.services.shares.simulation.serving import fluid, lottery
from subord.services.shares.simulation.tree import Lie, SharingTree
from subord.sim.services.still import complete

pytestmark = pytest.mark.slow

NODES, FANOUT = 100, 10
ROUND_S = 0.3
WITHIN = 2.0
"""Points of a percent."""
WANTED = (60.0, 30.0, 10.0)


def plan_of(version: int, *wanted: int, round_ms: int = 300) -> Plan:
    plan = read(order_of(version, 1, round_ms, [(f"class{n}", 1000 * each) for n, each in enumerate(wanted, 1)]))
    assert plan is not None
    return plan


PLAN = plan_of(1, 60, 30, 10)


def work_of(position: int) -> tuple[float, ...]:
    """Class 3 has work on the first 30 nodes alone."""
    return inf, inf, inf if position <= 30 else 0.0


def settled(seconds: float = 6.0, **words: Any) -> SharingTree:
    cluster = SharingTree(complete(NODES, FANOUT), work_of, fluid, **words)
    cluster.publish_plan(PLAN, spread_s=0.2)
    cluster.run(seconds)
    return cluster


def is_back(usage: Sequence[float], wanted: Sequence[float] = WANTED) -> bool:
    return all(abs(each - share) <= WITHIN for each, share in zip(usage, wanted, strict=True))


def after_rounds(cluster: SharingTree, rounds: int, nodes: Sequence[int] | None = None) -> list[float]:
    """The usage in the round after so many."""
    cluster.run(rounds * ROUND_S)
    return cluster.usage(ROUND_S, nodes)


# -- a tree at rest ---------------------------------------------------------------------------------------------


def test_the_cluster_uses_the_wanted_shares_after_some_rounds() -> None:
    cluster = settled(8 * ROUND_S)
    for _ in range(10):
        assert is_back(cluster.usage(ROUND_S))
    overview = cluster.overview(1)
    assert (overview.told, overview.asked, overview.left_out, overview.dropped) == (NODES, NODES, (), {})
    assert max(each.age_s for each in overview.branches) <= 1.5 * ROUND_S
    assert overview.decided is not None
    assert overview.decided.steps[0].word == "deposit"
    assert len(overview.order) == FANOUT + 1


@pytest.mark.parametrize("fanout", [2, 10, 32])
def test_a_class_on_few_nodes_of_large_branches_keeps_its_share(fanout: int) -> None:
    """With 32, two branches of 33 nodes have one node with class 3 each, and no use for 2 tickets on each node."""
    cluster = SharingTree(complete(NODES, fanout), work_of, fluid)
    cluster.publish_plan(PLAN)
    cluster.run(20 * ROUND_S)
    assert cluster.usage(20 * ROUND_S)[-1] == pytest.approx(10, abs=0.5)


def test_the_shares_hold_with_the_noise_of_a_lottery() -> None:
    cluster = SharingTree(complete(NODES, FANOUT), work_of, lottery(Random(1)))
    cluster.publish_plan(PLAN, spread_s=ROUND_S)
    cluster.run(30 * ROUND_S)
    assert is_back(cluster.usage(30 * ROUND_S))


def test_without_leaders_class_3_gets_what_its_nodes_give() -> None:
    """What the tree is for: fixed shares on every node are the paper's static case."""
    cluster = SharingTree(dict.fromkeys(range(1, NODES + 1), 0), work_of, fluid)
    cluster.publish_plan(PLAN)
    assert cluster.usage(3.0)[2] == pytest.approx(3, abs=0.1)


def test_every_level_has_the_same_number_of_rounds() -> None:
    cluster = settled(30.0)
    rounds = {cluster.overview(each).round for each in cluster.nodes}
    assert 97 <= min(rounds) <= max(rounds) <= 100


def test_a_node_sends_one_report_and_one_row_for_each_branch_in_a_round() -> None:
    cluster = settled()
    before = {each: node.frames_out for each, node in cluster.nodes.items()}  # type: ignore[attr-defined]
    cluster.run(10 * ROUND_S)
    sent = {each: cluster.nodes[each].frames_out - before[each] for each in (1, 2, 50)}  # type: ignore[attr-defined]
    assert sent == {1: 10 * FANOUT, 2: 10 * (FANOUT + 1), 50: 10}


def test_another_plan_takes_the_place_of_the_first_everywhere() -> None:
    cluster = settled()
    cluster.publish_plan(plan_of(2, 30, 60, 10), spread_s=0.2)
    assert is_back(after_rounds(cluster, 6), (30, 60, 10))
    assert {word for each in cluster.nodes for word in cluster.overview(each).dropped} == {"shares another plan"}


def test_off_ends_all_messages() -> None:
    cluster = settled()
    cluster.publish_plan(read(order_of(2, 1, 300, ())), spread_s=0.2)
    cluster.run(1.0)
    cluster.sent.clear()
    cluster.run(10.0)
    assert cluster.sent == []
    assert all(not any(cluster.shares_of(each).sizes.values()) for each in cluster.nodes)


# -- the tree heals ---------------------------------------------------------------------------------------------


def test_shares_are_back_within_three_rounds_after_a_leader_has_died() -> None:
    cluster = settled()
    orphans = cluster.kill(2)
    cluster.run(2.0)
    assert {cluster.overview(each).wanted_from for each in orphans} == {KEPT}
    assert cluster.overview(1).asked == NODES - 1 - len(orphans)
    for each in orphans:
        cluster.attach(each, 5)
    for rounds in range(3, 8):
        assert is_back(after_rounds(cluster, 3 if rounds == 3 else 0)), rounds
    assert cluster.overview(1).told == NODES - 1


def test_shares_are_back_after_work_has_moved_while_branches_had_no_leader() -> None:
    cluster = settled()
    orphans = cluster.kill(2)
    for work in cluster.work.values():
        work.load((inf, inf, 0.0))
    for position in range(71, NODES + 1):
        cluster.work[position].load((inf, inf, inf))
    assert cluster.usage(ROUND_S)[2] < 5
    cluster.run(2.0)
    for each in orphans:
        cluster.attach(each, 5)
    assert is_back(after_rounds(cluster, 3))


def test_shares_are_back_after_all_nodes_were_alone_for_long() -> None:
    """Longer than their last rows count, so that each has kept the shares of the document."""
    cluster = SharingTree(complete(11, 10), lambda each: (inf, inf, inf if each in (2, 3, 4) else 0.0), fluid)
    cluster.publish_plan(PLAN)
    cluster.run(3.0)
    assert is_back(cluster.usage(ROUND_S))
    orphans = cluster.kill(1)
    cluster.run(40.0)
    assert cluster.usage(ROUND_S)[2] == pytest.approx(3, abs=0.1)
    cluster.become_root(2)
    for each in orphans[1:]:
        cluster.attach(each, 2)
    assert is_back(after_rounds(cluster, 3))


def test_a_tree_of_nodes_that_were_alone_has_the_shares_within_three_rounds() -> None:
    leaders = complete(NODES, FANOUT)
    cluster = SharingTree(dict.fromkeys(leaders, 0), work_of, fluid)
    cluster.publish_plan(PLAN)
    assert cluster.usage(3.0)[2] == pytest.approx(3, abs=0.1)
    for position, leader in leaders.items():
        if leader:
            cluster.attach(position, leader)
    assert is_back(after_rounds(cluster, 3))


def test_a_whole_branch_that_moves_counts_at_its_new_leader_alone() -> None:
    cluster = settled()
    cluster.cut_off(3)
    cluster.attach(3, 8)
    assert is_back(after_rounds(cluster, 3))
    told = {each: cluster.overview(each).told for each in (1, 3, 8)}
    assert told == {1: NODES, 3: 11, 8: 22}


def test_shares_are_back_after_the_root_has_died() -> None:
    cluster = settled()
    orphans = cluster.kill(1)
    cluster.run(2.0)
    first, *others = orphans
    cluster.become_root(first)
    for each in others:
        cluster.attach(each, first)
    assert is_back(after_rounds(cluster, 3))
    overview = cluster.overview(first)
    assert (overview.wanted_from, overview.told) == (DOCUMENT, NODES - 1)


def test_each_half_of_a_partition_keeps_the_wanted_shares() -> None:
    cluster = settled()
    half = [each for each in cluster.nodes if cluster.is_below(each, 2)]
    rest = [each for each in cluster.nodes if each not in half]
    cluster.cut_off(2)
    cluster.run(1.0)
    cluster.become_root(2)
    for nodes in (half, rest):
        assert is_back(after_rounds(cluster, 6, nodes)), nodes
    assert cluster.overview(2).wanted_from == cluster.overview(1).wanted_from == DOCUMENT
    cluster.attach(2, 1)
    assert is_back(after_rounds(cluster, 3))
    assert cluster.overview(1).told == NODES


def test_two_halves_with_plans_of_their_own_agree_after_they_have_merged() -> None:
    cluster = settled()
    half = [each for each in cluster.nodes if cluster.is_below(each, 2)]
    cluster.cut_off(2)
    cluster.become_root(2)
    later = plan_of(2, 30, 60, 10)
    cluster.publish_plan(later, half)
    assert is_back(after_rounds(cluster, 6, half), (30, 60, 10))
    cluster.attach(2, 1)
    cluster.run(ROUND_S)
    assert cluster.overview(1).dropped["shares another plan"] >= 1
    assert [(each.position, each.cause) for each in cluster.overview(1).left_out] == [(2, "no report")]
    cluster.publish_plan(later, spread_s=0.1)
    assert is_back(after_rounds(cluster, 6), (30, 60, 10))


def test_a_new_life_of_a_leader_decides_from_one_round_of_reports() -> None:
    cluster = settled()
    below = [each for each, leader in cluster.leaders.items() if leader == 2]
    for each in below:
        cluster.close(each, 2)
    cluster.close(2, 1)
    cluster.start(2)
    cluster.list_all()
    cluster.publish_plan(PLAN, [2])
    for each in (2, *below):
        cluster.open(each)
    assert is_back(after_rounds(cluster, 3))
    assert cluster.overview(2).told == 11


def test_a_hung_leader_is_left_out_and_named_and_its_branch_keeps_its_rows() -> None:
    cluster = settled()
    cluster.cut(2)
    for each in [each for each, leader in cluster.leaders.items() if leader == 2]:
        cluster.cut(each)
    cluster.run(1.0)
    assert cluster.overview(1).told == NODES, "the last report counts for a while"
    cluster.run(2.0)
    assert [(each.position, each.nodes, each.cause) for each in cluster.overview(1).left_out] == [(2, 11, "stale")]
    rest = [each for each in cluster.nodes if not cluster.is_below(each, 2)]
    assert is_back(after_rounds(cluster, 4, rest))
    assert {cluster.overview(each).wanted_from for each in (2, 12, 21)} == {KEPT}
    cluster.run(30.0)
    assert {cluster.overview(each).wanted_from for each in (2, 12, 21)} == {NO_ROW}


def test_branches_below_older_nodes_keep_the_wanted_shares_and_send_little() -> None:
    cluster = settled(older=(2,))
    assert [(each.position, each.cause) for each in cluster.overview(1).left_out] == [(2, "older release")]
    assert cluster.overview(12).wanted_from == NO_ROW
    assert cluster.overview(12).obeyed == WANTED


def test_shares_hold_in_a_deep_tree() -> None:
    """A row needs a round for each of six levels."""
    cluster = SharingTree(complete(NODES, 2), work_of, fluid)
    cluster.publish_plan(PLAN, spread_s=0.2)
    cluster.run(12 * ROUND_S)
    for _ in range(10):
        assert is_back(cluster.usage(ROUND_S))


# -- disasters in any order -------------------------------------------------------------------------------------


HONEST = {"shares no plan", "shares row of no leader", "shares more nodes than listed"}
"""What may be dropped while the tree changes."""


class Disasters:
    """What happens to a tree of 40 nodes, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.cluster = SharingTree(complete(40, 3), lambda each: (inf, inf, 0.0 if each % 3 else inf), fluid)
        self.cluster.publish_plan(PLAN, spread_s=0.2)

    def happen(self) -> None:
        self.cluster.run(self.chance.uniform(0.05, 1.5))
        nodes = sorted(set(self.cluster.nodes) - self.cluster.seeking)
        each = self.chance.choice(nodes)
        what = self.chance.choice([self.die, self.move, self.restart, self.hang])
        what(each)
        self.check()

    def die(self, position: int) -> None:
        was_root = not self.cluster.leaders[position]
        orphans = self.cluster.kill(position)
        self.cluster.run(self.chance.uniform(0.0, 3.0))
        self.check()
        if was_root:
            self.cluster.become_root(orphans.pop(0))
        self.adopt(orphans)

    def move(self, position: int) -> None:
        if self.cluster.leaders[position]:
            self.cluster.cut_off(position)
            self.adopt([position])

    def restart(self, position: int) -> None:
        """Also the agent of the node begins anew, and it gets the document from its neighbours."""
        edges = [
            (each, leader) for each, leader in self.cluster.leaders.items() if leader and position in (each, leader)
        ]
        for each, leader in edges:
            self.cluster.close(each, leader)
        self.cluster.start(position)
        self.cluster.list_all()
        for each, _ in edges:
            self.cluster.open(each)
        self.cluster.publish_plan(PLAN, [position])

    def hang(self, position: int) -> None:
        """The stream carries nothing, then both ends notice."""
        leader = self.cluster.leaders[position]
        if leader:
            self.cluster.cut(position)
            self.cluster.run(self.chance.uniform(0.0, 4.0))
            self.cluster.close(position, leader)
            self.cluster.open(position)

    def adopt(self, orphans: list[int]) -> None:
        for each in orphans:
            self.cluster.run(self.chance.uniform(0.0, 0.4))
            nodes = sorted(set(self.cluster.nodes) - self.cluster.seeking)
            leaders = [other for other in nodes if not self.cluster.is_below(other, each)]
            self.cluster.attach(each, self.chance.choice(leaders))

    def check(self) -> None:
        for each in self.cluster.nodes:
            overview = self.cluster.overview(each)
            assert overview.told <= overview.asked
            assert overview.told + sum(left.nodes for left in overview.left_out) <= overview.asked
            assert len({branch.position for branch in overview.branches}) == len(overview.branches)
            assert all(branch.report.nodes <= branch.said_nodes for branch in overview.branches)
            assert not overview.obeyed or sum(overview.obeyed) == pytest.approx(100, abs=1e-9)
            for row in overview.decided.rows if overview.decided else ():
                assert sum(row) == pytest.approx(100, abs=1e-6)
            assert set(overview.dropped) <= {
                "shares no plan",
                "shares row of no leader",
                "shares more nodes than listed",
            }


@pytest.mark.parametrize("seed", range(4))
def test_after_any_disasters_the_shares_are_back(seed: int) -> None:
    disasters = Disasters(seed)
    for _ in range(20):
        disasters.happen()
    cluster = disasters.cluster
    cluster.run(10 * ROUND_S)
    disasters.check()
    (root,) = (each for each, leader in cluster.leaders.items() if not leader)
    overview = cluster.overview(root)
    assert (overview.told, overview.left_out) == (len(cluster.nodes), ())
    assert is_back(cluster.usage(ROUND_S))


# -- lies ---------------------------------------------------------------------------------------------------------


def lying(said: Branch, row: Sequence[float] | None = None) -> Lie:
    """Its reports are all `said`, and its rows `row`."""

    def lie(other: int, data: bytes) -> list[bytes]:
        frame = open_envelope(data)
        if number_of(frame.body) == 64:
            return [encode(frame.sender, frame.receiver, report_frame(PLAN, 1, said))]
        return [data if row is None else encode(frame.sender, frame.receiver, row_frame(PLAN, 1, row))]

    return lie


HUGE = 2.0**31
NONSENSE = {
    "everything is huge": Branch((HUGE,) * 3, (HUGE,) * 3, (True,) * 3, HUGE),
    "no nodes": Branch(WANTED, WANTED, (True,) * 3, 0),
    "more than all": Branch(WANTED, (60.0, 60.0, 60.0), (True,) * 3, 1),
    "other classes": Branch((50.0, 50.0), (50.0, 50.0), (True, True), 1),
}
LIES = {
    "all of class 3": Branch(WANTED, (0.0, 0.0, 100.0), (False, False, True), HUGE),
    "all of class 3, and content": Branch((0.0, 0.0, 100.0), (0.0, 0.0, 100.0), (False, False, False), HUGE),
    "nothing": Branch((0.0, 0.0, 100.0), (0.0, 0.0, 0.0), (False, False, False), HUGE),
    "always in need": Branch((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (True, True, True), HUGE),
}


@pytest.mark.parametrize("word", NONSENSE)
def test_nonsense_is_dropped_and_named(word: str) -> None:
    cluster = settled()
    cluster.lies[50] = lying(NONSENSE[word])
    cluster.run(4.0)
    leader = cluster.overview(cluster.leaders[50])
    assert [(each.position, each.cause) for each in leader.left_out] == [(50, "nonsense")]
    assert leader.dropped["shares nonsense"] >= 8
    assert leader.left_out[0].fault
    assert cluster.overview(1).told == NODES - 1
    assert is_back(cluster.usage(1.2))


@pytest.mark.parametrize("word", LIES)
@pytest.mark.parametrize("liar", [12, 50])
def test_the_lies_of_a_leaf_have_a_bounded_effect(word: str, liar: int) -> None:
    cluster = settled()
    cluster.lies[liar] = lying(LIES[word])
    cluster.run(4.0)
    assert is_back(cluster.usage(1.2))
    leader = cluster.overview(cluster.leaders[liar])
    (said,) = (each for each in leader.branches if each.position == liar)
    assert (said.report.nodes, said.said_nodes) == (1, HUGE)
    assert leader.dropped["shares more nodes than listed"] >= 8
    assert (cluster.overview(1).told, cluster.overview(1).left_out) == (NODES, ())


@pytest.mark.parametrize("word", LIES)
def test_the_lies_of_a_leader_move_no_more_than_its_branch(word: str) -> None:
    """11 of 100 nodes: they may get and take what they like, and no other branch pays more than that."""
    cluster = settled()
    cluster.lies[2] = lying(LIES[word], (1.0, 1.0, 98.0))
    cluster.run(4.0)
    usage = cluster.usage(1.2)
    assert all(abs(each - share) <= 11 + WITHIN for each, share in zip(usage, WANTED, strict=True)), usage
    (said,) = (each for each in cluster.overview(1).branches if each.position == 2)
    assert (said.report.nodes, said.said_nodes) == (11, HUGE)


def test_what_a_node_measures_wrong_is_dropped_at_the_node_itself() -> None:
    cluster = settled()
    cluster.measures_wrong[50] = Branch((float("nan"),) * 3, (float("nan"),) * 3, (True,) * 3, 1)
    cluster.run(4.0)
    assert [each.cause for each in cluster.overview(50).left_out] == ["nonsense"]
    assert [(each.position, each.cause) for each in cluster.overview(cluster.leaders[50]).left_out] == [(50, "stale")]
    assert is_back(cluster.usage(1.2))


def test_rows_of_a_node_that_is_not_the_leader_count_nowhere() -> None:
    cluster = settled()

    def lie(other: int, data: bytes) -> list[bytes]:
        frame = open_envelope(data)
        return [data, encode(frame.sender, frame.receiver, row_frame(PLAN, 1, (1.0, 1.0, 98.0)))]

    cluster.lies[50] = lie
    cluster.run(2.0)
    leader = cluster.leaders[50]
    assert cluster.overview(leader).dropped["shares row of no leader"] >= 5
    assert is_back(cluster.usage(1.2))
