"""The journal: one order of time, the same on all nodes, bounded."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from loops import over

from subord.core.carriage.exchange import Exchange
from subord.core.members import journal as module
from subord.core.members.journal import KINDS, Event, Journal, Kind
from subord.core.members.register import LEAP_MS_MAX
from subord.core.view import Place

SIZE = 100
NOW_MS = 1_800_000_000_000


def event(at: int, kind: Kind = "missing", position: int = 5, *, recorder: int = 1, leader: int = 0) -> Event:
    place = Place.HOME if leader else None
    return Event(NOW_MS + at, recorder, at, kind, position, leader, place=place)


def journal(*events: Event) -> Journal:
    return Journal(SIZE, [each.item for each in events])


def told(one: Journal) -> list[tuple[int, str]]:
    return [(each.wall_ms - NOW_MS, each.kind) for each in one.events()]


@over("kind", KINDS)
def test_an_event_is_read_as_it_was_written(kind: Kind) -> None:
    for place in (None, *Place):
        whole = Event(NOW_MS, 3, 7, kind, 5, 2, 1, place, "disk swap ü", "ann@example")
        assert Event.of(whole.item) == whole
        assert Event.of(whole._replace(reason="", by="").item) == whole._replace(reason="", by="")


def test_the_order_is_that_of_time_whatever_came_first() -> None:
    events = [event(at, "missing" if at % 2 else "returned") for at in range(1, 40)]
    expected = told(journal(*events))
    assert [at for at, _ in expected] == list(range(1, 40))
    for seed in range(5):
        chance, one = Random(seed), journal()
        for each in chance.sample(events, len(events)):
            one.merge([each.item])
        assert (told(one), one.digest) == (expected, journal(*events).digest)


@over(
    ("kinds", "expected"),
    [
        (["joined", "found", "joined"], ["joined"]),
        (["joined", "missing", "missing", "returned", "joined"], ["joined", "missing", "returned"]),
        (["missing", "left", "missing"], ["missing", "left"]),
        (["left", "left", "joined"], ["left", "joined"]),
        (["joined", "restarted", "maintained", "maintained"], ["joined", "restarted", "maintained", "maintained"]),
    ],
)
def test_what_two_roots_record_is_told_once(kinds: list[Kind], expected: list[str]) -> None:
    one = journal(*(event(at, kind, recorder=at % 2 + 1) for at, kind in enumerate(kinds)))
    assert [kind for _, kind in told(one)] == expected


def test_a_move_is_told_once() -> None:
    leaders = [2, 3, 3, 2]
    moves = [event(at + 1, "moved", leader=leader) for at, leader in enumerate(leaders)]
    assert [at for at, _ in told(journal(event(0, "joined", leader=2), *moves))] == [0, 2, 4]


def test_a_full_journal_keeps_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_MAX", 5)
    events = [event(at, position=at + 1) for at in range(9)]
    early, late = journal(*events[:6]), journal(*events[4:])
    assert early.merge(late.items()) == [each.item for each in events[6:]]
    assert late.merge(early.items()) == []
    assert early.digest == late.digest
    assert (early.dropped, len(early)) == (4, 5)
    assert early.merge([event(0, position=1).item]) == []
    monkeypatch.setattr(module, "BYTES_MAX", 100)
    assert len(journal(*events)) == 100 // len(events[0].item)


def test_only_parts_that_differ_are_sent() -> None:
    events = [event(at, position=1 + at % SIZE) for at in range(1000)]
    one, other = journal(*events), journal(*events[:-1])
    found = other.differing(one.digest)
    assert 0 < len(found) < 60
    one.merge(found)
    missing = one.differing(other.digest)
    assert events[-1].item in missing
    other.merge(missing)
    assert one.digest == other.digest
    assert other.differing(b"of a later release") == other.items()


def test_two_nodes_come_to_hold_the_same() -> None:
    """More events than one frame takes, on both sides."""
    journals = [journal(*(event(at, position=1 + at % SIZE) for at in range(n, 3000, 2))) for n in (0, 1)]
    ends = [Exchange({"events": each}) for each in journals]
    for each in ends:
        each.opened("edge")
    for _ in range(20):
        for sender, receiver in (ends, ends[::-1]):
            while (frame := sender.next_frame("edge", 0.0)) is not None:
                assert len(frame) < 65_536
                received = receiver.read("edge", frame, 0.0, NOW_MS)
                assert received is not None
                receiver.take("edge", received)
    assert len(journals[0]) == len(journals[1]) == 3000


@over("item", [b"", b"x", bytes(46), event(1, position=SIZE + 1).item, event(1, recorder=SIZE + 1).item, bytes(2000)])
def test_a_malformed_event_is_refused(item: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        journal().decode(msgspec.msgpack.encode([item]), NOW_MS)


def test_an_event_of_a_clock_far_ahead_is_not_taken() -> None:
    one = journal()
    items = [event(LEAP_MS_MAX + ahead).item for ahead in (0, 1)]
    assert one.decode(one.encode(items), NOW_MS) == items[:1]


def test_an_event_of_a_later_release_is_kept_and_not_told() -> None:
    head = event(1).item
    later = head[:20] + bytes([200]) + head[21:]
    one = Journal(SIZE, [later])
    assert (len(one), one.events()) == (1, [])


def test_arrivals_are_in_the_order_in_which_they_came() -> None:
    one = journal(event(5))
    assert one.arrived == 0  # it was on the disk
    one.merge([event(9, "left").item])
    one.merge([event(7, "returned").item])
    assert one.arrived == 2
    assert [module.Event.of(each) for each in one.arrivals] == [event(9, "left"), event(7, "returned")]
