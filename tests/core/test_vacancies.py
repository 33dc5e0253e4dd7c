"""Advice on free places, from rosters built by hand: fan-out 2 and two guest slots (core/vacancies/vacancies.py)."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from loops import over
from small_world import SmallWorld

from subord.core.address.network import Network
from subord.core.messages import Change
from subord.core.settings import LAN, Settings
from subord.core.state.context import Context
from subord.core.state.roster import OWN, Roster
from subord.core.vacancies.vacancies import PLAN_S, RESERVED_ANSWERS, Places, Vacancies

HOME, GUEST = 1, 2
RESERVED_S = RESERVED_ANSWERS * LAN.answer_s
Tree = dict[int, int]  # guest -> leader

LONE: Tree = {}
ONE: Tree = {20: 10}
PAIR: Tree = {33: 10, 48: 10}
FULL: Tree = {**PAIR, 34: 33, 35: 33, 49: 48, 50: 48}  # three full levels: a newcomer stands on the fourth
DEEP: Tree = {**FULL, 36: 35}


class PlacesRoster:
    """The free places below node 10, and the roster from which they follow."""

    def __init__(self, guests: Tree, *, homes: Tree | None = None, fanout: int = 2) -> None:
        settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=fanout, guest_slots=2)
        self.context = Context(settings, 10, 1000, Random(1), now=0.0)
        self.roster = Roster(10)
        self.vacancies = Vacancies(self.context, self.roster)
        self.roster.state(OWN, Change(10, 0, 0, 1000, 0, 0), 0.0)
        for node, leader in guests.items():
            self.add(node, leader)
        for node, leader in (homes or {}).items():
            self.add(node, leader, HOME)

    def add(self, node: int, leader: int, place: int = GUEST, *, missing: bool = False) -> None:
        self.roster.state(OWN, Change(node, leader, place, 1000, 0, 0, missing=missing), self.context.now)

    def advance(self, seconds: float) -> None:
        self.context.now += seconds

    def suggest(self, node: int, top: int = 0, limit: int = 6) -> Places:
        return self.vacancies.suggest(node, top, limit)


def test_no_node_is_sent_to_a_branch_whose_leader_is_moving() -> None:
    """The row of 33 is late, or has just gone: the level of 34 is unknown, and surely not 1."""
    places = PlacesRoster({48: 10, 34: 33, 40: 34})
    assert places.suggest(100) == Places((48, 10), (1, 0), 2)  # and neither 34 nor 40
    places.advance(PLAN_S)
    places.add(33, 10)
    places.suggest(100)
    assert [places.vacancies.level_of(node) for node in (48, 33, 34, 40)] == [1, 1, 2, 3]


# -- newcomers ----------------------------------------------------------------------------------------------------


@over(
    ("tree", "node", "wanted", "hints", "levels"),
    [
        (LONE, 100, 1, (10,), (0,)),
        (LONE, 5, 0, (), ()),  # lower than all: no node here may lead it
        # Places on the wanted level or higher, the nearest in the computed tree first.
        (ONE, 30, 1, (10,), (0,)),
        (PAIR, 100, 2, (48, 33), (1, 1)),
        (PAIR, 70, 2, (33, 48), (1, 1)),
        ({**PAIR, 49: 48}, 100, 2, (48, 33), (1, 1)),
        ({**PAIR, 49: 48, 50: 48}, 110, 2, (33,), (1,)),
        # None of them: the highest places, and on one level the nearest.
        (FULL, 41, 2, (35, 34), (2, 2)),
        (DEEP, 41, 2, (35, 34, 36), (2, 2, 3)),
        (FULL, 200, 3, (50, 49, 35, 34), (2, 2, 2, 2)),
        # No leader may lead it: a guest must be displaced, which is not decided here.
        (FULL, 25, 1, (), ()),
    ],
)
def test_a_newcomer_is_sent_to(
    tree: Tree, node: int, wanted: int, hints: tuple[int, ...], levels: tuple[int, ...]
) -> None:
    places = PlacesRoster(tree).suggest(node)
    assert (places.wanted, places.hints, places.levels) == (wanted, hints, levels)


def test_no_more_hints_than_asked_for() -> None:
    assert PlacesRoster(FULL).suggest(200, limit=2).hints == (50, 49)


# -- home ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "hints"),
    [
        ({50: 10}, (50, 10)),
        ({50: 10, 60: 50, 70: 50}, (50, 10)),  # guests take no slots from those at home
        ({50: 10, 60: 10, 70: 50, 80: 50}, (50, 60)),
        ({60: 10}, (10,)),  # the home is not there
    ],
)
def test_home_comes_first_when_it_lives(tree: Tree, hints: tuple[int, ...]) -> None:
    assert PlacesRoster(tree).suggest(100).hints[: len(hints)] == hints


def test_a_home_that_is_missing_is_not_suggested() -> None:
    places = PlacesRoster({60: 10})
    places.add(50, 10, missing=True)
    assert 50 not in places.suggest(100).hints


def test_a_node_at_home_takes_no_guest_slot() -> None:
    assert PlacesRoster({30: 10}, homes={20: 10, 21: 10}).suggest(40).hints[-1:] == (10,)


# -- residents ----------------------------------------------------------------------------------------------------

LINE: Tree = {**PAIR, 34: 33, 35: 34, 36: 35, 37: 36, 38: 37}  # 33 leads a long line


@over(
    ("fanout", "node", "wanted"),
    [
        # Eight live, which fill levels 0 to 3 with fan-out 2: the last of a party may stand on level 5.
        (2, 38, 5),
        (2, 37, 4),
        (2, 35, 2),
        (2, 34, 1),
        (2, 33, 1),  # never the level of the root
        (2, 48, 5),
        # With fan-out 4 they fill levels 0 to 2, and the last may stand on level 3.
        (4, 38, 3),
        (4, 36, 1),
    ],
)
def test_the_wanted_level_of_a_resident(fanout: int, node: int, wanted: int) -> None:
    assert PlacesRoster(LINE, fanout=fanout).suggest(node).wanted == wanted


@over(("node", "level", "expected"), [(38, 9, True), (38, 4, True), (38, 3, False), (38, 1, False), (25, 9, False)])
def test_a_gain_is_two_levels(node: int, level: int, expected: bool) -> None:
    """The free place is below level 1, and no leader with room may lead 25."""
    assert PlacesRoster(PAIR).suggest(node).is_gain(level) is expected


# -- levels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [0, 3])
def test_levels_are_those_of_the_real_tree(top: int) -> None:
    places = PlacesRoster(DEEP)
    assert places.suggest(41, top).levels == (2 + top, 2 + top, 3 + top)
    found = {p: places.vacancies.level_of(p) for p in (10, 33, 48, 35, 36)}
    assert found == {10: top, 33: top + 1, 48: top + 1, 35: top + 2, 36: top + 3}
    assert places.vacancies.level_of(99) == 0


def test_places_follow_changes_of_the_roster() -> None:
    places = PlacesRoster(ONE)
    assert places.suggest(70).hints == (10,)
    places.add(30, 10)  # and now 10 is full
    places.advance(PLAN_S)
    assert set(places.suggest(70).hints) == {20, 30}


# -- reservations ---------------------------------------------------------------------------------------------------


def test_two_nodes_are_not_sent_to_the_same_last_place() -> None:
    places = PlacesRoster(ONE)
    assert [places.suggest(node).hints for node in (30, 31, 32)] == [(10,), (20,), (20,)]


def test_a_repeated_question_gets_the_same_answer() -> None:
    places = PlacesRoster(ONE)
    assert [places.suggest(30).hints for _ in range(3)] == [(10,)] * 3


def test_a_place_is_reserved_as_often_as_there_is_room() -> None:
    assert [(places := PlacesRoster(LONE)).suggest(30).hints, places.suggest(31).hints, places.suggest(32).hints] == [
        (10,),
        (10,),
        (),
    ]


@pytest.mark.parametrize(
    ("stands_at", "soon", "later"),
    [
        (10, {20, 30}, {20, 30}),  # it took the place
        (20, {20}, {10, 20}),  # it stands elsewhere: the reservation holds until it had time to move
    ],
)
def test_a_reservation_ends_when_the_node_stands_there(stands_at: int, soon: set[int], later: set[int]) -> None:
    places = PlacesRoster(ONE)
    assert places.suggest(30).hints == (10,)
    places.add(30, stands_at)
    places.advance(PLAN_S)
    assert set(places.suggest(70).hints) == soon
    places.add(200, 30)
    places.advance(RESERVED_S)
    assert set(places.suggest(71).hints) == later


@pytest.mark.parametrize("something_changed", [True, False])
def test_a_reservation_ends_after_two_answers(something_changed: bool) -> None:
    """30 never came: the place is free for others, whether or not the roster has changed meanwhile."""
    places = PlacesRoster(ONE)
    assert places.suggest(30).hints == (10,)
    places.advance(RESERVED_S / 2)
    assert places.suggest(31).hints == (20,)
    if something_changed:
        places.add(200, 20)
    places.advance(RESERVED_S / 2 + 0.01)
    assert 10 in places.suggest(70).hints


# -- swap -----------------------------------------------------------------------------------------------------------

# The party of 30 has five nodes.
PARTY: Tree = {15: 10, 40: 10, 16: 15, 17: 15, 30: 16, 31: 30, 32: 30, 33: 31, 41: 40}


@over(
    ("tree", "node", "level", "leader"),
    [
        # 40 ranks above 30 and its party has two nodes: it gives way to one of four.
        (PARTY, 30, 1, 10),
        (PARTY, 30, 0, 0),  # no full leader above that level
        (PARTY, 30, -1, 0),
        # Not to a party of three, which is not twice as large.
        ({p: leader for p, leader in PARTY.items() if p != 33}, 30, 1, 0),
        # Nor with a party of three itself.
        ({**PARTY, 42: 40}, 30, 1, 0),
        # The leader has a free slot: no swap is needed.
        ({p: leader for p, leader in PARTY.items() if p not in (40, 41)}, 30, 1, 0),
        # The guest ranks below the asker, and the asker cannot lead it.
        ({15: 10, 20: 10, 16: 15, 17: 15, 30: 16, 31: 30, 32: 30, 33: 31}, 30, 1, 0),
        # The leader ranks above the asker.
        ({15: 10, 50: 10, 16: 15, 20: 15, 30: 16, 31: 16, 60: 50, 61: 50, 32: 30}, 55, 2, 0),
        # One level further down there is one.
        ({15: 10, 16: 10, 40: 15, 41: 15, 17: 16, 18: 16, 30: 17, 31: 30}, 30, 1, 0),
        ({15: 10, 16: 10, 40: 15, 41: 15, 17: 16, 18: 16, 30: 17, 31: 30}, 30, 2, 15),
        ({15: 10, 16: 10, 40: 15, 41: 15, 17: 16, 18: 16, 30: 17, 31: 30}, 30, 99, 15),
    ],
)
def test_swap(tree: Tree, node: int, level: int, leader: int) -> None:
    places = PlacesRoster(tree)
    places.suggest(node)  # which updates the index
    assert places.vacancies.swap(node, level) == leader


def test_a_node_at_home_does_not_give_way() -> None:
    places = PlacesRoster({15: 10, 16: 10, 30: 16, 31: 30, 32: 31}, homes={20: 10})
    places.suggest(30)
    assert places.vacancies.swap(30, 1) == 0


def test_no_place_is_reserved_for_a_resident_without_a_gain() -> None:
    """It asks again and again, and does not move: the place must stay free for others (campaign seed 191)."""
    places = PlacesRoster(ONE)
    assert places.suggest(20).hints[0] == 10
    assert places.suggest(30).hints[0] == 10


def test_a_refusal_names_the_root_last_and_the_own_leader_only_without_a_root() -> None:
    world = SmallWorld.dense(31, 2)
    world.run(30)
    node = world.nodes[8]
    assert node.uplink.path == (1, 2, 4)
    assert node.downlink.hints(200) == (17, 16, 1)
    leader = node.uplink.leader
    assert leader is not None
    leader.guidance = msgspec.structs.replace(leader.guidance, adrift=True)
    assert node.downlink.hints(200) == (17, 16, 1, 4)


def test_a_repeated_question_frees_one_reservation() -> None:
    """Both places of 10 are reserved, and stay so when one of the two nodes asks again."""
    places = PlacesRoster(LONE)
    assert [places.suggest(node).hints for node in (30, 31, 30, 32)] == [(10,), (10,), (10,), ()]
