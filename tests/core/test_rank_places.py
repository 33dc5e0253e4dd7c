"""Who is sent where when ranks go by performance: rosters built by hand, and what their root says (seating.py)."""

from __future__ import annotations

from random import Random

import pytest

from subord.core.address.network import Network
from subord.core.address.numbering import numbering
from subord.core.downlink.vacancies import Places, Vacancies
from subord.core.messages import Change
from subord.core.placement import rank_places
from subord.core.state.context import Context
from subord.core.state.roster import OWN, Roster
from subord.core.state.settings import NumberingName, Settings

ROOT, ROOT_CLASS = 10, 150
Tree = dict[int, tuple[int, int]]  # node -> (leader, class by which it stands and which it measures)

# Fan-out 2 and two guest slots: a leader takes four, of whom the last two are more than a level should hold.
LONE: Tree = {}
THREE: Tree = {21: (10, 140), 22: (10, 138)}
SEVEN: Tree = {**THREE, 31: (21, 130), 32: (21, 129), 33: (22, 128), 34: (22, 127)}
EIGHT: Tree = {**SEVEN, 41: (31, 120)}


class Office:
    """The seating of node 10, and the roster that it is drawn from."""

    def __init__(
        self, tree: Tree, *, numbering: NumberingName = "complete", fanout: int = 2, guest_slots: int = 2
    ) -> None:
        network = Network.parse("10.0.0.0/24")
        settings = Settings(
            network=network, fanout=fanout, guest_slots=guest_slots, mapping="performance", numbering_name=numbering
        )
        self.context = Context(settings, ROOT, 1000, Random(1), now=0.0)
        self.roster = Roster(ROOT)
        self.context.mapping.rank_classes.rows = self.roster.rows
        self.context.mapping.rank_classes.own = ROOT_CLASS
        self.vacancies = Vacancies(self.context, self.roster)
        self.roster.state(
            OWN, Change(ROOT, 0, 0, 1000, 0, 0, standing=ROOT_CLASS, performance=ROOT_CLASS), self.context.now
        )
        for node, (leader, standing) in tree.items():
            self.comes(node, leader, standing)

    def comes(self, node: int, leader: int, standing: int, performance: int | None = None) -> None:
        measured = standing if performance is None else performance
        change = Change(node, leader, 2, 1000, 0, 0, standing=standing, performance=measured)
        self.roster.state(OWN, change, self.context.now)

    def tells(self, node: int, standing: int, performance: int | None = None, limit: int = 6) -> Places:
        measured = standing if performance is None else performance
        return self.vacancies.suggest(node, 0, limit, reserve=False, standing=standing, performance=measured)


# -- the level ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "node", "standing", "wanted"),
    [
        (LONE, 50, 100, 1),
        (THREE, 50, 139, 1),  # the third best of four
        (THREE, 50, 137, 2),
        (THREE, 22, 138, 1),  # who stands here is not counted twice
        (SEVEN, 50, 100, 3),
        (SEVEN, 50, 127, 3),  # as good as the last, and a higher position
        (SEVEN, 33, 128, 2),
        (SEVEN, 34, 149, 1),  # better than it was: those who are as before make room
        (SEVEN, 21, 100, 2),  # worse
    ],
)
def test_the_level_goes_by_the_number_of_those_who_are_better(
    tree: Tree, node: int, standing: int, wanted: int
) -> None:
    assert Office(tree).tells(node, standing).wanted == wanted


def test_what_is_measured_is_counted_and_not_the_badge() -> None:
    """33 has become the best but the root, and nobody has taken it in as that: the next best belongs behind it."""
    office = Office(THREE)
    office.comes(33, 22, 120, performance=145)
    assert office.tells(22, 138).wanted == 2
    assert office.tells(33, 120, 145).wanted == 1


def test_who_measures_nothing_counts_by_its_badge() -> None:
    office = Office(THREE)
    office.comes(33, 22, 139, performance=0)
    assert office.tells(22, 138).wanted == 2


@pytest.mark.parametrize("name", ["complete", "paper"])
@pytest.mark.parametrize("fanout", [2, 3, 4])
def test_a_level_is_the_number_of_leaders_above_in_a_complete_tree(name: NumberingName, fanout: int) -> None:
    """In either numbering: no leader has more places for being the first one of `paper`."""
    tree = {20 + n: (ROOT, 149 - n) for n in range(12)}
    office = Office(tree, numbering=name, fanout=fanout)
    for better in range(1, 13):
        wanted = office.tells(19, 149 - better + 1).wanted  # a lower position: before its equals
        assert wanted == numbering("complete", fanout).depth(better + 1)
        assert wanted >= 1


def test_a_level_has_no_more_than_there_is_room_for() -> None:
    """`paper` with fan-out 4 would have six on the level below the root, which has five places."""
    office = Office({31 + n: (ROOT, 140 - n) for n in range(5)}, numbering="paper", fanout=4, guest_slots=1)
    office.comes(41, 35, 100)
    assert office.tells(41, 100, 145).swap == ROOT


@pytest.mark.parametrize("numbering_name", ["complete", "paper"])
def test_only_one_is_told_to_be_root(numbering_name: NumberingName) -> None:
    office = Office({}, numbering=numbering_name, fanout=4)
    for node, better in ((21, 160), (22, 170), (23, 180)):
        office.comes(node, ROOT, 140, performance=better)
    told = [node for node, better in ((21, 160), (22, 170), (23, 180)) if office.tells(node, 140, better).wanted == 0]
    assert told == [23]
    assert office.tells(23, 140, 180) == Places((23,), (0,), 0)


def test_the_best_is_not_told_so_before_a_better_one_has_come_down() -> None:
    """The root measures less than it stands by, and has not sunk yet."""
    office = Office(THREE)
    office.roster.state(OWN, Change(ROOT, 0, 0, 1000, 0, 0, standing=ROOT_CLASS, performance=100), 0.0)
    assert office.tells(21, 140).hints != (21,)
    assert office.tells(21, 140).wanted == 1


# -- the place ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "node", "standing", "hints", "levels"),
    [
        (LONE, 50, 100, (10,), (0,)),
        # Who comes: the level above its own first, the nearest there, then the nearest level.
        (THREE, 50, 100, (22, 21, 10), (1, 1, 0)),
        (THREE, 5, 100, (21, 22, 10), (1, 1, 0)),
        (THREE, 50, 139, (10, 21), (0, 1)),  # and 22 does not outrank it
        (SEVEN, 50, 100, (34, 33, 32, 31, 22, 21), (2, 2, 2, 2, 1, 1)),
        # Who stands here: its leader first where it may stay, and nobody else than on that level.
        (SEVEN, 31, 130, (21, 22), (1, 1)),
        (SEVEN, 33, 128, (22, 21), (1, 1)),
        (EIGHT, 41, 129, (22, 21, 31), (1, 1, 2)),  # it could stay, but belongs higher
        (SEVEN, 21, 100, (22, 10), (1, 0)),  # it belongs below its neighbour
        (SEVEN, 34, 139, (10, 21), (0, 1)),  # its own leader does not outrank it any more
    ],
)
def test_places(tree: Tree, node: int, standing: int, hints: tuple[int, ...], levels: tuple[int, ...]) -> None:
    places = Office(tree).tells(node, standing)
    assert dict(zip(places.hints, places.levels, strict=True)) == dict(zip(hints, levels, strict=True))
    assert tuple(dict.fromkeys(places.hints)) == hints


def test_nobody_is_named_twice() -> None:
    hints = Office(SEVEN).tells(31, 130).hints
    assert sorted(set(hints)) == sorted(hints)


def test_those_with_few_subordinates_go_before_those_who_are_near() -> None:
    office = Office({**THREE, 31: (22, 130), 32: (22, 129)})
    assert office.tells(50, 100).hints[:2] == (21, 22)


def test_who_is_full_is_not_named() -> None:
    office = Office({**THREE, **{40 + n: (22, 100) for n in range(4)}})
    assert 22 not in office.tells(50, 90).hints


def test_nobody_is_sent_to_itself() -> None:
    office = Office(THREE)
    office.comes(22, 10, 120, performance=100)
    assert 22 not in office.tells(22, 120, 100).hints


def test_a_level_has_room_also_behind_those_who_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_places, "LOOKED_AT_MAX", 1)
    office = Office({**THREE, **{40 + n: (21, 100) for n in range(4)}})
    assert office.tells(50, 101).hints[0] == 22


# -- giving way ---------------------------------------------------------------------------------------------------

CROWDED: Tree = {
    **THREE,
    23: (10, 120),
    24: (10, 118),
    31: (21, 130),
    32: (21, 129),
    33: (22, 128),
    34: (22, 127),
}  # the root has its four, of whom 23 and 24 belong further down


@pytest.mark.parametrize(
    ("node", "standing", "swap"),
    [
        (50, 145, 10),  # it belongs on level 1, where 23 and 24 stand too high
        (34, 145, 10),
        (50, 119, 0),  # there is room where it belongs
        (23, 145, 0),  # it is there already
    ],
)
def test_giving_way(node: int, standing: int, swap: int) -> None:
    assert Office(CROWDED).tells(node, standing).swap == swap


def test_nobody_gives_way_to_one_whom_it_outranks() -> None:
    """23 has become worse, but wears the badge still: by that it is judged."""
    office = Office(THREE)
    for node, performance in ((23, 100), (24, 101)):
        office.comes(node, 10, 146, performance)
    assert office.tells(50, 145).swap == 0
    assert office.tells(50, 147).swap == 10


def test_the_slowest_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_places, "LOOKED_AT_MAX", 1)
    office = Office(CROWDED)
    office.tells(50, 145)
    assert office.vacancies._rank_places._too_high(1) == [24]


# -- a crowd ------------------------------------------------------------------------------------------------------


def test_ten_thousand_are_seated_without_counting_all_of_them_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One drawing of the plan; then some dozen comparisons for each who asks."""
    office = Office({p: ((p - 2) // 2 + 1 if p > 20 else 10, 120) for p in range(11, 251)})
    office.tells(251, 110)
    counted = 0
    rank = office.context.mapping.rank

    def counting(*words: int) -> tuple[int, int]:
        nonlocal counted
        counted += 1
        return rank(*words)

    monkeypatch.setattr(office.context.mapping, "rank", counting)
    for node in range(252, 262):
        office.tells(node, 110)
    assert counted < 10 * 2 * 240


def test_a_place_whose_promise_has_ended_is_named_again() -> None:
    """Also while no row changes (seed 121, performance)."""
    office = Office(THREE)
    for node, standing in ((41, 146), (42, 145)):
        assert office.vacancies.suggest(node, 0, 1, standing=standing).hints == (ROOT,)
    office.context.now += 0.2
    office.comes(60, 21, 110)  # the plan is drawn anew while both places of the root are promised
    assert ROOT not in office.tells(43, 144).hints
    office.context.now += 10.0
    assert office.tells(43, 144).hints[:1] == (ROOT,)


def test_no_place_is_kept_for_a_node_that_stands_there() -> None:
    """Each question of such a node would cross out another place for a while (seed 1796, performance)."""
    office = Office(THREE)
    for _ in range(2):
        assert office.vacancies.suggest(21, 0, 1, standing=140).hints == (ROOT,)
        assert office.vacancies.suggest(22, 0, 1, standing=138).hints == (ROOT,)
    assert office.tells(43, 144).hints[:1] == (ROOT,)
