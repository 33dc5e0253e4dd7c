"""The simulation of shares: how a node serves, when leaders decide, and equal runs for equal seeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random

import pytest
from loops import over

from subord.core.carriage.shares.interface import Branch, Decision, Row
from subord.services.shares.bank import Bank
from subord.services.shares.simulation import experiments
from subord.services.shares.simulation.actors import REQUESTS, Leader, Node
from subord.services.shares.simulation.experiments import WANTED
from subord.services.shares.simulation.playing import Cluster, Times, skewed, together
from subord.services.shares.simulation.serving import binomial, fluid, lottery

ROW = (60.0, 30.0, 10.0)


# -- serving --------------------------------------------------------------------------------------------------------


@over(
    ("queues", "served"),
    [
        ((inf, inf, inf), [12, 6, 2]),
        ((inf, inf, 0), [40 / 3, 20 / 3, 0]),
        ((0, 0, inf), [0, 0, 20]),
        ((0, 0, 0), [0, 0, 0]),
        ((6, inf, inf), [6, 10.5, 3.5]),  # what class 1 leaves is shared 3 to 1
        ((6, 1, inf), [6, 1, 13]),
        ((6, 1, 2), [6, 1, 2]),  # time is left
        ((13, 1, inf), [13, 1, 6]),  # only what class 2 leaves makes class 1 modest
    ],
)
def test_a_fluid_has_exact_shares(queues: Sequence[float], served: list[float]) -> None:
    assert fluid([60, 30, 10], queues, 20) == pytest.approx(served)


@pytest.mark.slow
@over("queues", [(inf, inf, inf), (inf, inf, 0), (6, inf, inf), (6, 1, inf), (6, 1, 2), (0, 0, inf), (0, 0, 0)])
def test_a_lottery_has_the_shares_of_the_fluid_on_average(queues: Sequence[float]) -> None:
    """But for queues that end: those are empty in most rounds only."""
    serve = lottery(Random(1))
    drawn = [serve([60, 30, 10], queues, 20) for _ in range(4000)]
    for served in drawn:
        assert sum(served) == min(20, sum(queues))
        assert all(got <= queue for got, queue in zip(served, queues, strict=True))
    means = [sum(column) / len(drawn) for column in zip(*drawn, strict=True)]
    assert means == pytest.approx(fluid([60, 30, 10], queues, 20), abs=0.2)


def test_the_spread_of_a_lottery_is_that_of_independent_draws() -> None:
    serve = lottery(Random(2))
    drawn = [serve([60, 30, 10], (inf, inf, inf), 20)[0] for _ in range(4000)]
    assert sum((each - 12) ** 2 for each in drawn) / len(drawn) == pytest.approx(20 * 0.6 * 0.4, rel=0.05)


def test_the_table_of_chances() -> None:
    assert binomial(2, 60, 100) == pytest.approx([0.16, 0.64])
    assert binomial(0, 60, 100) == []


# -- a node ---------------------------------------------------------------------------------------------------------


def test_a_node_reports_what_it_served_and_whether_work_is_left() -> None:
    node = Node((inf, 4.0, 0.0), ROW, fluid)
    node.arrive()
    node.advance(20)
    assert node.report() == Branch([60, 30, 10], [80, 20, 0], [True, False, False], 1)
    node.advance(40)  # the next 4 requests have not come
    assert node.report() == Branch([60, 30, 10], [100, 0, 0], [True, False, False], 1)
    assert node.report() is None


def test_work_that_waits_is_not_lost() -> None:
    node = Node((inf, 10.0, 0.0), ROW, fluid)
    for period in range(1, 4):
        node.arrive()
        node.advance(20 * period)
    report = node.report()
    assert report is not None
    assert report.usage == pytest.approx((200 / 3, 100 / 3, 0))
    assert report.needy == [True, True, False]
    node.load((0.0, 0.0, 0.0))
    node.advance(80)
    assert node.report() == Branch([60, 30, 10], [0, 0, 0], [False, False, False], 1)


def test_a_row_in_the_midst_of_a_period_counts_from_then_on() -> None:
    node = Node((inf, inf, inf), ROW, fluid)
    node.obey((20.0, 20.0, 60.0), 15)
    node.advance(20)
    assert node.report() == Branch([50, 27.5, 22.5], [50, 27.5, 22.5], [True] * 3, 1)


@over("load", [1.0, 8.0])
def test_no_more_is_served_than_has_come(load: float) -> None:
    """A class without end beside it must not make its queue endless."""
    node = Node((0.0, load, inf), ROW, lottery(Random(1)))
    for period in range(1, 51):
        node.arrive()
        node.advance(20 * period)
    assert node.served[1] == pytest.approx(50 * load)


# -- leaders --------------------------------------------------------------------------------------------------------


class Noted:
    """A policy that gives the wanted shares, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[Branch], Row]] = []

    def decide(self, branches: Sequence[Branch], wanted: Row, accounts: Row) -> Decision:
        self.asked.append((list(branches), wanted))
        return Decision([list(wanted) for _ in branches], list(accounts), ())


def test_a_leader_without_reports_waits() -> None:
    policy = Noted()
    leader = Leader([Node((inf,) * 3, ROW, fluid)], ROW, policy)
    leader.decide(20)
    assert (policy.asked, leader.report()) == ([], None)


def test_the_root_decides_less_often_from_all_rounds() -> None:
    policy = Noted()
    cluster = Cluster([(inf, inf, inf)] * 4, [ROW] * 4, fluid)
    cluster.lead(2, WANTED, policy, together(4, 2, root_rounds=5))
    cluster.play(10)
    by_root = [branches for branches, _ in policy.asked if branches[0].nodes == 2]
    assert len(by_root) == 2
    assert len(policy.asked) == 2 + 2 * 10


def test_skewed_reports_come_once_in_a_period() -> None:
    times = skewed(100, 10, Random(1))
    assert {1, REQUESTS} <= {*times.nodes} <= {*range(1, REQUESTS + 1)}
    policy = Noted()
    cluster = Cluster([(inf, inf, inf)] * 4, [ROW] * 4, fluid)
    cluster.lead(2, WANTED, policy, Times(nodes=[5, 20, 1, 9], leaders=[7, 3]))
    usage = cluster.play(10)
    assert len(policy.asked) == 10 + 2 * 10
    assert usage == [pytest.approx(ROW)] * 10


@pytest.mark.slow
def test_equal_seeds_give_equal_runs() -> None:
    first, again, other = (experiments.play(4, seed, Bank(), is_skewed=True) for seed in (1, 1, 2))
    assert first == again != other


def test_shares_that_never_come_back() -> None:
    assert experiments._recovery([(1.0, 74.0, 25.0)] * 4) == 5
    assert experiments._recovery([(1.0, 74.0, 25.0), (57.5, 32.0, 10.5)]) == 2
    assert experiments._recovery([(56.5, 32.0, 11.5), (60.0, 30.0, 10.0)]) == 2
