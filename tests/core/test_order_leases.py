"""Leases and cancellation at one engine: what ends a question, what renews it, and what becomes of what acts."""

from __future__ import annotations

import msgspec
import pytest

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import Ack, Ask, Check, End, Lost, Told, decode, encode
from subord.core.carriage.engine.interface import (
    Act,
    Acted,
    Arrived,
    Cancel,
    Closed,
    Finished,
    HangUp,
    Issue,
    Note,
    Noted,
    Opened,
    Outcome,
    Renew,
    Role,
    Stop,
    Wakeup,
)
from tests.core.test_order_engine import ALL, TAG, ask, bodies, engine_of, opened, order

LONG_S = 60.0
CANCELLED = Outcome(cause="cancelled")


def hear(engine: Engine, body: msgspec.Struct, now: float = 0.0) -> list:
    return engine.handle(Arrived("link", encode(9, 0, body)), now)


def asked(engine: Engine, number: int = 1, **changes: object) -> list:
    """A question of a peer that a long order is for."""
    return hear(engine, msgspec.structs.replace(ask(number, service="write"), left_ms=60_000, **changes))


def acting() -> Engine:
    """A node that acts on an order of another one."""
    engine = engine_of()
    opened(engine)
    asked(engine)
    engine.handle(Noted(TAG), 0.0)
    return engine


def only(actions: list, kind: type) -> list:
    return [each for each in actions if isinstance(each, kind)]


def test_a_question_without_renewal_is_dropped_and_what_acts_is_left_to_its_lease() -> None:
    engine = acting()
    engine.handle(Wakeup(), 14.9)
    assert engine.sizes["orders"] == 1
    assert engine.handle(Wakeup(), 15.0) == []
    assert engine.sizes["orders"] == engine.sizes["acting"] == 0
    assert bodies(hear(engine, Check(1), 15.1)) == [Lost(1)]


def test_a_check_renews_and_never_shortens() -> None:
    engine = acting()
    assert only(hear(engine, Check(1, 9_000), 10.0), Renew) == [Renew(TAG, 9.0)]
    assert only(hear(engine, Check(1, 1_000), 11.0), Renew) == []
    engine.handle(Wakeup(), 18.9)
    assert engine.sizes["orders"] == 1
    engine.handle(Wakeup(), 19.0)
    assert engine.sizes["orders"] == 0


@pytest.mark.parametrize("says", ["ask", "check"])
def test_no_peer_gives_a_longer_lease(says: str) -> None:
    engine = engine_of()
    opened(engine)
    asked(engine, lease_ms=bounds.LEASE_MS_MAX if says == "ask" else 5_000)
    if says == "check":
        hear(engine, Check(1, bounds.LEASE_MS_MAX))
    engine.handle(Wakeup(), 14.9)
    assert engine.sizes["orders"] == 1
    engine.handle(Wakeup(), 15.0)
    assert engine.sizes["orders"] == 0


def test_an_end_that_stops_ends_what_acts_and_the_outcome_stays() -> None:
    engine = acting()
    assert hear(engine, End(1, stops=True), 1.0) == [Stop(TAG)]
    engine.handle(Acted(TAG, CANCELLED), 1.1)
    again = asked(engine, 2)
    assert only(again, Act | Note) == []
    assert bodies(again)[-1] == Told(2, missing=(("cancelled", (0, 0)),), is_last=True)


@pytest.mark.parametrize("way", ["end", "closed", "lease over"])
def test_what_acts_when_nothing_waits_any_more_has_what_was_left_of_the_lease(way: str) -> None:
    """The way ends while the tag is on its way to the disk."""
    engine = engine_of()
    opened(engine)
    asked(engine, lease_ms=9_000)
    match way:
        case "end":
            hear(engine, End(1), 2.0)
        case "closed":
            engine.handle(Closed("link"), 2.0)
        case _:
            engine.handle(Wakeup(), 9.5)
    assert engine.sizes["orders"] == 0
    (act,) = only(engine.handle(Noted(TAG), 10.0 if way == "lease over" else 2.5), Act)
    assert act.lease_s == (0.0 if way == "lease over" else 6.5)


@pytest.mark.parametrize("way", ["end", "closed"])
def test_what_acts_goes_on_when_only_the_way_has_ended(way: str) -> None:
    engine = acting()
    ended = hear(engine, End(1), 1.0) if way == "end" else engine.handle(Closed("link"), 1.0)
    assert ended == []
    assert engine.sizes["orders"] == 0
    engine.handle(Opened("link", 2, Role.CALLER, 9), 1.0)
    assert only(asked(engine, 2), Renew | Act | Note) == [Renew(TAG, 15.0)]
    told = engine.handle(Acted(TAG, Outcome(b"x")), 1.2)
    assert bodies(told)[-1].groups == ((b"x", (0, 0)),)


def test_what_acts_for_two_questions_ends_with_the_last() -> None:
    engine = acting()
    asked(engine, 2)
    assert only(hear(engine, End(1, stops=True)), Stop) == []
    assert only(hear(engine, End(2, stops=True)), Stop) == [Stop(TAG)]


def test_an_order_that_is_cancelled_before_the_disk_has_it_is_not_begun() -> None:
    engine = engine_of()
    opened(engine)
    asked(engine)
    assert hear(engine, End(1, stops=True)) == []
    assert engine.handle(Noted(TAG), 0.1) == []
    assert bodies(asked(engine, 2))[-1].missing == (("cancelled", (0, 0)),)


def test_a_reading_is_not_stopped() -> None:
    engine = engine_of()
    opened(engine)
    hear(engine, ask(1, service="read"))
    assert hear(engine, End(1, stops=True)) == []


def test_the_end_of_what_is_not_held_is_nothing() -> None:
    engine = acting()
    assert hear(engine, End(7, stops=True)) == []
    assert engine.sizes["orders"] == 1


def test_a_body_of_a_later_release_is_counted_and_does_no_harm() -> None:
    engine = acting()
    later = msgspec.msgpack.encode((9, 0, (15, 1, True)))
    assert engine.handle(Arrived("link", later), 0.0) == []
    assert engine.dropped == {"unreadable": 1}
    assert engine.sizes["orders"] == 1


def issuer() -> Engine:
    """A node whose order is out to its subordinate 2."""
    engine = engine_of()
    opened(engine, Role.SUBORDINATE)
    engine.handle(Issue(order("write"), LONG_S), 0.0)
    return engine


def test_a_cancelled_order_is_answered_at_once_with_what_is_known() -> None:
    engine = issuer()
    engine.handle(Noted(TAG), 0.0)
    engine.handle(Acted(TAG, Outcome(b"x")), 0.1)
    actions = engine.handle(Cancel(TAG), 0.2)
    (finished,) = only(actions, Finished)
    assert dict(finished.answer.missing)["cancelled"] == ALL - finished.answer.groups[0][1]
    assert bodies(actions) == [End(1, stops=True), End(2, stops=True)]
    assert isinstance(actions[-1], HangUp), "3 was asked over a stream of its own, which ends after that"
    assert engine.sizes["orders"] == engine.sizes["questions"] == 0
    assert engine.handle(Cancel(TAG), 0.3) == []


def test_an_order_that_is_over_is_ended_at_the_nodes_that_still_hold_it() -> None:
    engine = issuer()
    hear(engine, Told(1, is_last=True), 1.0)
    assert End(1, stops=True) not in bodies(engine.handle(Wakeup(), LONG_S)), "2 has answered"
    engine = issuer()
    assert End(1, stops=True) in bodies(engine.handle(Wakeup(), LONG_S))


def test_the_issuer_renews_also_what_it_has_given_up() -> None:
    """2 hangs; what it still tells would count."""
    engine = issuer()
    found = []
    while engine.deadline < 11.0:
        now = engine.deadline
        found += [(round(now), each) for each in bodies(engine.handle(Wakeup(), now)) if isinstance(each, Check)]
    assert found == [(5, Check(1)), (10, Check(1))]


def test_orders_that_wait_for_a_place_are_cancelled_too() -> None:
    engine = engine_of()
    tags = [b"%016d" % number for number in range(bounds.ACTIVE_MAX + 1)]
    for tag in tags:
        engine.handle(Issue(order("write", tag=tag), LONG_S), 0.0)
    (finished,) = only(engine.handle(Cancel(tags[-1]), 0.1), Finished)
    assert finished.answer.missing == (("cancelled", ALL),)


@pytest.mark.parametrize("body", [ask(), Check(1)])
def test_a_frame_of_an_earlier_build_says_nothing_of_leases(body: msgspec.Struct) -> None:
    """And such a build reads over what a frame says of them."""
    words = msgspec.msgpack.decode(msgspec.msgpack.encode(body))
    assert words[-1] == 15_000
    assert decode(msgspec.msgpack.encode((9, 0, words[:-1]))).body == body
    assert decode(msgspec.msgpack.encode((9, 0, [*words, "more"]))).body == body


def test_the_round_trip_is_that_of_one_frame() -> None:
    """Renewals and checks are acknowledged alike, and may be under way at once: of two acknowledgements the first was
    taken for that of the second, so a link of 0.2 s had a round trip of 0 s, and its peer counted as hung. Each
    acknowledgement takes a little longer here, so a check is sent just before that of the renewal comes."""
    engine = engine_of()
    engine.handle(Opened("link", 2, Role.SUBORDINATE, 9, knows_orders=True, round_trip_s=0.2), 0.0)
    acks: list[tuple[float, Ack]] = []
    actions, now, delay_s = engine.handle(Issue(order("write"), LONG_S), 0.0), 0.0, 0.2
    while now < 50.0:
        for each in bodies(actions):
            if isinstance(each, Ask | Check):
                acks.append((now + delay_s, Ack(each.number)))
                delay_s += 0.001
        if acks and acks[0][0] <= engine.deadline:
            now, answer = acks.pop(0)
            actions = hear(engine, answer, now)
        else:
            now = engine.deadline
            actions = engine.handle(Wakeup(), now)
        assert engine._links.of["link"].round_trip_s >= 0.2
