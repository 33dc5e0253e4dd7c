"""Who is sent where: rosters built by hand, fan-out 2 and two guest slots, and what the registry office says."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from small_world import SmallWorld

from subord.core.address.network import Network
from subord.core.downlink.vacancies import PLAN_S, RESERVED_ANSWERS, Places, Vacancies
from subord.core.messages import Change
from subord.core.state.context import Context
from subord.core.state.roster import OWN, Roster
from subord.core.state.settings import LAN, Settings

HOME, GUEST = 1, 2
PROMISE_S = RESERVED_ANSWERS * LAN.answer_s
Tree = dict[int, int]  # guest -> leader

LONE: Tree = {}
ONE: Tree = {20: 10}
PAIR: Tree = {33: 10, 48: 10}
FULL: Tree = {**PAIR, 34: 33, 35: 33, 49: 48, 50: 48}  # three full levels: who comes next stands on the fourth
DEEP: Tree = {**FULL, 36: 35}


class Office:
    """The openings of node 10, and the roster they are drawn from."""

    def __init__(self, guests: Tree, *, homes: Tree | None = None, fanout: int = 2) -> None:
        settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=fanout, guest_slots=2)
        self.context = Context(settings, 10, 1000, Random(1), now=0.0)
        self.roster = Roster(10)
        self.vacancies = Vacancies(self.context, self.roster)
        self.roster.state(OWN, Change(10, 0, 0, 1000, 0, 0), 0.0)
        for node, leader in guests.items():
            self.comes(node, leader)
        for node, leader in (homes or {}).items():
            self.comes(node, leader, HOME)

    def comes(self, node: int, leader: int, place: int = GUEST, *, missing: bool = False) -> None:
        self.roster.state(OWN, Change(node, leader, place, 1000, 0, 0, missing=missing), self.context.now)

    def waits(self, seconds: float) -> None:
        self.context.now += seconds

    def suggests(self, node: int, top: int = 0, limit: int = 6) -> Places:
        return self.vacancies.suggest(node, top, limit)


def test_nobody_is_sent_to_a_branch_whose_leader_is_just_moving() -> None:
    """The row of 33 has not come yet, or has just gone: nobody knows how deep 34 stands, surely not on level 1."""
    office = Office({48: 10, 34: 33, 40: 34})
    assert office.suggests(100) == Places((48, 10), (1, 0), 2)  # and neither 34 nor 40
    office.waits(PLAN_S)
    office.comes(33, 10)
    office.suggests(100)
    assert [office.vacancies.level_of(node) for node in (48, 33, 34, 40)] == [1, 1, 2, 3]


# -- newcomers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "node", "wanted", "hints", "levels"),
    [
        (LONE, 100, 1, (10,), (0,)),
        (LONE, 5, 0, (), ()),  # below everybody: nobody here may lead it
        # Whoever leaves it on its level or higher, the nearest in the computed tree first.
        (ONE, 30, 1, (10,), (0,)),
        (PAIR, 100, 2, (48, 33), (1, 1)),
        (PAIR, 70, 2, (33, 48), (1, 1)),
        ({**PAIR, 49: 48}, 100, 2, (48, 33), (1, 1)),
        ({**PAIR, 49: 48, 50: 48}, 110, 2, (33,), (1,)),
        # None fits: the highest, and on one floor the nearest.
        (FULL, 41, 2, (35, 34), (2, 2)),
        (DEEP, 41, 2, (35, 34, 36), (2, 2, 3)),
        (FULL, 200, 3, (50, 49, 35, 34), (2, 2, 2, 2)),
        # No place may lead it at all: somebody must be displaced, and that is not for this office.
        (FULL, 25, 1, (), ()),
    ],
)
def test_a_newcomer_is_sent_to(
    tree: Tree, node: int, wanted: int, hints: tuple[int, ...], levels: tuple[int, ...]
) -> None:
    places = Office(tree).suggests(node)
    assert (places.wanted, places.hints, places.levels) == (wanted, hints, levels)


def test_no_more_hints_than_asked_for() -> None:
    assert Office(FULL).suggests(200, limit=2).hints == (50, 49)


# -- home ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "hints"),
    [
        ({50: 10}, (50, 10)),
        ({50: 10, 60: 50, 70: 50}, (50, 10)),  # its guests take no room from those at home
        ({50: 10, 60: 10, 70: 50, 80: 50}, (50, 60)),
        ({60: 10}, (10,)),  # home is not there
    ],
)
def test_home_comes_first_when_it_lives(tree: Tree, hints: tuple[int, ...]) -> None:
    assert Office(tree).suggests(100).hints[: len(hints)] == hints


def test_a_home_that_is_missing_is_not_suggested() -> None:
    office = Office({60: 10})
    office.comes(50, 10, missing=True)
    assert 50 not in office.suggests(100).hints


def test_who_is_at_home_takes_no_guest_slot() -> None:
    assert Office({30: 10}, homes={20: 10, 21: 10}).suggests(40).hints[-1:] == (10,)


# -- residents ----------------------------------------------------------------------------------------------------

LINE: Tree = {**PAIR, 34: 33, 35: 34, 36: 35, 37: 36, 38: 37}  # 33 leads a long file


@pytest.mark.parametrize(
    ("fanout", "node", "wanted"),
    [
        # Eight live, who fill levels 0 to 3 with fan-out 2: the last of a party may stand on level 5.
        (2, 38, 5),
        (2, 37, 4),
        (2, 35, 2),
        (2, 34, 1),
        (2, 33, 1),  # never the root's own place
        (2, 48, 5),
        # With fan-out 4 they fill levels 0 to 2, and the last may stand on level 3.
        (4, 38, 3),
        (4, 36, 1),
    ],
)
def test_a_resident_belongs_so_high_that_the_last_of_its_party_does_not_hang_out(
    fanout: int, node: int, wanted: int
) -> None:
    assert Office(LINE, fanout=fanout).suggests(node).wanted == wanted


@pytest.mark.parametrize(
    ("node", "level", "expected"), [(38, 9, True), (38, 4, True), (38, 3, False), (38, 1, False), (25, 9, False)]
)
def test_a_gain_is_two_levels(node: int, level: int, expected: bool) -> None:
    """The room that is left is below level 1, and nobody who has room may lead 25."""
    assert Office(PAIR).suggests(node).is_gain(level) is expected


# -- levels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [0, 3])
def test_levels_are_those_of_the_real_tree(top: int) -> None:
    office = Office(DEEP)
    assert office.suggests(41, top).levels == (2 + top, 2 + top, 3 + top)
    found = {p: office.vacancies.level_of(p) for p in (10, 33, 48, 35, 36)}
    assert found == {10: top, 33: top + 1, 48: top + 1, 35: top + 2, 36: top + 3}
    assert office.vacancies.level_of(99) == 0


def test_the_plan_is_drawn_anew_when_the_register_has_changed() -> None:
    office = Office(ONE)
    assert office.suggests(70).hints == (10,)
    office.comes(30, 10)  # and now 10 is full
    office.waits(PLAN_S)
    assert set(office.suggests(70).hints) == {20, 30}


# -- promises -------------------------------------------------------------------------------------------------------


def test_two_are_not_sent_to_the_same_last_place() -> None:
    office = Office(ONE)
    assert [office.suggests(node).hints for node in (30, 31, 32)] == [(10,), (20,), (20,)]


def test_who_asks_again_is_told_the_same() -> None:
    office = Office(ONE)
    assert [office.suggests(30).hints for _ in range(3)] == [(10,)] * 3


def test_a_place_is_promised_as_often_as_there_is_room() -> None:
    assert [(office := Office(LONE)).suggests(30).hints, office.suggests(31).hints, office.suggests(32).hints] == [
        (10,),
        (10,),
        (),
    ]


@pytest.mark.parametrize(
    ("stands_at", "soon", "later"),
    [
        (10, {20, 30}, {20, 30}),  # it took the place
        (20, {20}, {10, 20}),  # it stands elsewhere: the promise holds until it has had time to move on
    ],
)
def test_a_promise_ends_when_the_node_stands_there(stands_at: int, soon: set[int], later: set[int]) -> None:
    office = Office(ONE)
    assert office.suggests(30).hints == (10,)
    office.comes(30, stands_at)
    office.waits(PLAN_S)
    assert set(office.suggests(70).hints) == soon
    office.comes(200, 30)
    office.waits(PROMISE_S)
    assert set(office.suggests(71).hints) == later


@pytest.mark.parametrize("something_changed", [True, False])
def test_a_promise_ends_after_two_answers(something_changed: bool) -> None:
    """30 never came: the place is free for others, whether or not the register has changed meanwhile."""
    office = Office(ONE)
    assert office.suggests(30).hints == (10,)
    office.waits(PROMISE_S / 2)
    assert office.suggests(31).hints == (20,)
    if something_changed:
        office.comes(200, 20)
    office.waits(PROMISE_S / 2 + 0.01)
    assert 10 in office.suggests(70).hints


# -- swap -----------------------------------------------------------------------------------------------------------

PARTY: Tree = {15: 10, 40: 10, 16: 15, 17: 15, 30: 16, 31: 30, 32: 30, 33: 31, 41: 40}  # 30 brings four along


@pytest.mark.parametrize(
    ("tree", "node", "level", "leader"),
    [
        # 40 ranks above 30 and brings two: it gives way to four.
        (PARTY, 30, 1, 10),
        (PARTY, 30, 0, 0),  # nobody who is full stands above that level
        (PARTY, 30, -1, 0),
        # Not to three, who are not twice as many.
        ({p: leader for p, leader in PARTY.items() if p != 33}, 30, 1, 0),
        # Nor when it brings three itself.
        ({**PARTY, 42: 40}, 30, 1, 0),
        # The leader has a free slot: there is nothing to swap.
        ({p: leader for p, leader in PARTY.items() if p not in (40, 41)}, 30, 1, 0),
        # The guest ranks below the asker, and the asker cannot lead it.
        ({15: 10, 20: 10, 16: 15, 17: 15, 30: 16, 31: 30, 32: 30, 33: 31}, 30, 1, 0),
        # The leader ranks above the asker.
        ({15: 10, 50: 10, 16: 15, 20: 15, 30: 16, 31: 16, 60: 50, 61: 50, 32: 30}, 55, 2, 0),
        # One floor further down there is one.
        ({15: 10, 16: 10, 40: 15, 41: 15, 17: 16, 18: 16, 30: 17, 31: 30}, 30, 1, 0),
        ({15: 10, 16: 10, 40: 15, 41: 15, 17: 16, 18: 16, 30: 17, 31: 30}, 30, 2, 15),
        ({15: 10, 16: 10, 40: 15, 41: 15, 17: 16, 18: 16, 30: 17, 31: 30}, 30, 99, 15),
    ],
)
def test_swap(tree: Tree, node: int, level: int, leader: int) -> None:
    office = Office(tree)
    office.suggests(node)  # which draws the plan
    assert office.vacancies.swap(node, level) == leader


def test_who_is_at_home_gives_way_to_nobody() -> None:
    office = Office({15: 10, 16: 10, 30: 16, 31: 30, 32: 31}, homes={20: 10})
    office.suggests(30)
    assert office.vacancies.swap(30, 1) == 0


def test_a_resident_that_would_gain_nothing_keeps_no_place_from_others() -> None:
    """It asks again and again, and does not move: the place must stay free for one who would (campaign seed 191)."""
    office = Office(ONE)
    assert office.suggests(20).hints[0] == 10
    assert office.suggests(30).hints[0] == 10


def test_a_node_that_is_refused_hears_last_of_the_root_and_of_our_leader_only_when_we_are_cut_off() -> None:
    world = SmallWorld.dense(31, 2)
    world.run(30)
    node = world.nodes[8]
    assert node.uplink.path == (1, 2, 4)
    assert node.downlink.hints(200) == (17, 16, 1)
    leader = node.uplink.leader
    assert leader is not None
    leader.guidance = msgspec.structs.replace(leader.guidance, adrift=True)
    assert node.downlink.hints(200) == (17, 16, 1, 4)
