"""The small parts by tables: timers, token bucket, refusals, slots, phases."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from subord.core.address.network import Network
from subord.core.edges.slots import Granted, Slots, Subordinate, Verdict
from subord.core.events import Refused
from subord.core.mapping.mapping import Mapping
from subord.core.messages import No, Wish
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.settings import Settings
from subord.core.state.context import Context
from subord.core.state.phases import NEXT, Phase, Trigger, follow, mermaid
from subord.core.state.refusals import REFUSALS_MAX, Refusals
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


@pytest.mark.parametrize(
    ("taken", "node", "wish", "verdict"),
    [
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
    ],
)
def test_judge(taken: tuple[int, ...], node: int, wish: Wish, verdict: Verdict) -> None:
    slots = full_of(taken)
    assert slots.judge(node, wish) == verdict
    assert set(slots.taken) == set(taken), "a verdict changes nothing"
    if wish is Wish.GUEST:
        assert slots.has_room_for(node) is isinstance(verdict, Granted)


def full_of(taken: tuple[int, ...], guest_slots: int = 2) -> Slots:
    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=guest_slots)
    slots = Slots(3, Mapping(settings, 3), guest_slots)
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
    (mark,) = [each for each in test_judge.pytestmark if each.name == "parametrize"]
    verdicts = {v if isinstance(v, No) else (v.place, v.evicted is not None) for _, _, _, v in mark.args[1]}
    assert verdicts == {No.FULL, No.RANK, (Place.HOME, False), (Place.GUEST, False), (Place.GUEST, True)}


# -- phases ------------------------------------------------------------------------------------------------

TABLE = {
    (Phase.SEEKING, Trigger.ACCEPTED): Phase.ATTACHED,
    (Phase.SEEKING, Trigger.ALONE): Phase.ROOT,
    (Phase.SEEKING, Trigger.LEAVE): Phase.LEAVING,
    (Phase.ROOT, Trigger.ACCEPTED): Phase.ATTACHED,
    (Phase.ROOT, Trigger.LEAVE): Phase.LEAVING,
    (Phase.ATTACHED, Trigger.ACCEPTED): Phase.ATTACHED,
    (Phase.ATTACHED, Trigger.LOST): Phase.ORPHAN,
    (Phase.ATTACHED, Trigger.ALONE): Phase.ROOT,
    (Phase.ATTACHED, Trigger.LEAVE): Phase.LEAVING,
    (Phase.ORPHAN, Trigger.ACCEPTED): Phase.ATTACHED,
    (Phase.ORPHAN, Trigger.ALONE): Phase.ROOT,
    (Phase.ORPHAN, Trigger.LEAVE): Phase.LEAVING,
    (Phase.LEAVING, Trigger.LOST): Phase.LEAVING,
    (Phase.LEAVING, Trigger.DONE): Phase.GONE,
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("trigger", Trigger)
def test_every_phase_and_trigger(phase: Phase, trigger: Trigger) -> None:
    if (phase, trigger) in TABLE:
        assert follow(phase, trigger) is TABLE[phase, trigger]
    else:
        with pytest.raises(KeyError):
            follow(phase, trigger)


def test_every_phase_is_reachable_and_leads_to_the_end() -> None:
    reached, fresh = {Phase.SEEKING}, [Phase.SEEKING]
    while fresh:
        new = set(NEXT[fresh.pop()].values()) - reached
        reached |= new
        fresh += new
    assert reached == set(Phase)
    assert all(Phase.LEAVING in NEXT[phase].values() for phase in Phase if phase is not Phase.GONE)


def test_the_diagram_shows_every_edge() -> None:
    lines = mermaid().splitlines()
    assert len(lines) == len(TABLE) + 3
    assert all(
        f"  {phase.value} --> {then.value}: {trigger.value}" in lines for (phase, trigger), then in TABLE.items()
    )
