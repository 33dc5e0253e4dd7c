"""By which class everybody stands, and who told us (subord/core/placement/rank_classes.py)."""

from __future__ import annotations

import pytest

from subord.core.address.network import Network
from subord.core.messages import (
    Accept,
    Advice,
    Announce,
    Ask,
    Back,
    Beat,
    Change,
    Errand,
    Guidance,
    Meet,
    Message,
    No,
    Pong,
    Propose,
    Refuse,
    Terms,
    Wish,
)
from subord.core.placement.quantize import CLASS_MAX, UNKNOWN
from subord.core.placement.rank_classes import HEARD_MAX, Standings, learn
from subord.core.state.roster import OWN, Roster
from subord.core.state.settings import Settings

OWNER, SOURCE, OTHER = 5, 7, 9
TERMS = Terms.of(Settings(network=Network.parse("10.0.0.0/24"), mapping="performance"))
NO_GUIDANCE = Guidance(1, (1, 7), (), (), adrift=False)


def advice(root: int, standing: int, root_standing: int) -> Advice:
    return Advice(1, 1, True, root, (), 0, standing=standing, root_standing=root_standing)


def heard(standings: Standings) -> dict[int, int]:
    return {position: standings.of(position) for position in range(1, 20) if standings.knows(position)}


@pytest.mark.parametrize(
    ("message", "learned"),
    [
        (Propose(1, 1, TERMS, Wish.GUEST, standing=130), {SOURCE: 130}),
        (Refuse(1, 1, No.FULL, "", 0, (3,), 4, 131), {SOURCE: 131}),
        (Announce(1, TERMS, 132), {SOURCE: 132}),
        (Ask(1, 1, TERMS, 0, 133, 140), {SOURCE: 133}),  # what it measures is no badge
        (Ask(1, 1, TERMS, OTHER, 134), {OTHER: 134}),  # an errand: of whom it runs for
        (advice(SOURCE, 135, 135), {SOURCE: 135}),
        (advice(SOURCE, 135, 200), {SOURCE: 135}),  # of itself it knows best
        (advice(OTHER, 135, 136), {SOURCE: 135, OTHER: 136}),
        (advice(0, 135, 0), {SOURCE: 135}),
        (Meet(1, OTHER, 137), {OTHER: 137}),
        (Propose(1, 1, TERMS, Wish.GUEST), {SOURCE: UNKNOWN}),  # it measures nothing: that is known
        # An errand says by which class its sender stands so that the runner can pass it on.
        (Errand(1, 1, (3,), 138), {}),
        (Accept(1, 1, NO_GUIDANCE), {}),
        (Beat(1, 1, 1, 100, 0, (Change(SOURCE, 5, 2, 1, 0, 0, standing=139),)), {}),  # the roster has that
        (Pong(1, 1, 0, 140), {}),
        (Back(1, OTHER), {}),
    ],
)
def test_what_is_learned(message: Message, learned: dict[int, int]) -> None:
    standings = Standings(OWNER)
    learn(standings, SOURCE, message)
    assert heard(standings) == {OWNER: UNKNOWN, **learned}


@pytest.mark.parametrize("message", [Meet(1, OTHER, UNKNOWN), advice(OTHER, 135, UNKNOWN)])
def test_that_somebody_else_does_not_know_is_no_news(message: Message) -> None:
    standings = Standings(OWNER)
    learn(standings, SOURCE, message)
    assert not standings.knows(OTHER)
    standings.heard(OTHER, 140)
    learn(standings, SOURCE, message)
    assert standings.of(OTHER) == 140


def test_the_last_word_counts() -> None:
    standings = Standings(OWNER)
    standings.heard(OTHER, 140)
    standings.heard(OTHER, 120)
    assert standings.of(OTHER) == 120


def test_of_ourselves_nobody_tells_us() -> None:
    standings = Standings(OWNER)
    standings.own = 130
    standings.heard(OWNER, CLASS_MAX)
    assert standings.of(OWNER) == 130


def test_our_own_roster_goes_before_hearsay() -> None:
    roster, standings = Roster(OWNER), Standings(OWNER)
    standings.rows = roster.rows
    standings.heard(OTHER, 140)
    roster.state(OWN, Change(OTHER, OWNER, 2, 1, 0, 0, standing=120), 0.0)
    assert standings.of(OTHER) == 120
    roster.retract(OWN, OTHER, 0.0)
    assert standings.of(OTHER) == 140


def test_the_row_of_a_missing_node_goes_after_hearsay() -> None:
    """It is back, and says by which class it stands; the row is that of a former place (seed 1835, performance)."""
    roster, standings = Roster(OWNER), Standings(OWNER)
    standings.rows = roster.rows
    roster.state(OWN, Change(OTHER, OWNER, 2, 1, 0, 0, missing=True), 0.0)
    standings.heard(OTHER, 140)
    assert standings.of(OTHER) == 140


def test_who_is_new_in_the_roster_is_known() -> None:
    roster, standings = Roster(OWNER), Standings(OWNER)
    standings.rows = roster.rows
    roster.state(OWN, Change(OTHER, OWNER, 2, 1, 0, 0, standing=120), 0.0)
    assert (standings.knows(OTHER), len(standings)) == (True, 0)


def test_the_book_is_bounded_and_forgets_whom_it_has_not_heard_for_longest() -> None:
    standings = Standings(OWNER)
    for position in range(10, 10 + HEARD_MAX):
        standings.heard(position, 120)
    standings.heard(10, 121)
    standings.heard(9, 120)
    assert len(standings) == HEARD_MAX
    assert (standings.knows(10), standings.knows(11), standings.knows(9)) == (True, False, True)
    assert standings.of(11) == UNKNOWN
