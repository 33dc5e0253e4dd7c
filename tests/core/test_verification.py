"""Reported nodes that do not exist: how many a member can have listed, and that no correct tree is delayed."""

from __future__ import annotations

import msgspec
import pytest
from liars import claimed, lies, phantoms, says_rows
from small_world import SmallWorld

from subord.core.edges import verification
from subord.core.edges.verification import (
    KEPT_MAX,
    MISSING_MAX,
    ROWS_ABSENT,
    ROWS_UNTRIED,
    SAMPLE,
    SHARE,
    UNTRIED_MAX,
)
from subord.core.events import Dropped
from subord.core.messages import Beat, Change, Message
from subord.core.view import Position

LIAR, LEADER, LEVEL = 12, 6, 2  # of its leader
UNTRIED, MISSING = UNTRIED_MAX >> LEVEL, (MISSING_MAX >> LEVEL) + 2 * (UNTRIED_MAX >> LEVEL)
INTERIOR = 2
LIMITS = {ROWS_UNTRIED, ROWS_ABSENT}
VERDICT_S = 2 * 4.5 + 2 * 2.5  # two silences, and the next beat of the liar


def uncounted(message: Message) -> Message:
    """Its beats do not state how many rows it lists."""
    return msgspec.structs.replace(message, rows=0, digest=0) if isinstance(message, Beat) else message


def with_liar(liar: Position = LIAR, size: int = 15) -> SmallWorld:
    world = SmallWorld.dense(size, 2)
    lies(world, liar, uncounted)
    world.run(20)
    return world


def limited(world: SmallWorld) -> dict[str, set[Position]]:
    """The nodes that dropped rows because nodes did not answer, by reason."""
    found: dict[str, set[Position]] = {}
    for _, position, notice in world.notices:
        if isinstance(notice, Dropped) and notice.reason in LIMITS:
            found.setdefault(notice.reason, set()).add(position)
    return found


def small(monkeypatch: pytest.MonkeyPatch, untried: int, kept: int) -> None:
    monkeypatch.setattr(verification, "UNTRIED_MAX", untried)
    monkeypatch.setattr(verification, "KEPT_MAX", kept)
    monkeypatch.setattr(verification, "MISSING_MAX", kept)
    monkeypatch.setattr(verification, "MISSING_MIN", kept)


def test_a_sample_is_of_living_nodes_however_many_are_missing() -> None:
    """Else rows of missing nodes, which cost a liar nothing, would shrink its sample."""
    world = SmallWorld.dense(3, 2)
    world.run(20)
    node, living = world.nodes[1], range(100, 140)
    for position in (*living, *range(200, 1200)):
        node.roster.state(2, Change(position, 2, 1, 1000, 0, 0, missing=position not in living), world.now)
    trials = node.downlink.reports.verification
    trial = trials._trials[2]
    trials._draw(2, trial)
    assert (len(trial.asked), trial.needed) == (SAMPLE, SAMPLE // SHARE)
    assert set(trial.asked.values()) <= set(living)


# -- liars ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_leaf_that_reports_sixty_thousand_nodes() -> None:
    world = with_liar()
    says_rows(world, LIAR, phantoms(LIAR, 1000, 60_000))
    assert claimed(world, LIAR) == (UNTRIED + KEPT_MAX, 0), "while the trial lasts"
    root = world.nodes[1].roster
    for _ in range(int(VERDICT_S)):
        world.run(1)
        assert root.live < 15 + UNTRIED, "kept rows are not passed on"
        assert all(root.is_live(position) for position in range(1, 16))
    assert claimed(world, LIAR) == (UNTRIED, 0)
    assert limited(world) == {ROWS_UNTRIED: {LEADER}, ROWS_ABSENT: {LEADER}}, "only the liar is reported"
    says_rows(world, LIAR, phantoms(LIAR, 1000, 60_000))
    world.run(600)
    assert claimed(world, LIAR) == (UNTRIED, 0)
    assert limited(world) == {ROWS_UNTRIED: {LEADER}, ROWS_ABSENT: {LEADER}}
    world.crash(LIAR)
    world.run(120)
    assert set(root.rows) == set(range(1, 16)) - {LIAR}, "they go with the liar"


@pytest.mark.slow
def test_reported_nodes_that_are_missing() -> None:
    world = with_liar()
    says_rows(world, LIAR, phantoms(LIAR, 1000, 60_000, missing=True))
    assert claimed(world, LIAR) == (1, MISSING)
    world.run(60)
    assert claimed(world, LIAR) == (1, MISSING)
    assert limited(world) == {ROWS_UNTRIED: {LEADER}}


@pytest.mark.slow
def test_reported_nodes_that_live_by_turns() -> None:
    """Missing rows leave no room beyond the bounds, and none behind them counts as living."""
    world = with_liar()
    for turn in range(10):
        first = 1000 + 1000 * turn
        says_rows(world, LIAR, phantoms(LIAR, first, 1000))
        says_rows(world, LIAR, phantoms(LIAR, first, 1000, missing=True))
        living, missing = claimed(world, LIAR)
        assert living <= UNTRIED + KEPT_MAX
        assert missing <= MISSING
    says_rows(world, LIAR, phantoms(LIAR, 1000, 10_000))
    living, missing = claimed(world, LIAR)
    assert living + missing <= UNTRIED + KEPT_MAX + MISSING
    world.run(VERDICT_S)
    assert claimed(world, LIAR)[0] <= UNTRIED
    assert world.nodes[1].roster.live <= 15 + UNTRIED


def test_retracted_reports_are_gone() -> None:
    world = with_liar()
    says_rows(world, LIAR, phantoms(LIAR, 1000, 100))
    world.run(1)
    assert world.nodes[1].roster.live == 15 + 100
    says_rows(world, LIAR, (), gone=range(1000, 1100))
    world.run(1)
    assert len(world.nodes[1].roster.rows) == 15


@pytest.mark.slow
def test_a_leader_that_lies_keeps_its_own_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leads 31 nodes and reports 2,000 more; at first many of a sample exist, then hardly any."""
    small(monkeypatch, 8, 100)
    world = with_liar(INTERIOR, 63)
    for _ in range(12):
        says_rows(world, INTERIOR, phantoms(INTERIOR, 1000, 2000))
        world.run(30)
    living, _ = claimed(world, INTERIOR)
    assert living <= 16 * 31
    roster = world.nodes[1].roster
    assert all(roster.is_live(position) for position in range(1, 64))
    assert limited(world)[ROWS_ABSENT] == {1}


# -- correct trees ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fifteen_hundred_nodes_that_start_at_once() -> None:
    world = SmallWorld.dense(1500, 3)
    world.run_until(world.whole, 60)
    assert limited(world) == {}
    assert len(world.nodes[1].downlink.reports.verification) == 0
    world.crash(1)  # 2 becomes root and gets the branches of its siblings at once
    world.run_until(world.whole, 60)
    for position in range(600, 1200):
        world.crash(position)
    world.run_until(world.whole, 120)
    assert limited(world) == {}


@pytest.mark.slow
def test_two_halves_that_meet() -> None:
    """A root that has long led its half gets the other half as the report of one subordinate."""
    world = SmallWorld.empty(4)
    halves = [set(range(1, 700)), set(range(700, 1400))]
    side = {position: number for number, half in enumerate(halves) for position in half}
    world.lossy = lambda source, target, _message: side[source] != side.get(target, -1)
    world.start_all(sorted(side))
    world.run_until(lambda: len(world.roots()) == 2 and world.nodes[1].roster.live == 699, 120)
    world.lossy = lambda _source, _target, _message: False
    world.run_until(world.whole, 300)
    assert limited(world) == {}


def test_a_correct_branch_that_is_withheld_is_listed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers to probes take far longer than beats, so all rows arrive before the first answer."""
    small(monkeypatch, 8, 2)
    world = SmallWorld.empty(2)
    measured = world.fate
    slow = [0.9]
    world.fate = lambda s, t, m: slow if type(m).__name__ == "Probe" else measured(s, t, m)
    world.start_all(range(1, 64))
    world.run_until(world.whole, 60)
    assert set(limited(world)) == {ROWS_UNTRIED}


@pytest.mark.slow
def test_a_wrong_verdict_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root cannot reach the nodes below its subordinates for a minute; the subordinates can."""
    small(monkeypatch, 8, 2)
    world = SmallWorld.empty(2)
    world.lossy = lambda source, target, _message: source == 1 and target > 7
    world.start_all(range(1, 64))
    world.run(60)
    assert limited(world)[ROWS_ABSENT] == {1}
    assert not world.whole()
    world.lossy = lambda _source, _target, _message: False
    world.run_until(world.whole, 300)


@pytest.mark.slow
def test_mass_deaths_are_listed_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes that lived in a branch may be missing there, whatever the first bounds."""
    small(monkeypatch, 8, 2)
    world = SmallWorld.dense(255, 2)
    world.run(30)
    world.notices.clear()
    for position in range(128, 256):
        world.crash(position)
    world.run(12)
    rows = world.nodes[1].roster.rows
    assert all(rows[position][1].change.missing for position in range(128, 256))
    assert limited(world) == {}
