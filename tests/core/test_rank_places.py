"""The places that a root advises by performance, from rosters built by hand (core/mapping/rank_places.py)."""

from __future__ import annotations

from random import Random

import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.address.numbering import numbering
from subord.core.mapping import rank_places
from subord.core.messages import Change
from subord.core.settings import NumberingName, Settings
from subord.core.state.context import Context
from subord.core.state.roster import OWN, Roster
from subord.core.vacancies.vacancies import Places, Vacancies

ROOT, ROOT_CLASS = 10, 150
Tree = dict[int, tuple[int, int]]  # node -> (leader, class by which it stands and which it measures)

# Fan-out 2 and two guest slots: a leader has four places, of which the last two exceed a full level.
LONE: Tree = {}
THREE: Tree = {21: (10, 140), 22: (10, 138)}
SEVEN: Tree = {**THREE, 31: (21, 130), 32: (21, 129), 33: (22, 128), 34: (22, 127)}
EIGHT: Tree = {**SEVEN, 41: (31, 120)}


class RankedRoster:
    """The advice of node 10, and the roster from which it follows."""

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
            self.add(node, leader, standing)

    def add(self, node: int, leader: int, standing: int, performance: int | None = None) -> None:
        measured = standing if performance is None else performance
        change = Change(node, leader, 2, 1000, 0, 0, standing=standing, performance=measured)
        self.roster.state(OWN, change, self.context.now)

    def suggest(self, node: int, standing: int, performance: int | None = None, limit: int = 6) -> Places:
        measured = standing if performance is None else performance
        return self.vacancies.suggest(node, 0, limit, reserve=False, standing=standing, performance=measured)


# -- the level ----------------------------------------------------------------------------------------------------


@over(
    ("tree", "node", "standing", "wanted"),
    [
        (LONE, 50, 100, 1),
        (THREE, 50, 139, 1),  # the third best of four
        (THREE, 50, 137, 2),
        (THREE, 22, 138, 1),  # a node in the roster is not counted twice
        (SEVEN, 50, 100, 3),
        (SEVEN, 50, 127, 3),  # as good as the last, and a higher position
        (SEVEN, 33, 128, 2),
        (SEVEN, 34, 149, 1),  # better than before: it displaces others in the order
        (SEVEN, 21, 100, 2),  # worse
    ],
)
def test_the_level_follows_from_the_number_of_better_nodes(tree: Tree, node: int, standing: int, wanted: int) -> None:
    assert RankedRoster(tree).suggest(node, standing).wanted == wanted


def test_measured_classes_count_and_not_standings() -> None:
    """33 has become the best after the root but stands as before: the next best belongs behind it."""
    ranked = RankedRoster(THREE)
    ranked.add(33, 22, 120, performance=145)
    assert ranked.suggest(22, 138).wanted == 2
    assert ranked.suggest(33, 120, 145).wanted == 1


def test_a_node_that_measures_nothing_counts_by_its_standing() -> None:
    ranked = RankedRoster(THREE)
    ranked.add(33, 22, 139, performance=0)
    assert ranked.suggest(22, 138).wanted == 2


@over("name", ["complete", "paper"])
@over("fanout", [2, 3, 4])
def test_a_level_is_the_number_of_leaders_above_in_a_complete_tree(name: NumberingName, fanout: int) -> None:
    """With both numberings: the first leader of `paper` has no more places than others here."""
    tree = {20 + n: (ROOT, 149 - n) for n in range(12)}
    ranked = RankedRoster(tree, numbering=name, fanout=fanout)
    for better in range(1, 13):
        wanted = ranked.suggest(19, 149 - better + 1).wanted  # a lower position, so before its equals
        assert wanted == numbering("complete", fanout).depth(better + 1)
        assert wanted >= 1


def test_a_level_holds_no_more_than_its_places() -> None:
    """`paper` with fan-out 4 would have six on the level below the root, which has five places."""
    ranked = RankedRoster({31 + n: (ROOT, 140 - n) for n in range(5)}, numbering="paper", fanout=4, guest_slots=1)
    ranked.add(41, 35, 100)
    assert ranked.suggest(41, 100, 145).swap == ROOT


@pytest.mark.parametrize("numbering_name", ["complete", "paper"])
def test_only_one_is_told_to_be_root(numbering_name: NumberingName) -> None:
    ranked = RankedRoster({}, numbering=numbering_name, fanout=4)
    for node, better in ((21, 160), (22, 170), (23, 180)):
        ranked.add(node, ROOT, 140, performance=better)
    best = [
        node for node, better in ((21, 160), (22, 170), (23, 180)) if ranked.suggest(node, 140, better).wanted == 0
    ]
    assert best == [23]
    assert ranked.suggest(23, 140, 180) == Places((23,), (0,), 0)


def test_the_best_is_not_told_so_before_a_better_root_has_sunk() -> None:
    """The root measures less than it stands by, and has not sunk yet."""
    ranked = RankedRoster(THREE)
    ranked.roster.state(OWN, Change(ROOT, 0, 0, 1000, 0, 0, standing=ROOT_CLASS, performance=100), 0.0)
    assert ranked.suggest(21, 140).hints != (21,)
    assert ranked.suggest(21, 140).wanted == 1


# -- the place ----------------------------------------------------------------------------------------------------


@over(
    ("tree", "node", "standing", "hints", "levels"),
    [
        (LONE, 50, 100, (10,), (0,)),
        # A newcomer: the level above its own first, the nearest there, then the nearest level.
        (THREE, 50, 100, (22, 21, 10), (1, 1, 0)),
        (THREE, 5, 100, (21, 22, 10), (1, 1, 0)),
        (THREE, 50, 139, (10, 21), (0, 1)),  # 22 does not outrank it
        (SEVEN, 50, 100, (34, 33, 32, 31, 22, 21), (2, 2, 2, 2, 1, 1)),
        # A resident: its leader first where it may stay, and others of that level only.
        (SEVEN, 31, 130, (21, 22), (1, 1)),
        (SEVEN, 33, 128, (22, 21), (1, 1)),
        (EIGHT, 41, 129, (22, 21, 31), (1, 1, 2)),  # it could stay, but belongs higher
        (SEVEN, 21, 100, (22, 10), (1, 0)),  # it belongs below its neighbour
        (SEVEN, 34, 139, (10, 21), (0, 1)),  # its own leader no longer outranks it
    ],
)
def test_places(tree: Tree, node: int, standing: int, hints: tuple[int, ...], levels: tuple[int, ...]) -> None:
    places = RankedRoster(tree).suggest(node, standing)
    assert dict(zip(places.hints, places.levels, strict=True)) == dict(zip(hints, levels, strict=True))
    assert tuple(dict.fromkeys(places.hints)) == hints


def test_no_leader_is_named_twice() -> None:
    hints = RankedRoster(SEVEN).suggest(31, 130).hints
    assert sorted(set(hints)) == sorted(hints)


def test_leaders_with_few_subordinates_precede_near_ones() -> None:
    ranked = RankedRoster({**THREE, 31: (22, 130), 32: (22, 129)})
    assert ranked.suggest(50, 100).hints[:2] == (21, 22)


def test_full_leaders_are_not_named() -> None:
    ranked = RankedRoster({**THREE, **{40 + n: (22, 100) for n in range(4)}})
    assert 22 not in ranked.suggest(50, 90).hints


def test_no_node_is_sent_to_itself() -> None:
    ranked = RankedRoster(THREE)
    ranked.add(22, 10, 120, performance=100)
    assert 22 not in ranked.suggest(22, 120, 100).hints


def test_room_is_found_behind_full_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_places, "LOOKED_AT_MAX", 1)
    ranked = RankedRoster({**THREE, **{40 + n: (21, 100) for n in range(4)}})
    assert ranked.suggest(50, 101).hints[0] == 22


# -- giving way ---------------------------------------------------------------------------------------------------

CROWDED: Tree = {
    **THREE,
    23: (10, 120),
    24: (10, 118),
    31: (21, 130),
    32: (21, 129),
    33: (22, 128),
    34: (22, 127),
}  # the root has its four, of which 23 and 24 belong further down


@pytest.mark.parametrize(
    ("node", "standing", "swap"),
    [
        (50, 145, 10),  # it belongs on level 1, where 23 and 24 stand too high
        (34, 145, 10),
        (50, 119, 0),  # its level has room
        (23, 145, 0),  # it stands there already
    ],
)
def test_giving_way(node: int, standing: int, swap: int) -> None:
    assert RankedRoster(CROWDED).suggest(node, standing).swap == swap


def test_no_node_gives_way_to_a_higher_rank() -> None:
    """23 has become worse but stands as before: its standing counts."""
    ranked = RankedRoster(THREE)
    for node, performance in ((23, 100), (24, 101)):
        ranked.add(node, 10, 146, performance)
    assert ranked.suggest(50, 145).swap == 0
    assert ranked.suggest(50, 147).swap == 10


def test_the_slowest_is_considered_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_places, "LOOKED_AT_MAX", 1)
    ranked = RankedRoster(CROWDED)
    ranked.suggest(50, 145)
    assert ranked.vacancies._plan._too_high(1) == [24]


# -- many nodes ---------------------------------------------------------------------------------------------------


def test_with_ten_thousand_nodes_a_question_costs_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places are computed once; then each question takes some dozen comparisons."""
    ranked = RankedRoster({p: ((p - 2) // 2 + 1 if p > 20 else 10, 120) for p in range(11, 251)})
    ranked.suggest(251, 110)
    counted = 0
    rank = ranked.context.mapping.rank

    def counting(*words: int) -> tuple[int, int]:
        nonlocal counted
        counted += 1
        return rank(*words)

    monkeypatch.setattr(ranked.context.mapping, "rank", counting)
    for node in range(252, 262):
        ranked.suggest(node, 110)
    assert counted < 10 * 2 * 240


def test_a_place_whose_reservation_has_ended_is_named_again() -> None:
    """Also while no row changes (seed 121, performance)."""
    ranked = RankedRoster(THREE)
    for node, standing in ((41, 146), (42, 145)):
        assert ranked.vacancies.suggest(node, 0, 1, standing=standing).hints == (ROOT,)
    ranked.context.now += 0.2
    ranked.add(60, 21, 110)  # the places are computed anew while both places of the root are reserved
    assert ROOT not in ranked.suggest(43, 144).hints
    ranked.context.now += 10.0
    assert ranked.suggest(43, 144).hints[:1] == (ROOT,)


def test_no_place_is_reserved_for_a_node_that_stands_there() -> None:
    """Each question of such a node would reserve another place for a while (seed 1796, performance)."""
    ranked = RankedRoster(THREE)
    for _ in range(2):
        assert ranked.vacancies.suggest(21, 0, 1, standing=140).hints == (ROOT,)
        assert ranked.vacancies.suggest(22, 0, 1, standing=138).hints == (ROOT,)
    assert ranked.suggest(43, 144).hints[:1] == (ROOT,)


def test_no_place_is_reserved_for_a_node_that_will_not_move() -> None:
    """It stands a level off and stays; its looks kept the last place from another one (seed 489, performance)."""
    ranked = RankedRoster({21: (10, 140), 22: (10, 120), 23: (10, 119), 31: (22, 130)})
    assert ranked.vacancies.suggest(31, 0, 1, standing=130).hints == (ROOT,)
    assert ranked.suggest(43, 135).hints[:1] == (ROOT,)
    assert ranked.vacancies.suggest(31, 0, 1, standing=130, performance=131).hints == (ROOT,)
    assert ROOT not in ranked.suggest(43, 135).hints, "it has a new class, and will move"
