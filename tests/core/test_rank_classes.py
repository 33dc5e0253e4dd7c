"""The classes by which nodes stand, and the messages that state them (core/mapping/rank_classes.py)."""

from __future__ import annotations

import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.mapping.rank_classes import HEARD_MAX, RankClasses, learn
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
from subord.core.quantize import CLASS_MAX, UNKNOWN
from subord.core.settings import Settings
from subord.core.state.roster import OWN, Roster

OWNER, SOURCE, OTHER = 5, 7, 9
TERMS = Terms.of(Settings(network=Network.parse("10.0.0.0/24"), mapping="performance"))
NO_GUIDANCE = Guidance(1, (1, 7), (), (), adrift=False)


def advice(root: int, standing: int, root_standing: int) -> Advice:
    return Advice(1, 1, True, root, (), 0, standing=standing, root_standing=root_standing)


def heard(rank_classes: RankClasses) -> dict[int, int]:
    return {position: rank_classes.of(position) for position in range(1, 20) if rank_classes.knows(position)}


@over(
    ("message", "learned"),
    [
        (Propose(1, 1, TERMS, Wish.GUEST, standing=130), {SOURCE: 130}),
        (Refuse(1, 1, No.FULL, "", 0, (3,), 4, 131), {SOURCE: 131}),
        (Announce(1, TERMS, 132), {SOURCE: 132}),
        (Ask(1, 1, TERMS, 0, 133, 140), {SOURCE: 133}),  # what it measures is no standing
        (Ask(1, 1, TERMS, OTHER, 134), {OTHER: 134}),  # a delegated question states the class of the root
        (advice(SOURCE, 135, 135), {SOURCE: 135}),
        (advice(SOURCE, 135, 200), {SOURCE: 135}),  # of itself it knows best
        (advice(OTHER, 135, 136), {SOURCE: 135, OTHER: 136}),
        (advice(0, 135, 0), {SOURCE: 135}),
        (Meet(1, OTHER, 137), {OTHER: 137}),
        (Propose(1, 1, TERMS, Wish.GUEST), {SOURCE: UNKNOWN}),  # that it measures nothing is known
        # An errand states a class for the delegate to pass on.
        (Errand(1, 1, (3,), 138), {}),
        (Accept(1, 1, NO_GUIDANCE), {}),
        (Beat(1, 1, 1, 100, 0, (Change(SOURCE, 5, 2, 1, 0, 0, standing=139),)), {}),  # the roster takes that
        (Pong(1, 1, 0, 140), {}),
        (Back(1, OTHER), {}),
    ],
)
def test_what_is_learned(message: Message, learned: dict[int, int]) -> None:
    rank_classes = RankClasses(OWNER)
    learn(rank_classes, SOURCE, message)
    assert heard(rank_classes) == {OWNER: UNKNOWN, **learned}


@pytest.mark.parametrize("message", [Meet(1, OTHER, UNKNOWN), advice(OTHER, 135, UNKNOWN)])
def test_an_unknown_class_of_another_node_is_not_taken(message: Message) -> None:
    rank_classes = RankClasses(OWNER)
    learn(rank_classes, SOURCE, message)
    assert not rank_classes.knows(OTHER)
    rank_classes.heard(OTHER, 140)
    learn(rank_classes, SOURCE, message)
    assert rank_classes.of(OTHER) == 140


def test_the_latest_statement_counts() -> None:
    rank_classes = RankClasses(OWNER)
    rank_classes.heard(OTHER, 140)
    rank_classes.heard(OTHER, 120)
    assert rank_classes.of(OTHER) == 120


def test_statements_about_the_owner_are_ignored() -> None:
    rank_classes = RankClasses(OWNER)
    rank_classes.own = 130
    rank_classes.heard(OWNER, CLASS_MAX)
    assert rank_classes.of(OWNER) == 130


def test_the_own_roster_precedes_statements() -> None:
    roster, rank_classes = Roster(OWNER), RankClasses(OWNER)
    rank_classes.rows = roster.rows
    rank_classes.heard(OTHER, 140)
    roster.state(OWN, Change(OTHER, OWNER, 2, 1, 0, 0, standing=120), 0.0)
    assert rank_classes.of(OTHER) == 120
    roster.retract(OWN, OTHER, 0.0)
    assert rank_classes.of(OTHER) == 140


def test_statements_precede_the_row_of_a_missing_node() -> None:
    """It is back and states its class; the row describes its former place (seed 1835, performance)."""
    roster, rank_classes = Roster(OWNER), RankClasses(OWNER)
    rank_classes.rows = roster.rows
    roster.state(OWN, Change(OTHER, OWNER, 2, 1, 0, 0, missing=True), 0.0)
    rank_classes.heard(OTHER, 140)
    assert rank_classes.of(OTHER) == 140


def test_a_new_row_is_known() -> None:
    roster, rank_classes = Roster(OWNER), RankClasses(OWNER)
    rank_classes.rows = roster.rows
    roster.state(OWN, Change(OTHER, OWNER, 2, 1, 0, 0, standing=120), 0.0)
    assert (rank_classes.knows(OTHER), len(rank_classes)) == (True, 0)


def test_the_table_is_bounded_and_drops_the_oldest_statement() -> None:
    rank_classes = RankClasses(OWNER)
    for position in range(10, 10 + HEARD_MAX):
        rank_classes.heard(position, 120)
    rank_classes.heard(10, 121)
    rank_classes.heard(9, 120)
    assert len(rank_classes) == HEARD_MAX
    assert (rank_classes.knows(10), rank_classes.knows(11), rank_classes.knows(9)) == (True, False, True)
    assert rank_classes.of(11) == UNKNOWN
