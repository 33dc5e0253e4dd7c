"""The part of shares at one node: what it sends and obeys, what it counts, what it drops, and its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from random import Random
from typing import Any

import msgspec
import pytest

from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import Unreadable, encode, open_envelope
from subord.core.carriage.engine.interface import Arrived, Closed, Lane, Opened, Role, Transmit, Wakeup
from subord.core.carriage.engine.lanes import PART_BODIES, lane_of
from subord.core.carriage.shares import bodies, bounds
from subord.core.carriage.shares.bodies import Given, Told, report_frame, row_frame, thousandths
from subord.core.carriage.shares.interface import (
    DOCUMENT,
    KEPT,
    LEADER,
    NO_ROW,
    Branch,
    Decision,
    Measure,
    Measured,
    Obey,
    Planned,
    Row,
    UndecidedError,
)
from subord.core.carriage.shares.plan import Plan, order_of, read
from subord.core.carriage.shares.shares import Shares
from subord.core.roster_tree import RosterTree

OLDER = "older release"


def plan_of(version: int = 1, round_ms: int = 1000, web: int = 60_000, classes: int = 2) -> Plan:
    shares = [("web", web), ("rest", 100_000 - web)] if classes == 2 else [(f"c{n}", 10_000) for n in range(classes)]
    plan = read(order_of(version, 1, round_ms, shares))
    assert plan is not None
    return plan


PLAN = plan_of()


def branch(web: float = 60.0, nodes: float = 1, needy: bool = True) -> Branch:
    return Branch((60.0, 40.0), (web, 100 - web), (needy, needy), nodes)


class Plain:
    """Gives each branch the wanted shares, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[Branch], Row, Row]] = []
        self.error = ""

    def fault_of(self, branch: Branch, classes: int) -> str:
        is_sound = len(branch.usage) == classes and branch.nodes > 0 and sum(branch.usage) <= 100.5
        return "" if is_sound else "makes no sense"

    def folded(self, branches: Sequence[Branch]) -> Branch:
        return branches[0]._replace(nodes=sum(each.nodes for each in branches))

    def decide(self, branches: Sequence[Branch], wanted: Row, accounts: Row) -> Decision:
        self.asked.append((list(branches), wanted, accounts))
        if self.error:
            raise UndecidedError(self.error)
        return Decision([tuple(wanted)] * len(branches), [each + 1 for each in accounts])


class Tree:
    """What a node knows of the tree; tests change it."""

    incarnation = 7
    path = ()

    def __init__(self, position: int, leader: int | None, below: dict[int, int]) -> None:
        self.position = position
        self.leader = leader
        self.is_root = leader is None
        self.below = below

    def branches(self) -> dict[int, int]:
        return self.below


class Node:
    """The node 2, below 1, with the subordinates 3 and 4."""

    def __init__(self, leader: int | None = 1, below: dict[int, int] | None = None, plan: Plan | None = PLAN) -> None:
        self.tree = Tree(2, leader, {3: 5, 4: 5} if below is None else below)
        self.plain = Plain()
        self.shares = Shares(self.tree, self.plain)
        self.engine = Engine(self.tree, {}, parts=[self.shares])  # type: ignore[arg-type]
        self.now = 0.0
        if leader is not None:
            self.open(leader, Role.LEADER)
        for each in self.tree.below:
            self.open(each, Role.SUBORDINATE)
        if plan is not None:
            self.give(Planned(plan))

    def open(self, peer: int, role: Role, *, link: Any = None, knows_orders: bool = True) -> list[Any]:
        return self.give(Opened(peer if link is None else link, peer, role, 1, knows_orders=knows_orders))

    def give(self, event: Any) -> list[Any]:
        """Actions, and bodies as (peer, body)."""
        return [
            (each.link, bodies.decode(open_envelope(each.data).body)) if isinstance(each, Transmit) else each
            for each in self.engine.handle(event, self.now)
        ]

    def hear(self, peer: int, body: msgspec.Struct) -> list[Any]:
        return self.give(Arrived(peer, encode(1, 0, body)))

    def report(self, peer: int, said: Branch, plan: Plan = PLAN) -> list[Any]:
        return self.hear(peer, report_frame(plan, 1, said))

    def row(self, peer: int, row: Row, plan: Plan = PLAN) -> list[Any]:
        return self.hear(peer, row_frame(plan, 1, row))

    def at(self, now: float) -> list[Any]:
        """What happens until then."""
        found = []
        while self.engine.deadline <= now:
            self.now = self.engine.deadline
            found += self.give(Wakeup())
            assert self.engine.deadline > self.now
        self.now = now
        return found

    @property
    def overview(self) -> Any:
        return self.shares.overview(self.now)


def of_a_daemon(tree: RosterTree) -> Shares:
    """The tree of a running node is one that the part can read; mypy says so."""
    return Shares(tree, Plain())


# -- a round ------------------------------------------------------------------------------------------------


def test_without_a_plan_nothing_is_held_and_nothing_is_due() -> None:
    node = Node(plan=None)
    assert node.report(3, branch()) == []
    assert node.give(Measured(PLAN, branch())) == []
    assert node.shares.dropped == {"shares no plan": 1, "shares another plan": 1}
    assert node.engine.deadline == inf
    assert not any(node.shares.sizes.values())
    assert node.overview.plan is None


def test_a_plan_is_obeyed_at_once_and_the_node_measures_once_in_a_round() -> None:
    node = Node(plan=None, below={})
    assert node.give(Planned(PLAN)) == [Obey(PLAN, (60.0, 40.0))]
    assert [node.at(each + 0.5) for each in range(4)] == [[], [Measure(PLAN)], [Measure(PLAN)], [Measure(PLAN)]]


def test_a_node_without_branches_reports_what_it_has_measured() -> None:
    node = Node(below={})
    node.at(1.0)
    (sent,) = node.give(Measured(PLAN, branch(61.5, needy=False)))
    assert sent == (1, Told(1, PLAN.mark, 1, Branch((60.0, 40.0), (61.5, 38.5), (False, False), 1)))


def test_a_round_ends_with_the_last_report_and_gives_every_branch_its_row() -> None:
    node = Node()
    node.at(1.0)
    assert node.give(Measured(PLAN, branch())) == []
    assert node.report(3, branch(nodes=5)) == []
    sent = node.report(4, branch(nodes=5))
    assert [peer for peer, _ in sent] == [3, 4, 1]
    assert sent[0][1] == Given(1, PLAN.mark, 1, (60.0, 40.0))
    assert sent[2][1].branch.nodes == 11
    assert [len(asked[0]) for asked in node.plain.asked] == [3]
    assert (node.overview.told, node.overview.asked, node.overview.left_out) == (11, 11, ())


def test_a_leader_waits_for_a_late_branch_but_not_for_long() -> None:
    node = Node()
    node.report(3, branch(nodes=5))
    assert node.at(1.49) == [Measure(PLAN)]
    assert [peer for peer, _ in node.at(1.51)] == [3, 1]


def test_a_leader_waits_no_more_for_a_branch_whose_link_has_ended() -> None:
    node = Node()
    node.at(0.9)
    node.report(3, branch(nodes=5))
    assert node.engine.deadline == 1.0, "of the own measurement; the round may last until 1.5"
    node.at(1.1)
    assert [peer for peer, _ in node.give(Closed(4))] == [3, 1]


def test_a_plan_that_comes_late_gives_each_branch_time_to_report() -> None:
    node = Node(plan=None)
    node.now = 100.0
    node.give(Planned(PLAN))
    node.at(101.0)
    assert node.report(3, branch(nodes=5)) == []
    assert [peer for peer, _ in node.report(4, branch(nodes=5))] == [3, 4, 1]


def test_a_leader_without_branches_obeys_the_row_of_its_leader_at_once() -> None:
    node = Node(below={3: 5})
    node.at(1.0)
    node.report(3, branch(nodes=5))
    node.give(Closed(3))
    node.tree.below.clear()
    assert node.overview.decided is not None
    node.at(2.0)
    node.give(Measured(PLAN, branch()))
    assert (node.overview.decided, node.overview.order) == (None, ())
    assert node.row(1, (70.0, 30.0)) == [Obey(PLAN, (70.0, 30.0))]


def test_rounds_begin_anew_after_the_greatest_number() -> None:
    node = Node(below={})
    node.shares._round = bounds.ROUNDS - 1
    node.at(1.0)
    ((_, told),) = node.give(Measured(PLAN, branch()))
    assert told.round == 0


def test_a_leader_does_not_wait_for_an_older_subordinate() -> None:
    node = Node(below={3: 5})
    node.tree.below[9] = 4
    node.open(9, Role.SUBORDINATE, knows_orders=False)
    node.at(1.0)
    assert [peer for peer, _ in node.report(3, branch(nodes=5))] == [3, 1]


def test_a_node_that_was_stopped_measures_once() -> None:
    node = Node(below={})
    node.now = 7.3
    assert node.give(Wakeup()) == [Measure(PLAN)]
    assert node.engine.deadline == 8.3


def test_a_leader_does_not_decide_more_often_than_it_may() -> None:
    node = Node(below={3: 5})
    for step in range(100):
        node.at(step / 50)
        node.report(3, branch(nodes=5))
    assert len(node.plain.asked) == 2 / bounds.EARLIEST_ROUNDS - 1


def test_accounts_go_from_round_to_round_and_end_with_the_plan() -> None:
    node = Node(below={3: 5})
    for step in range(1, 3):
        node.at(step)
        node.report(3, branch(nodes=5))
    node.give(Planned(plan_of(2)))
    node.at(4.0)
    node.report(3, branch(nodes=5), plan_of(2))
    assert [accounts for _, _, accounts in node.plain.asked] == [(0.0, 0.0), [1.0, 1.0], (0.0, 0.0)]


# -- which shares are wanted ----------------------------------------------------------------------------------


def test_a_leader_divides_by_the_row_of_its_own_leader() -> None:
    node = Node(below={3: 5})
    assert node.row(1, (70.0, 30.0)) == [Obey(PLAN, (70.0, 30.0))]
    node.at(1.0)
    node.report(3, branch(nodes=5))
    assert node.plain.asked[0][1] == (70.0, 30.0)
    assert node.overview.wanted_from == LEADER
    assert node.row(1, (80.0, 20.0)) == [], "it counts from the next round on"


def test_nodes_that_have_just_come_get_what_the_document_says_until_the_leader_counts_them() -> None:
    """An orphan with a row for itself alone gave it to all that joined it."""
    node = Node(below={})
    node.at(1.0)
    node.give(Measured(PLAN, branch()))
    assert node.row(1, (20.0, 80.0)) == [Obey(PLAN, (20.0, 80.0))]
    node.tree.below = {3: 3}
    node.open(3, Role.SUBORDINATE)
    node.report(3, branch(nodes=3))
    node.at(2.0)
    node.give(Measured(PLAN, branch()))
    assert node.plain.asked[-1][1] == [50.0, 50.0], "a quarter of the nodes has the row"
    node.row(1, (56.0, 44.0))
    node.at(3.0)
    node.give(Measured(PLAN, branch()))
    node.report(3, branch(nodes=3))
    assert node.plain.asked[-1][1] == (56.0, 44.0), "it was counted"


def test_without_a_leader_the_last_row_counts_for_a_while() -> None:
    node = Node(below={})
    node.row(1, (70.0, 30.0))
    node.tree.leader = None
    node.give(Closed(1))
    seen = {}
    for now in (0.5, 5.0, 29.5, 31.0):
        node.at(now)
        seen[now] = (node.overview.wanted, node.overview.wanted_from)
    assert seen == {
        0.5: ((70.0, 30.0), LEADER),
        5.0: ((70.0, 30.0), KEPT),
        29.5: ((70.0, 30.0), KEPT),
        31.0: ((60.0, 40.0), NO_ROW),
    }
    assert node.give(Measured(PLAN, branch())) == [Obey(PLAN, (60.0, 40.0))]


def test_a_root_divides_by_the_document() -> None:
    node = Node(below={3: 5})
    node.row(1, (70.0, 30.0))
    node.tree.leader, node.tree.is_root = None, True
    node.report(3, branch(nodes=5))
    node.at(1.0)
    assert node.plain.asked[0][1] == (60.0, 40.0)
    assert node.overview.wanted_from == DOCUMENT


def test_a_new_leader_gets_the_last_report_at_once() -> None:
    plan = plan_of(round_ms=60_000)
    node = Node(below={}, plan=plan)
    node.at(60.0)
    node.give(Measured(plan, branch()))
    node.tree.leader = 9
    assert [peer for peer, _ in node.open(9, Role.LEADER)] == [9]
    assert node.open(9, Role.LEADER) == [], "its round trip is measured anew"


def test_a_new_leader_does_not_get_an_old_report() -> None:
    node = Node(below={})
    node.at(1.0)
    node.give(Measured(PLAN, branch()))
    node.at(4.5)
    node.tree.leader = 9
    assert node.open(9, Role.LEADER) == []


def test_a_new_leader_has_to_answer_anew() -> None:
    node = Node(below={})
    node.row(1, (60.0, 40.0))
    node.open(9, Role.LEADER)
    node.tree.leader = 9
    sent = []
    for step in range(1, 31):
        node.at(step)
        sent += node.give(Measured(PLAN, branch()))
    assert {peer for peer, _ in sent} == {9}
    assert len(sent) == 10


def test_a_leader_that_gives_no_rows_is_told_less_often() -> None:
    node = Node(below={})
    sent = []
    for step in range(1, 61):
        node.at(step)
        sent.append(len(node.give(Measured(PLAN, branch()))))
    assert sum(sent[:8]) == 8
    assert sum(sent[10:]) == 5
    node.row(1, (60.0, 40.0))
    for step in range(61, 121):
        node.at(step)
        assert len(node.give(Measured(PLAN, branch()))) == 1, "it knows shares, however long it is silent"


# -- what counts ----------------------------------------------------------------------------------------------


def test_a_branch_that_does_not_report_counts_for_a_while_and_is_then_named() -> None:
    node = Node()
    node.report(4, branch(nodes=5))
    told = {}
    for now in (1.0, 2.0, 2.9, 3.1, 4.1, 5.1):
        node.at(now)
        node.report(3, branch(nodes=5))
        told[now] = (node.overview.told, [(each.position, each.cause) for each in node.overview.left_out])
    own = (2, "no report")
    assert told == {now: (10, [own]) for now in (1.0, 2.0, 2.9)} | {
        now: (5, [own, (4, "stale")]) for now in (3.1, 4.1, 5.1)
    }
    assert [sum(branch.nodes for branch in each) for each, _, _ in node.plain.asked] == [10, 10, 5, 5, 5]


def test_a_branch_whose_link_has_ended_counts_no_more() -> None:
    node = Node()
    for each in (3, 4):
        node.report(each, branch(nodes=5))
    node.give(Closed(4))
    assert node.overview.told == 5
    node.open(4, Role.SUBORDINATE, link="again")
    assert [each.cause for each in node.overview.left_out if each.position == 4] == ["no report"]


def test_a_branch_that_the_roster_does_not_list_has_no_part() -> None:
    node = Node()
    for each in (3, 4):
        node.report(each, branch(nodes=5))
    del node.tree.below[4]
    node.at(2.0)
    assert (node.overview.told, node.overview.asked) == (5, 6)
    assert [len(each) for each, _, _ in node.plain.asked] == [1]


def test_an_older_subordinate_is_named() -> None:
    node = Node(below={3: 5})
    node.tree.below[9] = 4
    node.open(9, Role.SUBORDINATE, knows_orders=False)
    assert [(each.position, each.nodes, each.cause) for each in node.overview.left_out] == [
        (2, 1, "no report"),
        (3, 5, "no report"),
        (9, 4, OLDER),
    ]


def test_no_branch_counts_for_more_nodes_than_the_roster_lists() -> None:
    node = Node()
    for each, nodes in ((3, 5), (4, bounds.NODES_MAX)):
        node.report(each, branch(nodes=nodes))
    node.at(2.0)
    assert [each.nodes for each in node.plain.asked[0][0]] == [5, 5]
    assert [(each.report.nodes, each.said_nodes) for each in node.overview.branches] == [
        (5, 5),
        (5, bounds.NODES_MAX),
    ]
    assert node.shares.dropped["shares more nodes than listed"] == 1


def test_what_makes_no_sense_is_dropped_and_named_and_the_last_report_counts() -> None:
    node = Node()
    node.report(4, branch(nodes=5))
    node.report(4, branch(nodes=0))
    assert node.overview.told == 5
    node.at(4.0)
    (said,) = (each for each in node.overview.left_out if each.position == 4)
    assert said == (4, 5, "nonsense", "makes no sense")
    assert node.overview.dropped == {"shares nonsense": 1}
    node.report(4, branch(nodes=5))
    assert node.overview.told == 5
    assert not node.shares.sizes["shares faults"]


@pytest.mark.parametrize("usage", [(nan, 0.0), (inf, 0.0), (90.0, 90.0)])
def test_own_figures_that_make_no_sense_are_dropped_too(usage: Row) -> None:
    node = Node(below={})
    assert node.give(Measured(PLAN, Branch((60.0, 40.0), usage, (True, True), 1))) == []
    assert node.overview.dropped == {"shares nonsense": 1}


def test_a_node_that_measures_no_more_has_no_part() -> None:
    node = Node(below={})
    node.give(Measured(PLAN, branch()))
    assert node.overview.told == 1
    node.give(Measured(PLAN, None))
    assert node.overview.told == 0
    assert node.at(9.0) == [Measure(PLAN)] * 9


def test_a_decision_that_fails_leaves_the_rows_as_they_were() -> None:
    node = Node(below={3: 5})
    node.at(1.0)
    node.report(3, branch(nodes=5))
    node.plain.error = "no solution"
    node.at(2.0)
    assert [peer for peer, _ in node.report(3, branch(nodes=5))] == [1]
    assert (node.overview.undecided, node.overview.decided_age_s) == ("no solution", 1.0)
    assert node.overview.branches[0].row == (60.0, 40.0)
    node.plain.error = ""
    node.at(3.0)
    node.report(3, branch(nodes=5))
    assert node.overview.undecided == ""


# -- who may say what -----------------------------------------------------------------------------------------


def test_reports_come_from_subordinates_and_rows_from_the_leader() -> None:
    node = Node()
    assert node.report(1, branch()) == node.row(3, (50.0, 50.0)) == []
    node.open(8, Role.LEADER)
    assert node.row(8, (50.0, 50.0)) == []
    assert node.shares.dropped == {"shares report of no subordinate": 1, "shares row of no leader": 2}
    assert node.overview.wanted_from == NO_ROW


def test_what_is_of_another_plan_is_dropped() -> None:
    node = Node()
    for other in (plan_of(2), plan_of(1, web=50_000)):
        node.report(3, branch(), other)
        node.row(1, (50.0, 50.0), other)
    assert node.shares.dropped == {"shares another plan": 4}
    node.row(1, (20.0, 30.0, 50.0))
    assert node.shares.dropped["shares row of other classes"] == 1


def test_another_plan_begins_anew() -> None:
    node = Node()
    node.report(3, branch(nodes=5))
    node.row(1, (70.0, 30.0))
    other = plan_of(2, classes=10)
    assert node.give(Planned(other)) == [Obey(other, (10.0,) * 10)]
    assert (node.overview.told, node.overview.wanted_from, node.overview.round) == (0, NO_ROW, 0)
    assert node.give(Planned(other)) == []
    assert node.give(Measured(PLAN, branch())) == []
    assert node.overview.dropped == {"shares another plan": 1}


def test_a_plan_with_the_same_shares_is_obeyed_too() -> None:
    """Its classes may have other names."""
    assert Node().give(Planned(plan_of(2))) == [Obey(plan_of(2), (60.0, 40.0))]


def test_off_puts_everything_back_and_holds_nothing() -> None:
    node = Node()
    node.report(3, branch(nodes=5))
    node.row(1, (70.0, 30.0))
    off = read(order_of(2, 1, 300, ()))
    assert node.give(Planned(off)) == [Obey(None)]
    assert not any(node.shares.sizes.values())
    assert node.at(100.0) == []
    assert node.engine.deadline == inf
    overview = node.overview
    assert overview.plan == off
    assert (overview.obeyed, overview.branches, overview.wanted) == ((), (), ())
    assert node.give(Planned(plan_of(3))) == [Obey(plan_of(3), (60.0, 40.0))]


def test_reports_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BRANCHES_MAX", 1)
    node = Node()
    node.report(3, branch(nodes=5))
    node.report(4, branch(nodes=5))
    node.report(3, branch(nodes=5))
    assert node.shares.sizes["shares branches"] == 1
    assert node.shares.dropped == {"shares branches full": 1}


def test_faults_have_a_bound() -> None:
    """They are kept for links alone, and end with them."""
    node = Node()
    node.report(3, branch(nodes=0))
    assert node.shares.sizes["shares faults"] == 1
    node.give(Closed(3))
    assert node.shares.sizes["shares faults"] == 0


# -- the wire -------------------------------------------------------------------------------------------------


def body_of(frame: msgspec.Struct) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(frame))


@pytest.mark.parametrize("classes", [2, 3, 126])
def test_a_report_has_the_size_of_the_paper(classes: int) -> None:
    plan = PLAN._replace(classes=("x",) * classes)
    said = Branch((1.0,) * classes, (0.5,) * classes, (True,) + (False,) * (classes - 1), 12)
    frame = report_frame(plan, 5, said)
    assert len(frame.content) == 9 + 8 * classes <= 1024
    assert bodies.decode(body_of(frame)) == Told(1, plan.mark, 5, said)


def test_a_report_keeps_what_the_wire_can_say() -> None:
    """Periods are measured with a clock, so a usage may be a little below 0."""
    said = Branch((60.0, 40.0), (-0.4, 1e9), (True, False), 1e12)
    found = bodies.decode(body_of(report_frame(PLAN, 1, said)))
    assert isinstance(found, Told)
    assert found.branch.usage == (0.0, 131.071)
    assert (found.branch.needy, found.branch.nodes) == ((True, False), bounds.NODES_MAX)


@pytest.mark.parametrize(
    ("part", "found"),
    [
        (0, 0),
        (1, 1),
        (True, 1),
        (1 / 3, 5461 / 16383),
        (0.5, 8192 / 16383),
        (1e-9, 1 / 16383),
        (0.99999, 1),
        (7.0, 1),
    ],
)
def test_a_report_has_the_needy_part_of_the_nodes(part: float, found: float) -> None:
    """One needy node of many is not lost, and all are all."""
    told = bodies.decode(body_of(report_frame(PLAN, 1, Branch((60.0, 40.0), (100.0, 0.0), (part, part), 3))))
    assert isinstance(told, Told)
    assert (told.branch.needy, told.branch.usage) == ((found, found), (100.0, 0.0))


@pytest.mark.parametrize("usage", [1 << 31, 1 << 31 | 60_000, 1 << 17, 16383 << 17 | 60_000])
def test_a_backlog_has_the_top_bit_and_a_part(usage: int) -> None:
    body = (64, 1, b"\0" * 9 + (60_000).to_bytes(4, "big") + usage.to_bytes(4, "big"))
    with pytest.raises(Unreadable, match="a backlog on no node, or no backlog on some"):
        bodies.decode(msgspec.Raw(msgspec.msgpack.encode(body)))


def test_a_row_keeps_its_sum_on_the_wire() -> None:
    row = [100 / 3] * 3
    assert thousandths(row) == [33334, 33333, 33333]
    found = bodies.decode(body_of(row_frame(PLAN, 1, row)))
    assert isinstance(found, Given)
    assert sum(found.row) == 100
    for classes in range(2, 127):
        uneven = [each + 0.123456789 for each in range(classes)]
        assert sum(thousandths([100 * each / sum(uneven) for each in uneven])) == bounds.THOUSANDTHS


@pytest.mark.parametrize(
    "body",
    [
        (64, 1, b"\0" * 8),
        (64, 1, b"\0" * 9),
        (64, 1, b"\0" * 20),
        (64, 1, b"\0" * (9 + 8 * 127)),
        (64, 0, b"\0" * 17),
        (64, 1, "x" * 17),
        (65, 1, b"\0" * 13),
        (65, 1, b"\0" * 5 + b"\xff" * 8),
        (65, 1, b"\0" * 5 + (100_000).to_bytes(4, "big") + b"\0" * 4),
        (66, 1, b"\0" * 13),
        (64,),
    ],
)
def test_a_body_out_of_bounds_is_not_read(body: Any) -> None:
    raw = msgspec.msgpack.encode(body)
    with pytest.raises(Unreadable):
        bodies.decode(msgspec.Raw(raw))
    node = Node()
    node.engine.handle(Arrived(3, msgspec.msgpack.encode((1, 0, body))), 0.0)
    assert node.engine.dropped["unreadable"] == 1


def test_any_bytes_are_read_or_refused() -> None:
    chance = Random(1)
    good = [msgspec.msgpack.encode(each) for each in (report_frame(PLAN, 1, branch()), row_frame(PLAN, 1, (60, 40)))]
    read_ones = 0
    for _ in range(3_000):
        data = bytearray(chance.choice(good))
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            found = bodies.decode(msgspec.Raw(bytes(data)))
        except Unreadable:
            continue
        read_ones += 1
        assert isinstance(found, Told) or sum(found.row) == pytest.approx(100)
    assert 500 < read_ones < 2_500


def test_a_release_without_shares_counts_the_bodies_and_owes_no_credit() -> None:
    """No lane has a credit for them at either end, so nothing can run out."""
    data = encode(1, 0, report_frame(PLAN, 1, branch()))
    assert lane_of(data) is Lane.CONTROL
    assert not any(number in numbers for numbers in PART_BODIES.values() for number in bodies.NUMBERS)
    tree = Tree(2, 1, {3: 5})
    older = Engine(tree, {}, parts=[])  # type: ignore[arg-type]
    older.handle(Opened(3, 3, Role.SUBORDINATE, 1), 0.0)
    assert older.handle(Arrived(3, data), 0.0) == []
    assert older.dropped == {"unreadable": 1}
