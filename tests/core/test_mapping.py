"""Rank and preference of each mapping (core/mapping/), and their effect on the slots of a leader."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from guests import listed
from loops import over

from subord.core.address.network import Network
from subord.core.edges.slots import Granted, Slots, Verdict
from subord.core.mapping.latency import REST_FACTOR
from subord.core.mapping.mapping import Mapping
from subord.core.mapping.registry import MAPPINGS, MappingName
from subord.core.messages import Advice, No, Wish
from subord.core.quantize import UNKNOWN
from subord.core.settings import LAN, NumberingName, Settings
from subord.core.view import Place

OWNER = 20
CLASSES = {10: 120, 30: 140, 40: 130}  # the classes that were heard


def mapping_of(
    name: MappingName, own: int = 130, *, owner: int = OWNER, numbering: NumberingName = "complete"
) -> Mapping:
    network = Network.parse("10.0.0.0/24")
    mapping = MAPPINGS[name](
        Settings(network=network, fanout=2, guest_slots=2, mapping=name, numbering_name=numbering), owner
    )
    for position, standing in CLASSES.items():
        mapping.rank_classes.heard(position, standing)
    mapping.rank_classes.own = own if name == "performance" else UNKNOWN
    return mapping


# -- rank -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("ip", [10, 20, 30, 40, 50]),
        ("latency", [10, 20, 30, 40, 50]),
        ("performance", [30, 20, 40, 10, 50]),  # 20 and 40 have the same class; that of 50 is unknown
    ],
)
def test_the_order_of_rank(name: MappingName, order: list[int]) -> None:
    mapping = mapping_of(name)
    assert sorted((10, 20, 30, 40, 50), key=mapping.rank) == order
    for place, position in enumerate(order):
        assert [p for p in order if mapping.may_lead(p, position)] == order[:place]


@pytest.mark.parametrize("name", ["ip", "performance", "latency"])
def test_no_node_leads_itself_and_zero_leads_none(name: MappingName) -> None:
    mapping = mapping_of(name)
    assert not mapping.may_lead(OWNER, OWNER)
    assert not mapping.may_lead(0, OWNER)
    assert not mapping.might_lead(0)


@pytest.mark.parametrize(
    ("name", "might"),
    [("ip", {10}), ("latency", {10}), ("performance", {30, 50, 5})],  # 50 and 5 have stated no class
)
def test_which_nodes_might_lead_the_owner(name: MappingName, might: set[int]) -> None:
    mapping = mapping_of(name)
    some = (5, 10, 30, 40, 50) if name == "performance" else (10, 30, 40, 50)
    assert {p for p in some if mapping.might_lead(p)} == might
    assert set(mapping.in_order(OWNER, some)) == might


def test_for_others_only_what_is_known_counts() -> None:
    assert mapping_of("performance").in_order(10, (5, 20, 30, 40, 50)) == [20, 30, 40]


def test_a_standing_that_is_given_goes_before_what_was_heard() -> None:
    mapping = mapping_of("performance")
    assert mapping.rank(30, 100) > mapping.rank(10)
    assert mapping_of("latency").rank(30, 100) == mapping_of("latency").rank(30)


@pytest.mark.parametrize(("sinks_to", "as_leader"), [(255, 130), (120, 120), (140, 130), (UNKNOWN, UNKNOWN)], ids=str)
def test_towards_subordinates_the_worse_class_counts(sinks_to: int, as_leader: int) -> None:
    mapping = mapping_of("performance")
    mapping.rank_classes.sinks_to = sinks_to
    assert mapping.leading_rank() == (-as_leader, OWNER)


# -- homes ----------------------------------------------------------------------------------------------------------


@over("numbering", ["complete", "paper"])
@over("name", ["ip", "performance", "latency"])
def test_only_addresses_make_homes(name: MappingName, numbering: NumberingName) -> None:
    mapping = mapping_of(name, numbering=numbering)
    assert (mapping.home_of(OWNER) is not None) is (name == "ip")
    assert bool(list(mapping.at_home_below(OWNER))) is (name == "ip")
    assert mapping.first_of(OWNER) == 10  # the first candidate is the same


# -- slots ----------------------------------------------------------------------------------------------------------


def slots_of(taken: dict[int, int], own: int = 130) -> Slots:
    mapping = mapping_of("performance", own)
    mapping.guest_places = 2
    slots = Slots(OWNER, mapping)
    for node, standing in taken.items():
        slots.taken[node] = listed(node, standing)
    return slots


FULL = {11: 120, 12: 110}


@over(
    ("taken", "node", "standing", "wish", "verdict"),
    [
        ({}, 10, 120, Wish.GUEST, Granted(Place.GUEST)),
        ({}, 10, 130, Wish.GUEST, No.RANK),  # the same class, and a lower position
        ({}, 40, 130, Wish.GUEST, Granted(Place.GUEST)),
        ({}, 40, 131, Wish.GUEST, No.RANK),
        ({}, 30, 120, Wish.GUEST, Granted(Place.GUEST)),  # its own statement counts
        ({}, 10, 120, Wish.HOME, Granted(Place.GUEST)),
        ({}, 41, 120, Wish.HOME, Granted(Place.GUEST)),  # a computed subordinate without homes
        (FULL, 13, 125, Wish.GUEST, No.FULL),
        (FULL, 11, 125, Wish.GUEST, Granted(Place.GUEST)),  # it has risen, and stays
        (FULL, 11, 131, Wish.GUEST, No.RANK),
        (FULL, 13, 125, Wish.DISPLACE, Granted(Place.GUEST, evicted=12)),
        (FULL, 13, 115, Wish.DISPLACE, Granted(Place.GUEST, evicted=12)),
        (FULL, 13, 110, Wish.DISPLACE, No.FULL),
        (FULL, 13, 109, Wish.DISPLACE, No.FULL),
    ],
)
def test_judge(taken: dict[int, int], node: int, standing: int, wish: Wish, verdict: Verdict) -> None:
    slots = slots_of(taken)
    assert slots.judge(node, wish, standing=standing) == verdict
    if wish is Wish.GUEST:
        assert slots.has_room_for(node, standing) is isinstance(verdict, Granted)


def test_a_sinking_node_accepts_none_that_would_have_to_leave() -> None:
    slots = slots_of({})
    slots._mapping.rank_classes.sinks_to = 115
    assert slots.judge(11, Wish.GUEST, standing=120) is No.RANK
    assert slots.judge(11, Wish.GUEST, standing=114) == Granted(Place.GUEST)


@over(
    ("standing", "outranking"),
    [(130, []), (121, []), (120, [11]), (119, [11]), (115, [11]), (110, [11, 12]), (UNKNOWN, [11, 12])],
)
def test_which_subordinates_would_have_to_leave(standing: int, outranking: list[int]) -> None:
    """In the same class the position decides: 11 and 12 are lower than the owner."""
    assert slots_of(FULL).outranking(standing) == outranking


def test_guests_come_in_order_of_rank() -> None:
    slots = slots_of({11: 100, 12: 125, 13: 110, 14: 110})
    assert (slots.guests(), slots.highest_guest) == ([12, 13, 14, 11], 11)


def test_only_a_guest_below_a_near_leader_rests_longer_by_latency() -> None:
    mapping = mapping_of("latency")
    rests = [mapping.first_rest_s(SimpleNamespace(is_leader_near=near), LAN) for near in (False, True)]  # type: ignore[arg-type]
    assert rests == [LAN.search_interval_s / 2, REST_FACTOR * LAN.search_interval_s / 2]


@over(("near", "level", "stands_well"), [(True, 2, True), (True, 3, True), (True, 4, False), (False, 2, False)])
def test_where_a_guest_stands_well_by_latency(near: bool, level: int, stands_well: bool) -> None:
    guest = SimpleNamespace(is_leader_near=near, level=level)
    advice = Advice(1, 1, False, 1, (), 0, (), wanted=3)
    assert mapping_of("latency").stands_well(guest, advice) is stands_well  # type: ignore[arg-type]
