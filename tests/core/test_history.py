"""The history of a subtree, as sequences of rosters with given times."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from subord.core.members import history as module
from subord.core.members.history import FRESH_S, HISTORY_MAX, LOST_ABOVE_MAX, REMEMBER_S, SETTLE_S, History
from subord.core.view import Liveness, Place, RosterRow, RosterView

WALL = 1_000_000.0
TREE = {1: None, 2: 1, 3: 1, 4: 2, 5: 2}
"""The leader of each node."""


def look(
    history: History,
    now: float,
    leaders: Mapping[int, int | None],
    *,
    missing: Mapping[int, int] | None = None,
    guests: tuple[int, ...] = (),
    path: tuple[int, ...] = (),
    lives: Mapping[int, int] | None = None,
    since_s: float = 0.0,
    searching: bool = False,
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
                liveness=Liveness.MISSING if position in (missing or {}) else Liveness.LIVE,
            )
        )
    before = history.number
    owner = min(leaders)
    view = RosterView(
        owner=owner,
        is_root=not path and not searching,
        root=path[0] if path else owner,
        leader=path[-1] if path else None,
        quiet_s=0.0,
        rows=tuple(rows),
    )
    history.look(view, path, now, WALL + now)
    return [(each.kind, each.position, each.leader, each.old) for each in history.changes if each.number > before]


def started() -> History:
    history = History()
    look(history, 0.0, TREE)
    return history


def without(*positions: int) -> dict[int, int | None]:
    return {position: leader for position, leader in TREE.items() if position not in positions}


def missed(history: History, now: float) -> list[int]:
    return [each.position for each in history.missed(now)]


def test_every_node_joins_once() -> None:
    history = History()
    assert look(history, 0.0, TREE) == [("joined", position, leader, None) for position, leader in TREE.items()]
    assert look(history, 1.0, TREE) == []


def test_an_older_node_is_found() -> None:
    history = History()
    assert look(history, 0.0, {1: None, 2: 1}, since_s=FRESH_S + 1) == [
        ("found", 1, None, None),
        ("found", 2, 1, None),
    ]
    assert [each.wall for each in history.changes] == [WALL, WALL]


def test_a_goodbye_is_reported_after_a_delay_and_not_remembered() -> None:
    history = started()
    assert look(history, 1.0, without(5)) == []
    assert history.is_waiting
    assert look(history, 1.0 + SETTLE_S, without(5)) == [("left", 5, None, 2)]
    assert not history.is_waiting
    assert missed(history, 9.0) == []
    assert history.changes[-1].wall == WALL + 1.0, "it is told of when it went"


def test_a_vanished_node_is_missing_at_once_and_remembered() -> None:
    history = started()
    assert look(history, 1.0, without(5), missing={5: 2}) == [("missing", 5, 2, 2)]
    assert look(history, 70.0, without(5)) == []
    assert missed(history, 70.0) == [5]
    assert missed(history, 1.0 + REMEMBER_S) == []


def test_a_missing_node_returns() -> None:
    history = started()
    look(history, 1.0, without(5), missing={5: 2})
    assert look(history, 2.0, TREE) == [("returned", 5, 2, 2)]
    assert missed(history, 2.0) == []


def test_a_branch_that_loses_its_leader_only_moves() -> None:
    history = started()
    assert look(history, 1.0, without(2, 4, 5), missing={2: 1}) == [("missing", 2, 1, 1)]
    moved = {**without(2), 4: 3, 5: 3}
    expected = [("moved", 4, 3, 2), ("moved", 5, 3, 2)]
    assert look(history, 2.0, moved, missing={2: 1}, guests=(4, 5)) == expected


def test_a_branch_that_dies_with_its_leader_is_missing_as_a_whole() -> None:
    history = started()
    look(history, 1.0, without(2, 4, 5), missing={2: 1})
    told = look(history, 1.0 + SETTLE_S, without(2, 4, 5), missing={2: 1})
    assert told == [("missing", 4, None, 2), ("missing", 5, None, 2)]
    assert missed(history, 9.0) == [2, 4, 5]


def test_a_leader_may_be_reported_missing_after_its_branch_is_gone() -> None:
    history = started()
    look(history, 1.0, without(4, 5))
    look(history, 2.0, without(2, 4, 5), missing={2: 1})
    told = look(history, 1.0 + SETTLE_S, without(2, 4, 5), missing={2: 1})
    assert told == [("missing", 4, None, 2), ("missing", 5, None, 2)]


def test_a_leader_lost_long_ago_is_not_reported_by_a_new_root() -> None:
    history = History()
    history.lost_above(2, 0.0)
    look(history, 1.0, {5: 3}, path=(1, 3))
    look(history, 2.0 + SETTLE_S, {5: 3}, path=(1, 3))
    look(history, 60.0, {5: None})
    assert missed(history, 60.0) == []


def test_a_loss_above_is_not_forgotten_during_a_long_search() -> None:
    """The search may take longer than SETTLE_S; then the node becomes root, and no other node reports the loss."""
    history = History()
    look(history, 0.0, {2: 1}, path=(1,))
    history.lost_above(1, 1.0)
    look(history, 2 * SETTLE_S, {2: None}, path=(), searching=True)
    history.parted_above(1, 3 * SETTLE_S)
    look(history, 3 * SETTLE_S, {2: None})
    (found,) = history.missed(3 * SETTLE_S)
    assert (found.position, found.at) == (1, 1.0)
    assert history.former_roots == {}


def test_a_root_that_said_goodbye_is_not_missing() -> None:
    history = History()
    look(history, 0.0, {2: 1}, path=(1,))
    history.parted_above(1, 1.0)
    look(history, 2.0, {2: None})
    assert (missed(history, 2.0), history.former_roots) == ([], {})
    look(history, 1.0 + SETTLE_S, {2: None})
    assert history.former_roots == {1: 1.0}
    look(history, 9.0, {2: 1}, path=(1,))
    assert history.former_roots == {}


def test_a_root_that_said_goodbye_has_left_and_one_that_is_back_has_not() -> None:
    history = History()
    look(history, 0.0, {2: 1}, path=(1,))
    history.parted_above(1, 1.0)
    assert look(history, 1.0, {2: None}) == [("root", 2, None, 1)]
    assert history.is_waiting
    assert look(history, 1.0 + SETTLE_S, {2: None}) == [("left", 1, None, None)]
    assert history.changes[-1].wall == WALL + 1.0
    assert not history.is_waiting
    look(history, 10.0, {2: 1}, path=(1,))
    history.parted_above(1, 11.0)
    look(history, 11.0, {2: None})
    assert look(history, 12.0, {2: 1}, path=(1,)) == [("moved", 2, 1, None)]
    assert not history.is_waiting
    assert look(history, 12.0 + SETTLE_S, {2: 1}, path=(1,)) == []


def test_a_root_that_came_back_may_leave_or_die_again() -> None:
    history = History()
    look(history, 0.0, {2: 1}, path=(1,))
    for died_at in (1.0, 20.0):
        history.lost_above(1, died_at)
        told = look(history, died_at + 1, {2: None})
        assert told[-1] == ("missing", 1, None, None)
        (found,) = history.missed(died_at + 1)
        assert found.at == died_at
        look(history, died_at + 9, {2: 1}, path=(1,))
        assert missed(history, died_at + 9) == []
    history.parted_above(1, 40.0)
    look(history, 41.0, {2: None})
    look(history, 40.0 + SETTLE_S, {2: None})
    assert (missed(history, 46.0), history.former_roots) == ([], {1: 40.0})


def test_a_whole_branch_that_says_goodbye_has_left() -> None:
    history = started()
    assert look(history, 1.0, without(2, 4, 5)) == []
    told = look(history, 1.0 + SETTLE_S, without(2, 4, 5))
    assert told == [("left", 2, None, 1), ("left", 4, None, 2), ("left", 5, None, 2)]


def test_a_change_from_guest_to_home_under_one_leader_is_a_move() -> None:
    history = History()
    look(history, 0.0, TREE, guests=(5,))
    assert look(history, 1.0, TREE) == [("moved", 5, 2, 2)]


def test_an_unnoticed_restart_is_reported() -> None:
    history = started()
    assert look(history, 1.0, TREE, lives={5: 2}) == [("restarted", 5, 2, 2)]


def test_the_new_root_remembers_the_old_one() -> None:
    history = History()
    below = {2: 1, 4: 2, 5: 2}
    look(history, 0.0, below, path=(1,))
    history.lost_above(1, 1.0)
    below[2] = None
    assert look(history, 1.5, below) == [("root", 2, None, 1), ("missing", 1, None, None)]
    assert missed(history, 2.0) == [1]
    assert history.changes[-1].wall == WALL + 1.0


@pytest.mark.parametrize(("path", "rows"), [((1,), {3: 1, 5: 3}), ((), {1: None, 3: 1})], ids=["above", "below"])
def test_a_lost_leader_that_returns_is_not_missing(path: tuple[int, ...], rows: dict[int, int | None]) -> None:
    history = History()
    history.lost_above(1, 0.0)
    look(history, 1.0, rows, path=path)
    look(history, 2.0, {3: None, 5: 3})
    assert missed(history, 2.0) == []


def test_only_a_root_reports_lost_nodes_above() -> None:
    history = History()
    look(history, 0.0, {5: 2}, path=(1, 2))
    history.lost_above(2, 1.0)
    assert look(history, 1.5, {5: 3}, path=(1, 3)) == [("moved", 5, 3, 2)]
    assert missed(history, 2.0) == []


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MISSED_MAX", 3)
    history = History()
    nodes = {position: 1 if position > 1 else None for position in range(1, HISTORY_MAX + 10)}
    look(history, 0.0, nodes)
    assert len(history.changes) == HISTORY_MAX
    look(history, 1.0, {1: None}, missing=dict.fromkeys(range(2, 8), 1))
    assert len(missed(history, 1.0)) == 3
    assert history.forgotten == 3
    for position in range(LOST_ABOVE_MAX + 5):
        history.lost_above(position, 1.0)
    look(history, 2.0, {99_999: None})
    assert len(missed(history, 2.0)) == 3


def test_a_cycle_of_remembered_leaders_ends() -> None:
    history = History()
    look(history, 0.0, {1: None, 2: 3, 3: 2})
    look(history, 1.0, {1: None})
    assert look(history, 1.0 + SETTLE_S, {1: None}) == [("left", 2, None, 3), ("left", 3, None, 2)]
