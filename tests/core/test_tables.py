"""The small parts by tables: timers, mappings, token bucket, refusals, slots."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.edges.slots import Granted, Slots, Subordinate, Verdict
from subord.core.events import Refused
from subord.core.mapping.ip import ByAddress
from subord.core.messages import No, Wish
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.settings import Settings
from subord.core.state.context import Context
from subord.core.state.refusals import REFUSALS_MAX, Refusals
from subord.core.tables import WHOLE_MAX, SplitMap
from subord.core.timers import Timer, Timers
from subord.core.view import Place

# -- timers ------------------------------------------------------------------------------------------------


def test_due_timers_come_earliest_first() -> None:
    timers = Timers()
    assert (timers.next_at, timers.take_due(10**9)) == (inf, [])
    timers.plan(Timer.LEAVE, 1.0)
    timers.plan(Timer.SEARCH, 3.0)
    timers.plan(Timer.BEAT, 3.0)
    timers.plan(Timer.LIVENESS, 3.5)
    assert timers.next_at == 1.0
    assert timers.take_due(0.999) == []
    assert timers.take_due(3.0) == [Timer.LEAVE, Timer.BEAT, Timer.SEARCH]  # of the same time: in the order of Timer
    assert timers.take_due(3.0) == []  # due once
    assert timers.next_at == 3.5


def test_planning_again_moves_a_timer_and_infinity_stops_it() -> None:
    timers = Timers()
    timers.plan(Timer.BEAT, 1.0)
    timers.plan(Timer.BEAT, 5.0)
    assert (timers.next_at, timers.take_due(4.0)) == (5.0, [])
    timers.plan(Timer.BEAT, inf)
    timers.plan(Timer.LIVENESS, inf)  # it was not set
    assert timers.next_at == inf


# -- mappings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 4096, 61 * 4096, 10**15 + 7])
def test_a_divided_mapping_holds_what_a_dict_holds(step: int) -> None:
    """Consecutive positions, positions that share a remainder, and scattered ones."""
    chance, mapping, model = Random(step), SplitMap[int](), dict[int, int]()
    for number in range(3 * WHOLE_MAX):
        key = step * chance.randrange(2 * WHOLE_MAX)
        if chance.random() < 0.2:
            assert mapping.pop(key, None) == model.pop(key, None)
        else:
            mapping[key] = model[key] = number
        if len(model) < WHOLE_MAX:
            assert len(mapping) == len(model)
    assert len(model) > WHOLE_MAX
    assert (dict(mapping.items()), sorted(mapping.values())) == (model, sorted(model.values()))
    for key in range(0, 2 * WHOLE_MAX * step, step):
        assert (mapping.get(key), key in mapping) == (model.get(key), key in model)
    assert (sorted(mapping), sorted(mapping.drain()), len(mapping)) == (sorted(model), sorted(model), 0)


def test_a_mapping_that_is_not_divided_keeps_the_order() -> None:
    keys = Random(1).sample(range(10**9), WHOLE_MAX)
    mapping = SplitMap[None]()
    for key in keys:
        mapping[key] = None
    assert list(mapping) == keys
    with pytest.raises(KeyError):
        mapping[-1]
    assert list(mapping.drain()) == keys


def test_no_part_of_a_mapping_grows_with_another() -> None:
    """F6: a table of 100,000 consecutive positions is never copied at once, nor all of its parts together."""
    mapping = SplitMap[None]()
    for key in range(100_000):
        mapping[key] = None
    parts = [part for part in mapping._parts if part]
    assert max(map(len, parts)) <= WHOLE_MAX
    assert sum(len(part) < WHOLE_MAX for part in parts) == 1


# -- token bucket ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("per_s", "at", "admitted"),
    [
        (3, [0, 0, 0, 0], [True, True, True, False]),
        (3, [0, 0, 0, 0, 0.34, 0.34], [True, True, True, False, True, False]),
        (3, [0, 0, 0, 100, 100, 100, 100], [True] * 6 + [False]),  # at most the tokens of one second
        (1, [0, 0.5, 1.0, 1.5, 2.0], [True, False, True, False, True]),
    ],
)
def test_token_bucket(per_s: float, at: list[float], admitted: list[bool]) -> None:
    tickets = TokenBucket(per_s, 0.0)
    assert [tickets.admit(now) for now in at] == admitted


# -- refusals ----------------------------------------------------------------------------------------------


def test_a_repeated_refusal_is_noted_once_and_counted() -> None:
    context = Context(Settings(network=Network.parse("10.0.0.0/24")), 1, 1, Random(1), 0.0)
    refusals = Refusals(context)
    for at, by, reason in [
        (1.0, "us", "fan-out 8, we use 2"),
        (2.0, "us", "fan-out 8, we use 2"),
        (3.0, "them", "fan-out 2, we use 8"),
        (4.0, "us", "fan-out 4, we use 2"),
    ]:
        context.now = at
        refusals.note("10.0.0.7", by, reason)  # type: ignore[arg-type]
    told = [(each.by, each.reason) for each in context.actions if isinstance(each, Refused)]
    assert told == [("us", "fan-out 8, we use 2"), ("them", "fan-out 2, we use 8"), ("us", "fan-out 4, we use 2")]
    assert [(r.by, r.reason, r.times, r.ago_s) for r in refusals.shown(5.0)] == [
        ("us", "fan-out 4, we use 2", 1, 1.0),
        ("them", "fan-out 2, we use 8", 1, 2.0),
    ]


def test_refusals_are_bounded_and_the_oldest_is_dropped() -> None:
    refusals = Refusals(Context(Settings(network=Network.parse("10.0.0.0/24")), 1, 1, Random(1), 0.0))
    for number in range(REFUSALS_MAX + 5):
        refusals.note(f"a{number}", "us", "no")
    shown = [refusal.address for refusal in refusals.shown(100.0)]
    assert shown == [f"a{number}" for number in range(REFUSALS_MAX + 4, 4, -1)]


# -- slots -------------------------------------------------------------------------------------------------

# Fan-out 2: the homes at 3 are 6 and 7.
FULL = (20, 30)


VERDICTS = [
    ((), 6, Wish.HOME, Granted(Place.HOME)),
    (FULL, 6, Wish.HOME, Granted(Place.HOME)),  # always accepted at home
    (FULL, 7, Wish.GUEST, Granted(Place.HOME)),  # whatever its wish
    ((6, 7, *FULL), 7, Wish.DISPLACE, Granted(Place.HOME)),
    ((), 8, Wish.HOME, Granted(Place.GUEST)),  # without a home here, a guest
    ((), 8, Wish.GUEST, Granted(Place.GUEST)),
    ((6, 7), 8, Wish.GUEST, Granted(Place.GUEST)),  # homes take no guest slots
    ((20,), 8, Wish.GUEST, Granted(Place.GUEST)),
    (FULL, 8, Wish.GUEST, No.FULL),
    (FULL, 8, Wish.HOME, No.FULL),
    (FULL, 20, Wish.GUEST, Granted(Place.GUEST)),  # a present guest needs no further slot
    (FULL, 20, Wish.DISPLACE, Granted(Place.GUEST)),
    (FULL, 8, Wish.DISPLACE, Granted(Place.GUEST, evicted=30)),
    (FULL, 25, Wish.DISPLACE, Granted(Place.GUEST, evicted=30)),
    (FULL, 31, Wish.DISPLACE, No.FULL),  # no guest ranks above it
    ((20,), 8, Wish.DISPLACE, Granted(Place.GUEST)),  # a free slot: no guest is displaced
    ((6, 7, 8, 9), 10, Wish.DISPLACE, No.FULL),
    ((), 3, Wish.HOME, No.RANK),
    ((), 2, Wish.GUEST, No.RANK),
    ((), 1, Wish.DISPLACE, No.RANK),
    ((), 0, Wish.GUEST, No.RANK),
]


@over(("taken", "node", "wish", "verdict"), VERDICTS)
def test_judge(taken: tuple[int, ...], node: int, wish: Wish, verdict: Verdict) -> None:
    slots = full_of(taken)
    assert slots.judge(node, wish) == verdict
    assert set(slots.taken) == set(taken), "a verdict changes nothing"
    if wish is Wish.GUEST:
        assert slots.has_room_for(node) is isinstance(verdict, Granted)


def full_of(taken: tuple[int, ...], guest_slots: int = 2) -> Slots:
    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=guest_slots)
    slots = Slots(3, ByAddress(settings, 3))
    for node in taken:
        place = Place.HOME if node in (6, 7) else Place.GUEST
        slots.taken[node] = Subordinate(
            position=node, place=place, incarnation=1, exchange=1, since=0.0, session_at=0.0, heard_at=0.0, due_at=0.0
        )
    return slots


def test_guests_are_counted_apart_from_homes() -> None:
    slots = full_of((30, 6, 20))
    assert (slots.guests(), slots.highest_guest) == ([20, 30], 30)
    assert full_of((6, 7)).highest_guest == 0


def test_every_verdict_is_in_the_table() -> None:
    """`judge` returns FULL and RANK; TERMS, BUSY and LEAVING are decided before."""
    verdicts = {v if isinstance(v, No) else (v.place, v.evicted is not None) for _, _, _, v in VERDICTS}
    assert verdicts == {No.FULL, No.RANK, (Place.HOME, False), (Place.GUEST, False), (Place.GUEST, True)}
