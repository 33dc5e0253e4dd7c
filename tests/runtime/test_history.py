"""The history of a subtree, as sequences of rosters with given times."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from subord.core.view import Place, RosterRow, RosterView, Standing
from subord.runtime.state import history as module
from subord.runtime.state.history import FRESH_S, HAPPENINGS_MAX, LOST_ABOVE_MAX, REMEMBER_S, SETTLE_S, History

WALL = 1_000_000.0
TREE = {1: None, 2: 1, 3: 1, 4: 2, 5: 2}
"""Who is led by whom."""


def look(
    register: History,
    now: float,
    leaders: Mapping[int, int | None],
    *,
    missing: Mapping[int, int] | None = None,
    guests: tuple[int, ...] = (),
    path: tuple[int, ...] = (),
    lives: Mapping[int, int] | None = None,
    since_s: float = 0.0,
) -> list[tuple[str, int, int | None, int | None]]:
    """One look; the changes as (kind, position, leader, former leader)."""
    rows = []
    for position, leader in {**leaders, **(missing or {})}.items():
        home = Place.GUEST if position in guests else Place.HOME
        rows.append(
            RosterRow(
                position=position,
                leader=leader,
                place=Place.ROOT if leader is None else home,
                incarnation=(lives or {}).get(position, 1),
                since_s=since_s,
                standing=Standing.MISSING if position in (missing or {}) else Standing.LIVE,
            )
        )
    before = register.number
    owner = min(leaders)
    view = RosterView(
        owner=owner,
        is_root=not path,
        root=path[0] if path else owner,
        leader=path[-1] if path else None,
        quiet_s=0.0,
        rows=tuple(rows),
    )
    register.look(view, path, now, WALL + now)
    return [(each.kind, each.position, each.leader, each.old) for each in register.happenings if each.number > before]


def started() -> History:
    register = History()
    look(register, 0.0, TREE)
    return register


def without(*positions: int) -> dict[int, int | None]:
    return {position: leader for position, leader in TREE.items() if position not in positions}


def missed(register: History, now: float) -> list[int]:
    return [each.position for each in register.missed(now)]


def test_every_node_joins_once() -> None:
    register = History()
    assert look(register, 0.0, TREE) == [("joined", position, leader, None) for position, leader in TREE.items()]
    assert look(register, 1.0, TREE) == []


def test_an_older_node_is_found() -> None:
    register = History()
    assert look(register, 0.0, {1: None, 2: 1}, since_s=FRESH_S + 1) == [
        ("found", 1, None, None),
        ("found", 2, 1, None),
    ]
    assert [each.wall for each in register.happenings] == [WALL, WALL]


def test_a_goodbye_is_reported_after_a_delay_and_not_remembered() -> None:
    register = started()
    assert look(register, 1.0, without(5)) == []
    assert register.is_waiting
    assert look(register, 1.0 + SETTLE_S, without(5)) == [("left", 5, None, 2)]
    assert not register.is_waiting
    assert missed(register, 9.0) == []
    assert register.happenings[-1].wall == WALL + 1.0, "it is told of when it went"


def test_a_vanished_node_is_missing_at_once_and_remembered() -> None:
    register = started()
    assert look(register, 1.0, without(5), missing={5: 2}) == [("missing", 5, 2, 2)]
    assert look(register, 70.0, without(5)) == []
    assert missed(register, 70.0) == [5]
    assert missed(register, 1.0 + REMEMBER_S) == []


def test_a_missing_node_returns() -> None:
    register = started()
    look(register, 1.0, without(5), missing={5: 2})
    assert look(register, 2.0, TREE) == [("returned", 5, 2, 2)]
    assert missed(register, 2.0) == []


def test_a_branch_that_loses_its_leader_only_moves() -> None:
    register = started()
    assert look(register, 1.0, without(2, 4, 5), missing={2: 1}) == [("missing", 2, 1, 1)]
    moved = {**without(2), 4: 3, 5: 3}
    expected = [("moved", 4, 3, 2), ("moved", 5, 3, 2)]
    assert look(register, 2.0, moved, missing={2: 1}, guests=(4, 5)) == expected


def test_a_branch_that_dies_with_its_leader_is_missing_as_a_whole() -> None:
    register = started()
    look(register, 1.0, without(2, 4, 5), missing={2: 1})
    told = look(register, 1.0 + SETTLE_S, without(2, 4, 5), missing={2: 1})
    assert told == [("missing", 4, None, 2), ("missing", 5, None, 2)]
    assert missed(register, 9.0) == [2, 4, 5]


def test_a_leader_may_be_reported_missing_after_its_branch_is_gone() -> None:
    register = started()
    look(register, 1.0, without(4, 5))
    look(register, 2.0, without(2, 4, 5), missing={2: 1})
    told = look(register, 1.0 + SETTLE_S, without(2, 4, 5), missing={2: 1})
    assert told == [("missing", 4, None, 2), ("missing", 5, None, 2)]


def test_a_leader_lost_long_ago_is_not_reported_by_a_new_root() -> None:
    register = History()
    register.lost_above(2, 0.0)
    look(register, 1.0, {5: 3}, path=(1, 3))
    look(register, 2.0 + SETTLE_S, {5: 3}, path=(1, 3))
    look(register, 60.0, {5: None})
    assert missed(register, 60.0) == []


def test_a_root_that_said_goodbye_is_not_missing() -> None:
    register = History()
    look(register, 0.0, {2: 1}, path=(1,))
    register.parted_above(1, 1.0)
    look(register, 2.0, {2: None})
    assert (missed(register, 2.0), register.parted(2.0)) == ([], [1])
    assert register.parted(2.0 + REMEMBER_S) == []
    look(register, 3.0, {2: 1}, path=(1,))
    assert register.parted(3.0) == []


def test_a_root_that_said_goodbye_has_left_and_one_that_is_back_has_not() -> None:
    register = History()
    look(register, 0.0, {2: 1}, path=(1,))
    register.parted_above(1, 1.0)
    assert look(register, 1.0, {2: None}) == [("root", 2, None, 1)]
    assert register.is_waiting
    assert look(register, 1.0 + SETTLE_S, {2: None}) == [("left", 1, None, None)]
    assert register.happenings[-1].wall == WALL + 1.0
    assert not register.is_waiting
    look(register, 10.0, {2: 1}, path=(1,))
    register.parted_above(1, 11.0)
    look(register, 11.0, {2: None})
    assert look(register, 12.0, {2: 1}, path=(1,)) == [("moved", 2, 1, None)]
    assert not register.is_waiting
    assert look(register, 12.0 + SETTLE_S, {2: 1}, path=(1,)) == []


def test_a_root_that_came_back_may_leave_or_die_again() -> None:
    register = History()
    look(register, 0.0, {2: 1}, path=(1,))
    for died_at in (1.0, 20.0):
        register.lost_above(1, died_at)
        told = look(register, died_at + 1, {2: None})
        assert told[-1] == ("missing", 1, None, None)
        (found,) = register.missed(died_at + 1)
        assert found.at == died_at
        look(register, died_at + 9, {2: 1}, path=(1,))
        assert missed(register, died_at + 9) == []
    register.parted_above(1, 40.0)
    look(register, 41.0, {2: None})
    assert (missed(register, 41.0), register.parted(41.0)) == ([], [1])


def test_a_whole_branch_that_says_goodbye_has_left() -> None:
    register = started()
    assert look(register, 1.0, without(2, 4, 5)) == []
    told = look(register, 1.0 + SETTLE_S, without(2, 4, 5))
    assert told == [("left", 2, None, 1), ("left", 4, None, 2), ("left", 5, None, 2)]


def test_a_change_from_guest_to_home_under_one_leader_is_a_move() -> None:
    register = History()
    look(register, 0.0, TREE, guests=(5,))
    assert look(register, 1.0, TREE) == [("moved", 5, 2, 2)]


def test_an_unnoticed_restart_is_reported() -> None:
    register = started()
    assert look(register, 1.0, TREE, lives={5: 2}) == [("restarted", 5, 2, 2)]


def test_the_new_root_remembers_the_old_one() -> None:
    register = History()
    below = {2: 1, 4: 2, 5: 2}
    look(register, 0.0, below, path=(1,))
    register.lost_above(1, 1.0)
    below[2] = None
    assert look(register, 1.5, below) == [("root", 2, None, 1), ("missing", 1, None, None)]
    assert missed(register, 2.0) == [1]
    assert register.happenings[-1].wall == WALL + 1.0


@pytest.mark.parametrize(("path", "rows"), [((1,), {3: 1, 5: 3}), ((), {1: None, 3: 1})], ids=["above", "below"])
def test_a_lost_leader_that_returns_is_not_missing(path: tuple[int, ...], rows: dict[int, int | None]) -> None:
    register = History()
    register.lost_above(1, 0.0)
    look(register, 1.0, rows, path=path)
    look(register, 2.0, {3: None, 5: 3})
    assert missed(register, 2.0) == []


def test_only_a_root_reports_lost_nodes_above() -> None:
    register = History()
    look(register, 0.0, {5: 2}, path=(1, 2))
    register.lost_above(2, 1.0)
    assert look(register, 1.5, {5: 3}, path=(1, 3)) == [("moved", 5, 3, 2)]
    assert missed(register, 2.0) == []


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MISSED_MAX", 3)
    register = History()
    everybody = {position: 1 if position > 1 else None for position in range(1, HAPPENINGS_MAX + 10)}
    look(register, 0.0, everybody)
    assert len(register.happenings) == HAPPENINGS_MAX
    look(register, 1.0, {1: None}, missing=dict.fromkeys(range(2, 8), 1))
    assert len(missed(register, 1.0)) == 3
    assert register.forgotten == 3
    for position in range(LOST_ABOVE_MAX + 5):
        register.lost_above(position, 1.0)
    look(register, 2.0, {99_999: None})
    assert len(missed(register, 2.0)) == 3


def test_a_cycle_of_remembered_leaders_ends() -> None:
    register = History()
    look(register, 0.0, {1: None, 2: 3, 3: 2})
    look(register, 1.0, {1: None})
    assert look(register, 1.0 + SETTLE_S, {1: None}) == [("left", 2, None, 3), ("left", 3, None, 2)]
