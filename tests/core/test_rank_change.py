"""What a node makes of the root's advice by performance (core/placement/rank_change.py), by tables.

test_ranks.py plays whole clusters.
"""

from __future__ import annotations

from math import inf, nan
from random import Random

import msgspec
import pytest
from guests import listed
from loops import over

from subord.core.address.network import Network
from subord.core.edges.slots import Slots
from subord.core.events import Send
from subord.core.mapping.mapping import Move
from subord.core.messages import Advice, Goodbye, Why, Wish
from subord.core.placement.rank_change import FAST_LOOKS_MAX, SURE_LOOKS, RankChange
from subord.core.quantize import CLASS_MAX, UNKNOWN, class_of
from subord.core.settings import Settings
from subord.core.state.context import Context
from subord.core.timers import Timer

OWN = 20
SIBLINGS = (31, 32)
ADVICE = Advice(1, 1, room=False, root=1, hints=(), highest_guest=0)


class RankedNode:
    """A node that stands by `standing`, measures `performance` and leads `led` (position: standing)."""

    def __init__(self, standing: int, performance: int, led: dict[int, int] | None = None, fanout: int = 8) -> None:
        settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=fanout, mapping="performance")
        self.context = Context(settings, OWN, 1000, Random(1), now=0.0)
        self.rank_classes = self.context.mapping.rank_classes
        self.slots = Slots(OWN, self.context.mapping)
        for node, its in (led or {}).items():
            self.slots.taken[node] = listed(node, its)
        self.rank_change = RankChange(self.context, self.slots)
        self.rank_classes.own, self.context.performance = standing, performance

    def choose(
        self, level: int, wanted: int, hints: dict[int, int] | None = None, *, swap: int = 0, best: bool = False
    ) -> Move | None:
        """`hints`: positions and their levels."""
        places = hints or {}
        named = (OWN,) if best else tuple(places)
        told = msgspec.structs.replace(ADVICE, hints=named, levels=tuple(places.values()), wanted=wanted, swap=swap)
        return self.rank_change.choose(told, level, SIBLINGS, lambda: True)

    def sent(self) -> dict[int, Why]:
        """Goodbyes by receiver."""
        words = [each for each in self.context.actions if isinstance(each, Send)]
        self.context.actions.clear()
        return {each.target: each.message.why for each in words if isinstance(each.message, Goodbye)}


# -- what is measured -------------------------------------------------------------------------------------------


@over(
    ("jobs", "then", "changed"),
    [
        (100.0, 100.0, False),
        (100.0, 130.0, False),
        (100.0, 70.0, False),
        (100.0, 400.0, True),
        (100.0, 25.0, True),
        (100.0, inf, True),
        (100.0, 0.0, True),
        (100.0, nan, True),
        (0.0, -1.0, False),
    ],
)
def test_only_another_class_is_a_change(jobs: float, then: float, changed: bool) -> None:
    rank_change = RankedNode(UNKNOWN, UNKNOWN).rank_change
    assert rank_change.measured(jobs) is (jobs > 0)
    assert rank_change.measured(then) is changed


@over(
    ("standing", "performance", "target", "may_rise", "must_sink"),
    [
        (130, 130, 130, False, False),
        (130, 131, 131, True, False),
        (130, 129, 129, False, True),
        (130, UNKNOWN, 130, False, False),  # without a source the class stays
        (UNKNOWN, UNKNOWN, UNKNOWN, False, False),
        (UNKNOWN, 120, 120, True, False),
    ],
)
def test_target_and_direction(standing: int, performance: int, target: int, may_rise: bool, must_sink: bool) -> None:
    rank_change = RankedNode(standing, performance).rank_change
    assert (rank_change.target, rank_change.may_rise, rank_change.must_sink) == (target, may_rise, must_sink)


def test_a_source_that_fails_changes_no_standing() -> None:
    node = RankedNode(130, 130)
    node.rank_change.measured(0.0)
    assert (node.context.performance, node.rank_change.target, node.rank_change.must_sink) == (UNKNOWN, 130, False)
    node.rank_change.measured(100.0)
    assert node.context.performance == class_of(100.0)


# -- downwards --------------------------------------------------------------------------------------------------

LED = {11: 125, 21: 120, 12: 110}


@over(
    ("performance", "outranking"),
    [(126, []), (125, [11]), (121, [11]), (120, [11]), (119, [11, 21]), (100, [11, 21, 12])],
)
def test_only_subordinates_that_would_outrank_it_are_dismissed(performance: int, outranking: list[int]) -> None:
    node = RankedNode(130, performance, LED)
    assert node.rank_change.sink(()) is (not outranking)
    assert node.sent() == dict.fromkeys(outranking, Why.LEAVING)
    assert node.rank_classes.own == (130 if outranking else performance)


def test_meanwhile_it_accepts_none_that_would_have_to_leave() -> None:
    node = RankedNode(130, 115, LED)
    node.rank_change.sink(())
    assert node.context.mapping.leading_rank() == (-115, OWN)
    assert 0 < node.context.timers.at(Timer.RANK_CHANGE) <= node.context.timing.answer_s
    node.slots.taken.clear()
    assert node.rank_change.sink(())
    assert (node.rank_classes.own, node.rank_classes.sinks_to) == (115, CLASS_MAX)
    assert node.context.timers.at(Timer.RANK_CHANGE) == inf


def test_a_node_that_need_not_sink_any_more_accepts_others_again() -> None:
    node = RankedNode(130, 115, LED)
    node.rank_change.sink(())
    node.context.performance = 130
    assert not node.rank_change.must_sink
    node.rank_change.stay()
    assert node.context.mapping.leading_rank() == (-130, OWN)


# -- upwards, or to the right level -----------------------------------------------------------------------------

ON_1, ON_2, ON_3 = {7: 1}, {8: 2}, {9: 3}


def guest(leader: int, standing: int) -> Move:
    return Move(leader, Wish.GUEST, standing)


@over(
    ("standing", "performance", "level", "wanted", "hints", "swap", "move"),
    [
        # It stands where its class belongs.
        (130, 130, 2, 2, ON_1, 0, None),
        (130, 130, 3, 2, ON_1, 0, None),  # one level off, because others came or went
        (130, 130, 1, 2, ON_1, 0, None),
        # Two levels off: it moves, up or down.
        (130, 130, 4, 2, ON_1, 0, guest(7, 130)),
        (130, 130, 2, 4, ON_3, 0, guest(9, 130)),
        (130, 130, 4, 2, ON_2, 0, guest(8, 130)),  # at least nearer to the right level
        (130, 130, 4, 2, ON_3, 0, None),  # its present leader
        (130, 130, 4, 2, {}, 7, None),  # an unchanged node displaces none
        # It has become better.
        (120, 130, 4, 2, ON_1, 0, guest(7, 130)),
        (120, 130, 2, 2, ON_1, 0, guest(7, 130)),  # the same level, with a better class
        (120, 130, 4, 2, ON_2, 0, None),  # not yet: the right level may have room soon
        (120, 130, 4, 2, {**ON_3, **ON_1}, 0, guest(7, 130)),
        (120, 130, 4, 2, ON_3, 7, Move(7, Wish.DISPLACE, 130)),
        (120, 130, 4, 2, {}, 0, None),
        # It has become worse and has not sunk yet: its present class decides.
        (130, 120, 2, 2, ON_1, 0, None),
        (130, 120, 4, 2, ON_1, 0, guest(7, 130)),
    ],
)
def test_choose(  # noqa: PLR0917 - a table
    standing: int, performance: int, level: int, wanted: int, hints: dict[int, int], swap: int, move: Move | None
) -> None:
    node = RankedNode(standing, performance)
    assert node.choose(level, wanted, hints, swap=swap) == move
    assert node.rank_classes.own == standing, "a better class does not count before it is accepted"


@pytest.mark.parametrize(("fanout", "moves"), [(2, False), (3, False), (4, True), (8, True)])
def test_with_a_low_fan_out_three_levels_off_are_far(fanout: int, moves: bool) -> None:
    assert (RankedNode(130, 130, fanout=fanout).choose(4, 2, ON_1) is not None) is moves
    assert RankedNode(130, 130, fanout=fanout).choose(5, 2, ON_1) == guest(7, 130)


def test_the_best_of_all_is_told_to_be_root() -> None:
    assert RankedNode(120, 130, LED).choose(3, 0, best=True) == Move(0, Wish.GUEST, 130)


def test_after_many_looks_any_place_for_its_class_will_do() -> None:
    node = RankedNode(120, 130)
    for _ in range(FAST_LOOKS_MAX):
        assert node.choose(4, 2, ON_3) is None
    assert node.choose(4, 2, ON_3) == guest(9, 130)


def test_another_class_restarts_the_fast_looks() -> None:
    node = RankedNode(120, 130)
    for _ in range(FAST_LOOKS_MAX):
        node.choose(4, 2, ON_3)
    assert node.rank_change.measured(2.0**20)
    assert node.rank_change.looks == 0


def test_a_new_class_is_due_until_its_level_was_right_often_enough() -> None:
    """A node that sank also looks for its level, with one level off as too much."""
    node = RankedNode(130, 120)
    node.rank_change.stand(120)
    for _ in range(SURE_LOOKS - 1):
        assert node.choose(2, 2) is None
        assert node.rank_change.is_due
    assert node.choose(2, 3, ON_2) == guest(8, 120)  # the right level may change meanwhile
    for _ in range(SURE_LOOKS):
        assert node.rank_change.is_due
        assert node.choose(3, 3) is None
    assert not node.rank_change.is_due
    assert node.choose(2, 3, ON_2) is None


def test_over_two_levels_it_moves_alone() -> None:
    """Its subordinates stand where they belong: they are told first, and it moves when they have left."""
    node = RankedNode(120, 130, LED)
    assert node.choose(4, 2, ON_1) is None
    assert node.sent() == dict.fromkeys(LED, Why.LEAVING)
    assert node.context.timers.at(Timer.RANK_CHANGE) < inf
    assert not node.slots.has_room_for(50, 100)
    node.slots.taken.clear()
    assert node.choose(4, 2, ON_1) == guest(7, 130)


def test_over_one_level_its_subordinates_come_along() -> None:
    node = RankedNode(120, 130, LED)
    assert node.choose(3, 2, ON_1) == guest(7, 130)
    assert node.sent() == {}


def test_advice_without_a_wanted_level_causes_no_move() -> None:
    """`wanted` is 0 in the advice of a node that has a leader."""
    node = RankedNode(130, 130, LED)
    assert node.choose(4, 0, ON_1) is None
    assert node.sent() == {}
    assert node.rank_change.wanted is None
