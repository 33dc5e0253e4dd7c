"""One round of a search (core/search/rounds.py)."""

from __future__ import annotations

from random import Random

from subord.core.address.network import Network
from subord.core.messages import Advice
from subord.core.search.rounds import ADVISERS_MAX, CONTACTED_MAX, Round
from subord.core.settings import Settings
from subord.core.state.context import Context
from subord.core.view import Position

NODE = 900


def new(known: tuple[Position, ...] = (), mapping: str = "ip") -> Round:
    settings = Settings(network=Network.parse("10.0.0.0/16"), fanout=2, guest_slots=2, mapping=mapping)
    return Round(Context(settings, NODE, 1000, Random(1), now=100.0), known)


def asked(round_: Round, *roots: Position) -> list[bool]:
    """For each root whether it may advise; those that may are asked."""
    might = []
    for root in roots:
        might.append(round_.may_advise(root))
        if might[-1]:
            round_.advisers.append(root)
    return might


def test_each_adviser_ranks_below_the_one_before() -> None:
    assert asked(new(), 901, 500, 500, 600, 20, 1, 1) == [False, True, False, False, True, True, False]


def test_after_a_silent_adviser_one_above_it_may_advise() -> None:
    found = new()
    assert asked(found, 500, 20) == [True, True]
    found.give_up(20)
    assert asked(found, 20, 500, 30, 29, 40) == [False, False, True, True, False]


def test_the_number_of_advisers_is_bounded_however_many_are_silent() -> None:
    found = new()
    for root in range(1, 100):
        asked(found, root)
        found.give_up(root)
    assert len(found.advisers) == ADVISERS_MAX


def test_only_the_answer_of_an_adviser_is_advice() -> None:
    found = new()
    asked(found, 20)
    found.take(30, Advice(1, 1, False, 0, (), 0))
    assert not found.is_advised
    found.take(20, Advice(1, 1, False, 0, (), 0))
    assert found.is_advised


def test_hints_go_first_or_last() -> None:
    found = new((7, 8))
    found.consider((5, 8), first=False)
    assert found.offers[-1] == 5
    found.consider((6, 8))
    assert found.offers[:2] == [6, 8]
    assert sorted(found.offers) == [5, 6, 7, 8]


def test_other_roots_are_contacted_once_per_round_and_few_of_them() -> None:
    found = new()
    assert [found.may_contact(root) for root in (7, 8, 7, 8)] == [True, True, False, False]
    assert sum(found.may_contact(root) for root in range(100, 200)) == CONTACTED_MAX - 2
    assert new().may_contact(7)


def test_where_ranks_change_a_former_class_of_a_guest_does_not_save_its_place() -> None:
    """Seed 28, performance: a root that had heard of the guest's class before a partition stayed root for ever."""
    found = new(mapping="performance")
    found._context.mapping.rank_classes.own = 132
    found._context.mapping.rank_classes.heard(12, 139)
    found.note_full(10, 12)
    assert found.take_displacement() == 10
    found.note_full(10, 0)
    assert found.take_displacement() is None


def test_where_ranks_are_fixed_only_a_guest_that_ranks_above_gives_way() -> None:
    found = new()
    found.note_full(10, NODE - 1)
    assert found.take_displacement() is None
    found.note_full(10, NODE + 1)
    assert found.take_displacement() == 10
