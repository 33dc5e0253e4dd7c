"""What a node makes of the root's advice when ranks go by performance (subord/core/placement/rank_change.py); tables.

The stories that these words make are told in test_ranks.py.
"""

from __future__ import annotations

from math import inf, nan
from random import Random

import msgspec
import pytest
from guests import listed

from subord.core.address.network import Network
from subord.core.downlink.slots import Slots
from subord.core.events import Send
from subord.core.messages import Advice, Goodbye, Why, Wish
from subord.core.placement.quantize import CLASS_MAX, UNKNOWN, class_of
from subord.core.placement.rank_change import FAST_LOOKS_MAX, SURE_LOOKS, Move, RankChange
from subord.core.state.context import Context
from subord.core.state.settings import Settings
from subord.core.timers import Timer

OWN = 20
SIBLINGS = (31, 32)
ADVICE = Advice(1, 1, room=False, root=1, hints=(), highest_guest=0)


class Adviser:
    """A node that stands by `standing`, measures `performance` and leads `led` (position: standing)."""

    def __init__(self, standing: int, performance: int, led: dict[int, int] | None = None, fanout: int = 8) -> None:
        settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=fanout, mapping="performance")
        self.context = Context(settings, OWN, 1000, Random(1), now=0.0)
        self.rank_classes = self.context.mapping.rank_classes
        self.slots = Slots(OWN, self.context.mapping, settings.guest_places)
        for node, its in (led or {}).items():
            self.slots.taken[node] = listed(node, its)
        self.rank_change = RankChange(self.context, self.slots)
        self.rank_classes.own, self.context.performance = standing, performance

    def chooses(
        self, level: int, wanted: int, hints: dict[int, int] | None = None, *, swap: int = 0, best: bool = False
    ) -> Move | None:
        """`hints`: positions and their levels."""
        places = hints or {}
        named = (OWN,) if best else tuple(places)
        told = msgspec.structs.replace(ADVICE, hints=named, levels=tuple(places.values()), wanted=wanted, swap=swap)
        return self.rank_change.choose(told, level, SIBLINGS, lambda: True)

    def sent(self) -> dict[int, Why]:
        """Goodbyes, by receiver."""
        words = [each for each in self.context.actions if isinstance(each, Send)]
        self.context.actions.clear()
        return {each.target: each.message.why for each in words if isinstance(each.message, Goodbye)}


# -- what is measured -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
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
def test_only_another_class_is_news(jobs: float, then: float, changed: bool) -> None:
    rank_change = Adviser(UNKNOWN, UNKNOWN).rank_change
    assert rank_change.measured(jobs) is (jobs > 0)
    assert rank_change.measured(then) is changed


@pytest.mark.parametrize(
    ("standing", "performance", "target", "may_rise", "must_sink"),
    [
        (130, 130, 130, False, False),
        (130, 131, 131, True, False),
        (130, 129, 129, False, True),
        (130, UNKNOWN, 130, False, False),  # its source is gone: it stays what it was
        (UNKNOWN, UNKNOWN, UNKNOWN, False, False),
        (UNKNOWN, 120, 120, True, False),
    ],
)
def test_where_it_goes(standing: int, performance: int, target: int, may_rise: bool, must_sink: bool) -> None:
    rank_change = Adviser(standing, performance).rank_change
    assert (rank_change.target, rank_change.may_rise, rank_change.must_sink) == (target, may_rise, must_sink)


def test_a_source_that_falls_silent_or_mad_takes_nobody_s_badge() -> None:
    node = Adviser(130, 130)
    node.rank_change.measured(0.0)
    assert (node.context.performance, node.rank_change.target, node.rank_change.must_sink) == (UNKNOWN, 130, False)
    node.rank_change.measured(100.0)
    assert node.context.performance == class_of(100.0)


# -- downwards --------------------------------------------------------------------------------------------------

LED = {11: 125, 21: 120, 12: 110}


@pytest.mark.parametrize(
    ("performance", "proud"), [(126, []), (125, [11]), (121, [11]), (120, [11]), (119, [11, 21]), (100, [11, 21, 12])]
)
def test_those_who_outrank_it_are_sent_away_and_nobody_else(performance: int, proud: list[int]) -> None:
    node = Adviser(130, performance, LED)
    assert node.rank_change.sink(()) is (not proud)
    assert node.sent() == dict.fromkeys(proud, Why.LEAVING)
    assert node.rank_classes.own == (130 if proud else performance)


def test_it_takes_nobody_in_meanwhile_that_would_have_to_go() -> None:
    node = Adviser(130, 115, LED)
    node.rank_change.sink(())
    assert node.context.mapping.leading_rank() == (-115, OWN)
    assert 0 < node.context.timers.at(Timer.RANK_CHANGE) <= node.context.timing.answer_s
    node.slots.taken.clear()
    assert node.rank_change.sink(())
    assert (node.rank_classes.own, node.rank_classes.sinks_to) == (115, CLASS_MAX)
    assert node.context.timers.at(Timer.RANK_CHANGE) == inf


def test_whoever_need_not_sink_any_more_takes_others_in_again() -> None:
    node = Adviser(130, 115, LED)
    node.rank_change.sink(())
    node.context.performance = 130
    assert not node.rank_change.must_sink
    node.rank_change.stay()
    assert node.context.mapping.leading_rank() == (-130, OWN)


# -- upwards, or to the right level -----------------------------------------------------------------------------

ON_1, ON_2, ON_3 = {7: 1}, {8: 2}, {9: 3}


def guest(leader: int, standing: int) -> Move:
    return Move(leader, Wish.GUEST, standing)


@pytest.mark.parametrize(
    ("standing", "performance", "level", "wanted", "hints", "swap", "move"),
    [
        # It stands where it belongs, by the badge that it has earned.
        (130, 130, 2, 2, ON_1, 0, None),
        (130, 130, 3, 2, ON_1, 0, None),  # one level off, because others came or went
        (130, 130, 1, 2, ON_1, 0, None),
        # Two levels off: it goes, either way.
        (130, 130, 4, 2, ON_1, 0, guest(7, 130)),
        (130, 130, 2, 4, ON_3, 0, guest(9, 130)),
        (130, 130, 4, 2, ON_2, 0, guest(8, 130)),  # nearer to it at least
        (130, 130, 4, 2, ON_3, 0, None),  # where it is already
        (130, 130, 4, 2, {}, 7, None),  # nobody gives way to one who has not changed
        # It has become better.
        (120, 130, 4, 2, ON_1, 0, guest(7, 130)),
        (120, 130, 2, 2, ON_1, 0, guest(7, 130)),  # the same level, but a better badge
        (120, 130, 4, 2, ON_2, 0, None),  # not yet: soon there may be room where it belongs
        (120, 130, 4, 2, {**ON_3, **ON_1}, 0, guest(7, 130)),
        (120, 130, 4, 2, ON_3, 7, Move(7, Wish.DISPLACE, 130)),
        (120, 130, 4, 2, {}, 0, None),
        # It has become worse, and has not come down yet: it looks only by the badge that it wears.
        (130, 120, 2, 2, ON_1, 0, None),
        (130, 120, 4, 2, ON_1, 0, guest(7, 130)),
    ],
)
def test_choose(  # noqa: PLR0917 - a table
    standing: int, performance: int, level: int, wanted: int, hints: dict[int, int], swap: int, move: Move | None
) -> None:
    node = Adviser(standing, performance)
    assert node.chooses(level, wanted, hints, swap=swap) == move
    assert node.rank_classes.own == standing, "nothing is worn before somebody accepts it"


@pytest.mark.parametrize(("fanout", "moves"), [(2, False), (3, False), (4, True), (8, True)])
def test_on_thin_levels_three_off_are_far(fanout: int, moves: bool) -> None:
    assert (Adviser(130, 130, fanout=fanout).chooses(4, 2, ON_1) is not None) is moves
    assert Adviser(130, 130, fanout=fanout).chooses(5, 2, ON_1) == guest(7, 130)


def test_the_best_of_all_is_told_to_be_root() -> None:
    assert Adviser(120, 130, LED).chooses(3, 0, best=True) == Move(0, Wish.GUEST, 130)


def test_who_has_waited_for_long_takes_any_place_that_fits_its_badge() -> None:
    node = Adviser(120, 130)
    for _ in range(FAST_LOOKS_MAX):
        assert node.chooses(4, 2, ON_3) is None
    assert node.chooses(4, 2, ON_3) == guest(9, 130)


def test_another_class_begins_the_haste_anew() -> None:
    node = Adviser(120, 130)
    for _ in range(FAST_LOOKS_MAX):
        node.chooses(4, 2, ON_3)
    assert node.rank_change.measured(2.0**20)
    assert node.rank_change.looks == 0


def test_a_new_badge_is_on_its_way_until_it_was_found_right_often_enough() -> None:
    """Also who came down looks for its level, of which one off is too much now."""
    node = Adviser(130, 120)
    node.rank_change.stand(120)
    for _ in range(SURE_LOOKS - 1):
        assert node.chooses(2, 2) is None
        assert node.rank_change.is_due
    assert node.chooses(2, 3, ON_2) == guest(8, 120)  # the level that is right can change meanwhile
    for _ in range(SURE_LOOKS):
        assert node.rank_change.is_due
        assert node.chooses(3, 3) is None
    assert not node.rank_change.is_due
    assert node.chooses(2, 3, ON_2) is None


def test_from_afar_it_goes_alone() -> None:
    """Those below it stand where they belong: they are told first, and it moves when they have left."""
    node = Adviser(120, 130, LED)
    assert node.chooses(4, 2, ON_1) is None
    assert node.sent() == dict.fromkeys(LED, Why.LEAVING)
    assert node.context.timers.at(Timer.RANK_CHANGE) < inf
    assert not node.slots.has_room_for(50, 100)
    node.slots.taken.clear()
    assert node.chooses(4, 2, ON_1) == guest(7, 130)


def test_for_one_level_they_come_along() -> None:
    node = Adviser(120, 130, LED)
    assert node.chooses(3, 2, ON_1) == guest(7, 130)
    assert node.sent() == {}


def test_who_does_not_know_where_we_belong_moves_nobody() -> None:
    """`wanted` is 0 from everybody who has somebody above."""
    node = Adviser(130, 130, LED)
    assert node.chooses(4, 0, ON_1) is None
    assert node.sent() == {}
    assert node.rank_change.wanted is None
