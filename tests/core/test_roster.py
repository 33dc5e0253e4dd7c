"""The roster: competing claims, sweeps, missing nodes, reports upwards (docs/protocol.md, section 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from subord.core.messages import CHANGES_MAX, Change
from subord.core.state import digests
from subord.core.state.roster import OWN, SETTLED_MAX, Roster
from subord.core.tables import WHOLE_MAX, SplitMap

HOME, GUEST = 1, 2


def change(position: int, leader: int, **fields: int) -> Change:
    words = {"place": HOME, "incarnation": 1000, "moves": 0, "age_s": 0, **fields}
    return Change(position, leader, **words)  # type: ignore[arg-type]


def missing(position: int, leader: int, incarnation: int = 1000) -> Change:
    return Change(position, leader, HOME, incarnation, 0, 0, missing=True)


def leaders(roster: Roster) -> dict[int, int]:
    return {p: claim.change.leader for p, (_, claim) in sorted(roster.rows.items())}


def filled() -> Roster:
    """1 leads 2 and 3; 2 leads 4 and 5, 3 leads 6."""
    roster = Roster(1)
    roster.report_everything()  # there is a leader
    roster.state(OWN, change(1, 0, place=0), 0.0)
    for via, position, leader in [(2, 2, 1), (2, 4, 2), (2, 5, 2), (3, 3, 1), (3, 6, 3)]:
        roster.state(via, change(position, leader), 0.0)
    return roster


def test_the_counts_follow_the_rows() -> None:
    roster = filled()
    assert leaders(roster) == {1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3}
    assert (roster.live, roster.not_home, roster.below(2), roster.below(3), roster.below(9)) == (6, 0, 3, 2, 0)
    roster.state(2, change(5, 4, place=GUEST, moves=1), 1.0)
    assert (roster.live, roster.not_home, dict(roster.guests)) == (6, 1, {4: 1})
    roster.retract(2, 5, 2.0)
    assert (roster.live, roster.not_home, dict(roster.guests)) == (5, 0, {})
    roster.retract(2, 5, 2.0)  # a repetition does no harm
    roster.retract(8, 5, 2.0)  # nor one without a claim
    assert roster.live == 5


STEPS: dict[str, Callable[[Roster], None]] = {
    "new": lambda roster: roster.state(3, change(4, 3, place=GUEST, moves=1), 1.0),
    "old takes back": lambda roster: roster.retract(2, 4, 1.0),
    "old says it again": lambda roster: roster.state(2, change(4, 2), 1.0),
}


@pytest.mark.parametrize("order", [("new", "old takes back"), ("old takes back", "new")])
def test_two_claimants_in_either_order(order: tuple[str, ...]) -> None:
    roster = filled()
    for step in order:
        STEPS[step](roster)
    assert roster.rows[4][0] == 3
    assert (leaders(roster)[4], roster.live) == (3, 6)


def test_an_old_claim_said_again_does_not_win_over_a_later_move() -> None:
    roster = filled()
    STEPS["new"](roster)
    STEPS["old says it again"](roster)
    assert leaders(roster)[4] == 3
    roster.retract(3, 4, 2.0)  # it still stands when the later one is retracted
    assert leaders(roster)[4] == 2


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (change(4, 2, moves=9), change(4, 3, incarnation=1001)),  # a later incarnation counts its moves anew
        (change(4, 2, moves=1), change(4, 3, moves=2)),
        (missing(4, 2), change(4, 3)),
        (change(4, 2, incarnation=1000), missing(4, 3, incarnation=1001)),
    ],
)
def test_the_better_claim_wins_in_either_order(worse: Change, better: Change) -> None:
    for via_first, first, via_last, last in [(2, worse, 3, better), (3, better, 2, worse)]:
        roster = Roster(1)
        roster.state(via_first, first, 0.0)
        roster.state(via_last, last, 0.0)
        assert roster.rows[4][1].change == better


def test_a_subordinate_that_goes_takes_its_claims_along() -> None:
    roster = filled()
    roster.drop(2, 1.0)
    assert leaders(roster) == {1: 0, 3: 1, 6: 3}
    roster.drop(2, 1.0)
    assert roster.live == 3


def test_a_new_session_sweeps_what_it_did_not_repeat() -> None:
    roster = filled()
    roster.doubt(2)
    assert roster.live == 6, "old claims stand until everything is reported"
    for position, leader in ((2, 1), (5, 2)):
        roster.state(2, change(position, leader), 1.0)
    roster.sweep(2, 1.0)
    assert leaders(roster) == {1: 0, 2: 1, 3: 1, 5: 2, 6: 3}


def test_a_sweep_spares_what_another_claims() -> None:
    roster = filled()
    roster.state(3, change(4, 3, place=GUEST, moves=1), 1.0)
    roster.doubt(2)
    roster.sweep(2, 2.0)
    assert leaders(roster) == {1: 0, 3: 1, 4: 3, 6: 3}


def test_the_missing_are_shown_and_expire() -> None:
    roster = filled()
    roster.drop(2, 10.0)
    roster.state(OWN, missing(2, 1), 10.0)
    assert (roster.live, roster.is_live(2), 2 in roster.rows) == (3, False, True)
    assert roster.expire_missing(11.0, 60.0) == 70.0
    assert roster.expire_missing(69.9, 60.0) == 70.0
    assert 2 in roster.rows
    assert roster.expire_missing(70.0, 60.0) is None
    assert 2 not in roster.rows


def test_a_missing_node_that_returns_is_live_and_the_old_claim_goes() -> None:
    roster = filled()
    roster.drop(2, 10.0)
    roster.state(OWN, missing(2, 1), 10.0)
    roster.state(3, change(2, 3, incarnation=2000), 11.0)
    assert (roster.is_live(2), roster.live) == (True, 4)
    roster.expire_missing(12.0, 60.0)
    assert 2 not in roster.claims[OWN]
    assert roster.is_live(2)


def test_news_are_changed_rows_and_new_claims_for_them() -> None:
    roster = filled()
    roster.news.clear()
    roster.state(2, change(5, 2), 1.0)  # nothing new
    assert roster.news == []
    roster.state(2, change(5, 4, place=GUEST, moves=1), 1.0)
    assert roster.news == [5]


# -- reports upwards -----------------------------------------------------------------------------------------


def test_a_batch_holds_the_oldest_changes_and_is_bounded() -> None:
    roster = Roster(1)
    roster.report_everything()
    for position in range(2, 102):
        roster.state(2, change(position, 2), 0.0)
    seen: list[int] = []
    while roster.unreported:
        revisions, changes, gone = roster.batch(5.0)
        assert len(changes) <= CHANGES_MAX
        assert gone == ()
        assert {c.age_s for c in changes} == {5}
        seen += [c.position for c in changes]
        roster.confirm(revisions)
    assert seen == list(range(2, 102))


def test_an_unconfirmed_batch_is_said_again() -> None:
    roster = filled()
    assert roster.batch(1.0) == roster.batch(1.0)


def test_what_changed_again_meanwhile_stays_to_be_reported() -> None:
    roster = filled()
    revisions, _, _ = roster.batch(1.0)
    roster.state(2, change(5, 4, moves=1), 2.0)
    roster.confirm(revisions)
    later, changes, _ = roster.batch(3.0)
    assert [(c.position, c.leader) for c in changes] == [(5, 4)]
    roster.confirm(revisions)  # an old confirmation repeated
    assert roster.unreported == 1
    roster.confirm(later)
    assert roster.unreported == 0


def test_what_is_gone_is_reported_as_gone() -> None:
    roster = filled()
    roster.confirm(roster.batch(1.0)[0])
    roster.retract(3, 6, 2.0)
    _, changes, gone = roster.batch(3.0)
    assert (changes, gone) == ((), (6,))


def test_a_new_leader_gets_everything() -> None:
    roster = filled()
    roster.confirm(roster.batch(1.0)[0])
    assert roster.unreported == 0
    roster.report_everything()
    assert {c.position for c in roster.batch(2.0)[1]} == {1, 2, 3, 4, 5, 6}


BRANCH = range(2, 3 * SETTLED_MAX)


def of_a_branch() -> Roster:
    roster = Roster(1)
    roster.state(OWN, change(1, 0, place=0), 0.0)
    for position in BRANCH:
        roster.state(2, change(position, position - 1), 0.0)
    return roster


def test_a_large_branch_leaves_in_steps() -> None:
    """F6: a root of 100,000 nodes that lost half of them was busy for 135 ms."""
    roster = of_a_branch()
    roster.drop(2, 1.0)
    assert roster.live == 1 + len(BRANCH) - SETTLED_MAX
    last = BRANCH[-1]
    roster.state(3, change(last, 3, moves=1), 2.0)  # found a new leader meanwhile
    while roster.unsettled:
        before = roster.live
        roster.settle_some(3.0)
        assert before - roster.live <= SETTLED_MAX
    assert leaders(roster) == {1: 0, last: 3}
    assert (roster.live, roster.told(2), roster.living_of(2)) == (2, 0, 0)


def test_a_branch_that_returns_while_its_rows_are_settled_keeps_them() -> None:
    roster = of_a_branch()
    roster.drop(2, 1.0)
    for position in BRANCH:
        roster.state(2, change(position, position - 1), 2.0)
    while roster.unsettled:
        roster.settle_some(3.0)
    assert roster.live == 1 + len(BRANCH) == 1 + roster.told(2)


def settle_all(roster: Roster) -> None:
    while roster.unsettled:
        before = roster.live
        roster.settle_some(3.0)
        assert before - roster.live <= SETTLED_MAX


def test_branches_that_are_lost_at_once_leave_in_steps() -> None:
    roster = of_a_branch()
    for via in range(1000, 1100):
        for position in range(20 * via, 20 * via + 10):
            roster.state(via, change(position, via), 0.0)
    before = roster.live
    for via in (2, *range(1000, 1100)):
        roster.drop(via, 1.0)
    assert before - roster.live <= SETTLED_MAX
    settle_all(roster)
    assert leaders(roster) == {1: 0}


@pytest.mark.parametrize("size", [len(BRANCH), WHOLE_MAX + SETTLED_MAX])
def test_a_sweep_retracts_in_steps_what_is_not_repeated_meanwhile(size: int) -> None:
    roster, last = Roster(1), 1 + size
    for position in range(2, last + 1):
        roster.state(2, change(position, 2), 0.0)
    roster.doubt(2)
    roster.state(2, change(2, 1), 1.0)
    roster.sweep(2, 1.0)
    assert (roster.told(2), roster.digests[2]) == (1, digests.of_row(change(2, 1)))
    assert roster.live >= size - SETTLED_MAX
    roster.state(2, change(last, 2), 2.0)
    settle_all(roster)
    assert leaders(roster) == {2: 1, last: 2}
    assert (roster.below(2), roster.living_of(2), roster.told(2)) == (2, 2, 2)
    assert roster.digests[2] == roster.digest


def test_a_sweep_ends_with_the_branch_and_spares_a_later_session() -> None:
    roster = of_a_branch()
    roster.doubt(2)
    roster.sweep(2, 1.0)
    roster.drop(2, 2.0)
    roster.state(2, change(BRANCH[-1], 2), 2.0)
    settle_all(roster)
    assert leaders(roster) == {1: 0, BRANCH[-1]: 2}
    roster = of_a_branch()
    roster.doubt(2)
    roster.sweep(2, 1.0)
    roster.doubt(2)
    roster.state(2, change(BRANCH[-1], 2), 2.0)
    settle_all(roster)
    assert leaders(roster) == {1: 0, BRANCH[-1]: 2}


def test_what_is_kept_is_dropped_without_a_look_at_other_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed trial: hundreds of rows go that were never listed."""
    roster = of_a_branch()
    kept = range(1000, 2000)
    for position in kept:
        roster.keep(2, position)
        roster.state(2, change(position, 2), 0.0)
    roster.state(3, change(kept[0], 3), 0.0)
    assert list(roster.rivals) == [kept[0]]
    before, settled, settle = roster.digest, [], roster._settle

    def noted(position: int, now: float) -> None:
        settled.append(position)
        settle(position, now)

    monkeypatch.setattr(roster, "_settle", noted)
    assert roster.drop_kept(2, 1.0)
    assert settled == [kept[0]]
    assert (roster.rivals, roster.digest, roster.living_of(2)) == ({}, before, len(BRANCH))
    assert not roster.drop_kept(2, 1.0)


def test_the_nodes_below_a_subordinate_are_counted_without_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    roster = of_a_branch()
    looked_at: list[int] = []
    monkeypatch.setattr(SplitMap, "get", lambda _self, key: looked_at.append(key))
    assert roster.below(2) == len(BRANCH)
    assert looked_at == []


def test_a_new_leader_gets_a_long_list_in_parts_each_row_once() -> None:
    roster, changed, gone_at = Roster(1), 5 * WHOLE_MAX, 6 * WHOLE_MAX
    for position in range(1, 8 * WHOLE_MAX, 4):
        roster.state(2, change(position, 0), 0.0)
    roster.report_everything()
    assert len(roster._dirty) <= WHOLE_MAX < roster.unreported == len(roster.rows)
    roster.state(2, change(changed + 1, 7), 0.0)
    roster.retract(2, gone_at + 1, 0.0)
    told: list[int] = []
    while roster.unreported:
        revisions, _, gone = roster.batch(1.0)
        assert len(revisions) == CHANGES_MAX or len(revisions) == roster.unreported
        told += revisions
        assert not gone or gone == (gone_at + 1,)
        roster.confirm(revisions)
    assert sorted(told) == list(range(1, 8 * WHOLE_MAX, 4))
    assert set(told[-2:]) == {changed + 1, gone_at + 1}
    roster.report_everything()
    roster.stop_reporting()
    assert roster.unreported == 0


def test_a_missing_node_is_not_forgotten_because_of_a_row_that_is_not_settled_yet() -> None:
    roster = of_a_branch()
    last = BRANCH[-1]
    roster.state(OWN, missing(last, 1, incarnation=1000), 1.0)
    roster.drop(2, 1.0)
    assert roster.is_live(last)  # not settled yet
    assert roster.expire_missing(1.0, 60.0) is not None
    while roster.unsettled:
        roster.settle_some(1.0)
    assert roster.rows[last][1].change.missing


def test_counts_after_a_thousand_random_claims() -> None:
    chance, roster = Random(5), Roster(1)
    for step in range(2000):
        via, position = chance.randint(0, 4), chance.randint(2, 30)
        match chance.randrange(6):
            case 0:
                roster.retract(via, position, step)
            case 1 if via != OWN:
                roster.drop(via, step)
            case 2 if via != OWN:
                roster.doubt(via)
                roster.sweep(via, step)
            case _:
                lost = chance.random() < 0.2
                fields = (
                    chance.randint(1, 9),
                    chance.choice([HOME, GUEST]),
                    chance.randint(1, 3),
                    chance.randint(0, 3),
                    0,
                )
                roster.state(via, Change(position, *fields, missing=lost), step)
        changes = [claim.change for _, claim in roster.rows.values()]
        live = [c for c in changes if not c.missing]
        guests = [c for c in live if c.place == GUEST]
        assert (roster.live, roster.not_home, roster.guests.total()) == (len(live), len(guests), len(guests))
        assert {p for p, claims in claimed(roster)} == set(roster.rows)
        below = Counter(via for via, claim in roster.rows.values() if not claim.change.missing)
        assert below == roster._below


def claimed(roster: Roster) -> list[tuple[int, int]]:
    return [(position, via) for via, claims in roster.claims.items() for position in claims]
