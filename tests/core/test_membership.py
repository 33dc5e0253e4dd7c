"""What one node knows of the members, as notices and rosters with given times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from subord.core import snapshots
from subord.core.carriage.documents import Documents
from subord.core.events import LeaderLost, PlaceChanged, SubordinateLeft
from subord.core.members.history import SETTLE_S
from subord.core.members.membership import REGISTER, Membership
from subord.core.members.register import Record, Register, Run, State
from subord.core.members.writer import GRACE_S, UP_DELAY_S
from subord.core.members.youth import YOUNG_S, YOUNG_S_MAX
from subord.core.node import Node
from subord.core.settings import LAN, WAN, Timing
from subord.core.state.states import Phase
from subord.core.view import Liveness, Place, RosterRow, RosterView

WALL = 1_800_000_000.0
UP = Record(int(WALL * 1000) - 1, State.UP)


def view(*live: int, is_root: bool = True) -> RosterView:
    rows = tuple(
        RosterRow(position=p, leader=None, place=Place.HOME, incarnation=1, since_s=60.0, liveness=Liveness.LIVE)
        for p in live
    )
    leader = None if is_root else 1
    return RosterView(owner=2, is_root=is_root, root=live[0], leader=leader, quiet_s=0.0, rows=rows)


class Clocked:
    """A membership of node 2; `up` are up in its register."""

    def __init__(self, *up: int) -> None:
        self.membership = Membership(Register(100, [Run(p, p, UP) for p in up]), Documents())
        self.now = 0.0

    def look(self, after_s: float, *live: int, path: tuple[int, ...] = ()) -> None:
        self.now += after_s
        self.membership.look(view(*live, is_root=not path), path, self.now, WALL + self.now)

    def observe(self, notice: LeaderLost | PlaceChanged | SubordinateLeft) -> None:
        self.membership.observe(notice, self.now, WALL + self.now)

    def became_root(self, old: int) -> None:
        self.observe(PlaceChanged(Place.ROOT, None, old, 1, ""))

    def states(self) -> dict[int, State]:
        return {p: record.state for p in range(1, 9) if (record := self.membership.register.at(p))}


def test_the_death_of_the_root_above_is_written_by_the_next_root() -> None:
    node = Clocked(1, 2)
    node.look(1.0, 2, path=(1,))
    node.observe(LeaderLost(1, "closed", 1.0))
    node.became_root(1)
    node.look(1.0, 2)
    assert node.states() == {1: State.DOWN, 2: State.UP}


def test_a_root_above_that_said_goodbye_has_left() -> None:
    node = Clocked(1, 2)
    node.look(1.0, 2, path=(1,))
    node.became_root(1)
    node.look(1.0, 2)
    assert node.states()[1] is State.UP  # it may be back at once
    node.look(SETTLE_S, 2)
    assert node.states()[1] is State.LEFT


def test_a_goodbye_of_long_ago_does_not_hide_a_death() -> None:
    """Node 1 left as root, came back in another branch, where this node did not see it, and died there."""
    node = Clocked(1, 2)
    node.look(1.0, 2, path=(1,))
    node.became_root(1)
    node.look(1.0, 2)
    node.look(SETTLE_S, 2)
    back = Record(int((WALL + node.now + 1) * 1000), State.UP)
    node.look(1.0, 2, path=(3,))
    node.membership.exchange.spread("members", [Run(1, 1, back)])
    node.observe(LeaderLost(3, "closed", 1.0))
    node.became_root(3)
    node.look(60.0, 2)
    node.look(GRACE_S, 2)
    assert node.states()[1] is State.DOWN


def test_the_leader_of_a_node_that_leaves_writes_it() -> None:
    node = Clocked(1, 2, 5)
    node.observe(SubordinateLeft(5))
    assert node.states()[5] is State.LEFT
    assert node.membership.exchange.changed


def test_a_goodbye_is_written_before_the_node_is_known() -> None:
    """The root writes new nodes after some seconds, and streams open later than that."""
    node = Clocked(1, 2)
    node.observe(SubordinateLeft(5))
    assert node.states()[5] is State.LEFT


def test_a_node_that_becomes_root_writes_though_its_roster_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked while it had no place; the register has it as one that left."""
    phase, membership = Phase.SEEKING, Membership(Register(9, [Run(2, 2, Record(1, State.LEFT))]), Documents())
    monkeypatch.setattr(snapshots, "roster", lambda *_: view(2, 5, is_root=phase is Phase.ROOT))
    written_at = None
    for now in range(20):
        phase = Phase.SEEKING if now == 0 else Phase.ROOT
        node = SimpleNamespace(roster=SimpleNamespace(revision=13), phase=phase, uplink=SimpleNamespace(path=()))
        membership.look_at(cast(Node, node), float(now), WALL + now)
        if written_at is None and membership.register.positions(State.UP) == [2, 5]:
            written_at = now
    assert written_at == 1 + UP_DELAY_S
    assert not membership.look_at(cast(Node, node), 20.0, WALL + 20)  # nothing is left to do


YOUNG, OLD, BOUND = YOUNG_S - 0.1, YOUNG_S, YOUNG_S_MAX


@pytest.mark.parametrize(
    ("age_s", "up", "live", "subordinates", "compared", "size", "is_settled"),
    [
        (YOUNG, (1, 2), (1, 2), (2,), True, 9, False),
        (OLD, (1, 2), (1, 2), (2,), True, 9, True),
        (OLD, (1, 2, 3), (1, 2), (2,), True, 9, True),  # 3 is named as missing
        (OLD, (1, 2), (1, 2), (2,), False, 9, False),  # neighbours may remember others
        (BOUND, (1, 2), (1, 2), (2,), False, 9, True),  # an older release never compares
        (OLD, (1, 3), (1, 2), (2,), True, 9, False),  # 2 is new, so others may be on their way
        (BOUND, (1, 3), (1, 2), (2,), True, 9, True),
        (OLD, (1, 3), (1,), (), False, 9, True),  # alone
        (OLD, (3,), (1,), (), False, 9, False),
        (0.1, (), (1,), (), False, 1, True),  # there is no room for others
        (0.1, (), (1, 2), (2,), False, 2, True),
    ],
)
def test_when_a_root_knows_all_members(
    *,
    age_s: float,
    up: tuple[int, ...],
    live: tuple[int, ...],
    subordinates: tuple[int, ...],
    compared: bool,
    size: int,
    is_settled: bool,
) -> None:
    membership = Membership(Register(size, [Run(p, p, UP) for p in up]), Documents())
    if compared:
        membership.exchange.compared.add(REGISTER)
    assert membership.is_settled(root_of(live, subordinates), age_s) is is_settled


FIRST = [  # the first start of a cluster: nodes may wait host_patience_s for the daemon of their home, and then join
    (LAN, (), 14.9, False),
    (LAN, (), 15.0, True),
    (LAN, (1,), 14.9, False),  # it has only been alone before
    (LAN, (1, 2), 14.9, True),  # a restart
    (WAN, (), 42.4, False),
    (WAN, (), 42.5, True),
]


@pytest.mark.parametrize(("timing", "known", "now", "is_settled"), FIRST)
def test_the_first_root_waits_for_nodes_that_wait_for_their_home(
    *, timing: Timing, known: tuple[int, ...], now: float, is_settled: bool
) -> None:
    """`known`: up in its register when its process started. 1 and 2 have come long before `now`."""
    membership = Membership(Register(9, [Run(p, p, UP) for p in known]), Documents(), owner=1)
    membership.register.merge([Run(1, 2, Record(UP.stamp_ms + 1, State.UP))])
    membership.exchange.compared.add(REGISTER)
    root = root_of((1, 2), (2,), placed_at=timing.patience_s, timing=timing)
    assert membership.is_settled(root, now) is is_settled


def test_the_first_start_of_a_process_is_long_ago_at_a_takeover() -> None:
    membership = Membership(Register(9), Documents(), owner=1)
    membership.register.merge([Run(1, 2, UP)])
    membership.exchange.compared.add(REGISTER)
    root = root_of((1, 2), (2,), placed_at=600.0)
    assert not membership.is_settled(root, 600.0 + YOUNG)
    assert membership.is_settled(root, 600.0 + OLD)


def test_a_root_names_an_absent_expected_node_before_it_settles() -> None:
    """Looks may be late by some seconds; between the bound and the look no answer may be whole without 4."""
    register = Register(9, [Run(p, p, UP) for p in (1, 3)])
    membership = Membership(register, Documents(), expected=[1, 4], owner=1)
    now = 2.0
    while not membership.is_settled(root_of((1, 3), ()), now):
        membership.look(view(1, 3), (), now, WALL + now)
        now += 2.5
    record = register.at(4)
    assert record is not None
    assert record.state is State.DOWN
    assert now < YOUNG_S_MAX


def root_of(
    live: tuple[int, ...], subordinates: tuple[int, ...], *, placed_at: float = 0.0, timing: Timing = LAN
) -> Node:
    """A node that has started at 0 s and has been root since `placed_at`."""
    rows = {p: (p, SimpleNamespace(change=SimpleNamespace(missing=False))) for p in live}
    slots = SimpleNamespace(taken=dict.fromkeys(subordinates))
    return cast(
        Node,
        SimpleNamespace(
            started_at=0.0,
            placed_at=placed_at,
            context=SimpleNamespace(timing=timing),
            roster=SimpleNamespace(live=len(live), rows=rows),
            downlink=SimpleNamespace(slots=slots),
        ),
    )


def test_a_root_of_a_young_cluster_waits_until_no_new_node_comes() -> None:
    """1 starts again, 2 comes after 3 s and 3 after 7 s: the register has all three after 12 s."""
    clocked = Clocked(1, 9)
    clocked.membership.exchange.compared.add(REGISTER)
    settled = []
    for second in range(16):
        live = (1, 2, 3) if second >= 7 else (1, 2) if second >= 3 else (1,)
        clocked.look(1.0 if second else 0.0, *live)
        settled.append(clocked.membership.is_settled(root_of(live, (2,)), clocked.now))
    assert settled.index(True) == 12
    assert all(settled[12:])


def test_a_root_waits_for_nodes_that_the_operator_expects() -> None:
    """For GRACE_S; then they are down, and named."""
    membership = Membership(Register(9, [Run(p, p, UP) for p in (1, 3)]), Documents(), expected=[1, 4])
    assert not membership.is_settled(root_of((1,), ()), OLD)
    membership.register.merge([Run(4, 4, Record(1, State.DOWN))])
    assert membership.is_settled(root_of((1,), ()), OLD)


def test_a_branch_that_vanished_with_its_leader_did_not_leave() -> None:
    """The history takes a node for one that left if its leader came back before its own death was seen."""
    node = Clocked(2, 4, 5)
    node.look(1.0, 2, 4, 5)
    node.look(1.0, 2, 4)
    node.look(SETTLE_S, 2, 4)
    assert [each.kind for each in node.membership.history.changes if each.position == 5][-1] == "left"
    assert node.states()[5] is State.UP
    node.look(GRACE_S, 2, 4)
    assert node.states()[5] is State.DOWN


def test_only_a_root_writes() -> None:
    node = Clocked(2, 4)
    for _ in range(10):
        node.look(GRACE_S, 2, 5, path=(1,))
    assert node.states() == {2: State.UP, 4: State.UP}


def test_the_next_look_is_due_when_something_may_be_written() -> None:
    node = Clocked(2)
    node.look(1.0, 2, 3)
    assert node.membership.deadline == node.now + UP_DELAY_S
    node.look(UP_DELAY_S, 2, 3)
    assert node.states() == {2: State.UP, 3: State.UP}
    node.look(1.0, 2)
    assert node.membership.deadline == node.now + SETTLE_S
