"""Arithmetic of orders by tables: ranges, folding, frames, tags, lanes, and what is due."""

from __future__ import annotations

from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.carriage.engine import bounds, causes
from subord.core.carriage.engine.acting.tags import Step, Tags
from subord.core.carriage.engine.causes import (
    MOVED,
    NO_TIME,
    OUTCOME_UNKNOWN,
    SENTENCES,
    SILENT,
    TAG_USED,
    TOO_LARGE,
    sentence,
)
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.folding import Fold, Room, told_frames
from subord.core.carriage.engine.frames import Ask, Told, Unreadable, decode, encode, is_frame, order_of
from subord.core.carriage.engine.interface import Lane, Opened, Outcome, Role
from subord.core.carriage.engine.lanes import CREDITS, Credit, Incoming, Outgoing, decode_credit, encode_credit
from subord.core.carriage.engine.links import LinkState
from subord.core.carriage.engine.ranges import POSITION_MAX, Ranges
from subord.core.carriage.engine.tasks import Asker, Task

TAG = b"0123456789abcdef"
DIGEST, OTHER = b"d" * 32, b"o" * 32
sets = st.sets(st.integers(1, 60), max_size=40)


def ranges(text: str) -> Ranges:
    pairs = (each.partition("-") for each in text.split(",") if each)
    return Ranges.of_pairs((int(first), int(last or first)) for first, _, last in pairs)


# -- ranges -------------------------------------------------------------------------------------------------


@over(
    ("one", "other", "both", "either", "without"),
    [
        ("", "", "", "", ""),
        ("1-5", "", "", "1-5", "1-5"),
        ("1-5", "3", "3", "1-5", "1-2,4-5"),
        ("1-5", "4-9", "4-5", "1-9", "1-3"),
        ("1-3", "4-6", "", "1-6", "1-3"),
        ("1,3,5", "2,4", "", "1-5", "1,3,5"),
        ("1-9", "2-3,5-6,8-20", "2-3,5-6,8-9", "1-20", "1,4,7"),
    ],
)
def test_ranges(one: str, other: str, both: str, either: str, without: str) -> None:
    a, b = ranges(one), ranges(other)
    assert (str(a & b), str(a | b), str(a - b)) == (both, either, without)


@given(sets, sets)
def test_ranges_are_sets(one: set[int], other: set[int]) -> None:
    a, b = Ranges.of(one), Ranges.of(other)
    assert [set(a & b), set(a | b), set(a - b)] == [one & other, one | other, one - other]
    assert (len(a), sorted(a)) == (len(one), sorted(one))
    assert all((each in a) == (each in one) for each in range(62))
    assert Ranges.unflat(a.flat()) == a
    assert all(x[1] + 1 < y[0] for x, y in zip(a.pairs, a.pairs[1:], strict=False)), "disjoint, and never touching"


@given(sets, st.integers(1, 20))
def test_chunks_are_the_whole_and_fit(positions: set[int], bytes_max: int) -> None:
    whole = Ranges.of(positions)
    parts = list(whole.chunks(bytes_max))
    assert sorted(each for part in parts for each in part) == sorted(positions)
    for part in parts:
        assert part.wire_bytes == len(b"".join(map(msgspec.msgpack.encode, part.flat())))
        assert part.wire_bytes <= max(bytes_max, 2)


@over("flat", [(1,), (0, 0, 0, 0), (0, -1), (POSITION_MAX, 0, 5, 5)])
def test_wrong_ranges_are_refused(flat: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"range|position"):
        Ranges.unflat(flat)


# -- folding ------------------------------------------------------------------------------------------------


def test_equal_results_are_one_group_and_the_largest_is_first() -> None:
    fold = Fold(Room())
    for result, nodes in ((b"a", "1"), (b"b", "2-3"), (b"a", "5"), (b"b", "4")):
        fold.add(result, ranges(nodes))
    assert [(result, str(nodes)) for result, nodes in fold.groups] == [(b"b", "2-4"), (b"a", "1,5")]


def test_results_beyond_a_bound_are_counted_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "GROUPS_MAX", 2)
    fold = Fold(Room())
    for number in range(1, 6):
        fold.add(b"%d" % number, ranges(str(number)))
    assert (len(fold.groups), str(fold.others)) == (2, "3-5")


def test_a_node_holds_a_bounded_number_of_bytes() -> None:
    room = Room(10)
    one, other = Fold(room), Fold(room)
    one.add(b"12345678", ranges("1"))
    other.add(b"123", ranges("2"))
    assert (room.held, str(other.others)) == (8, "2")
    one.clear()
    assert (room.held, bool(one)) == (0, False)


def test_a_long_answer_takes_several_frames() -> None:
    fold = Fold(Room())
    sparse = Ranges.of(range(1, 60_000, 2))
    for number in range(5):
        fold.add(bytes([number]) * 30_000, Ranges.of(each for each in sparse if each % 5 == number))
    frames = list(told_frames(7, fold, {SILENT: Ranges.of(range(60_002, 90_000, 3))}))
    assert all(len(encode(1, 2, each)) <= bounds.FRAME_BYTES_MAX for each in frames)
    assert [each.is_last for each in frames] == [False] * (len(frames) - 1) + [True]
    found = [position for each in frames for _, flat in each.groups for position in Ranges.unflat(flat)]
    assert sorted(found) == list(sparse)


def test_an_empty_answer_is_one_frame() -> None:
    assert list(told_frames(1, Fold(Room()), {})) == [Told(1, is_last=True)]
    assert list(told_frames(1, Fold(Room()), {}, is_last=False)) == []


# -- one order ----------------------------------------------------------------------------------------------


def task(targets: str, *, asker: Asker | None = None, authority: bytes = b"", until: float = 1.0) -> Task:
    order = order_of(TAG, "read", b"", ranges(targets), 1, authority=authority)
    return Task(order, asker, ranges(targets), climbs=True, attempt=0, began_at=0.0, until=until, room=Room())


ASKER = Asker(LinkState(Opened(("edge", 1), 1, Role.LEADER)), 7)


@pytest.mark.parametrize(
    ("each", "gone", "at"),
    [
        (task("1-4", asker=ASKER, until=8.0), False, bounds.FLUSH_FIRST_S),
        (task("1-4", asker=ASKER, until=1.0), False, 0.25),
        (task("1-4", asker=ASKER, until=8.0), True, bounds.FLUSH_S),
        (task("1-4", asker=ASKER, until=8.0, authority=b"signed"), False, bounds.FLUSH_S),
        (task("1-4", until=8.0), False, bounds.FLUSH_S),
    ],
    ids=["question", "short question", "gone nodes", "effects", "issuer"],
)
def test_when_first_results_go_on(each: Task, gone: bool, at: float) -> None:
    assert each.next_flush_at(0.01) == inf
    each.fold.add(b"x", each.take(ranges("1")))
    if gone:
        each.miss(ranges("2"), MOVED)
    assert each.next_flush_at(0.01) == at
    each.flushed_at = 3.0
    assert each.next_flush_at(3.0) == pytest.approx(3.0 + 3.0 * bounds.FLUSH_SHARE)


def test_a_node_counts_once_and_a_result_replaces_a_cause() -> None:
    each = task("1-4")
    each.miss(ranges("1-2"), SILENT)
    assert str(each.take(ranges("2-3"))) == "2-3"
    assert str(each.take(ranges("1-3"))) == "1"
    each.miss(ranges("1-4"), NO_TIME)
    assert {cause: str(nodes) for cause, nodes in each.missing.items()} == {NO_TIME: "4"}
    assert (str(each.remaining), str(each.unexplained)) == ("4", "")


def test_the_last_cause_counts_and_kinds_are_bounded() -> None:
    each = task("1-100")
    each.miss(ranges("1-100"), SILENT)
    for number in range(1, 60):
        each.miss(ranges(str(number)), f"word {number}")
    assert len(each.missing) <= causes.KINDS_MAX + 1
    assert sum(map(len, each.missing.values())) == 100


# -- frames -------------------------------------------------------------------------------------------------


def test_a_frame_keeps_its_content_and_the_largest_order_fits() -> None:
    sparse = next(Ranges.of(range(1, 100_000, 3)).chunks(bounds.TARGETS_BYTES_MAX))
    part = next(sparse.chunks(bounds.PART_BYTES_MAX))
    payload, authority = bytes(bounds.PAYLOAD_BYTES_MAX), bytes(bounds.AUTHORITY_BYTES_MAX)
    order = order_of(TAG, "s" * bounds.SERVICE_CHARS_MAX, payload, sparse, POSITION_MAX, authority=authority)
    data = encode(1 << 52, 1 << 52, Ask(1 << 52, True, 255, bounds.LEFT_MS_MAX, part.flat(), order))
    assert len(data) <= bounds.FRAME_BYTES_MAX
    body = decode(data).body
    assert isinstance(body, Ask)
    assert (body.order, body.order.targets) == (order, sparse)
    assert is_frame(data)


@over("data", [b"", b"\x93", b"\x93\x01\x02\x03", encode(1, 1, Told(1, others=(1,))), bytes(70_000)])
def test_what_does_not_fit_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(data)


def test_every_word_has_a_sentence() -> None:
    words = {value for name, value in vars(causes).items() if name.isupper() and isinstance(value, str)}
    assert words == set(SENTENCES)
    assert all(len(each) <= causes.WORD_CHARS_MAX for each in words)
    assert sentence("of a later release").endswith("of a later release")


# -- tags ---------------------------------------------------------------------------------------------------


def test_a_node_acts_once_on_a_tag() -> None:
    tags = Tags()
    assert tags.begin(TAG, DIGEST, 5.0, has_effects=True).step is Step.START
    assert tags.begin(TAG, DIGEST, 5.0, has_effects=True).step is Step.WAIT
    assert tags.end(TAG, Outcome(b"done")) == Outcome(b"done")
    assert tags.end(TAG, Outcome(b"again")) == Outcome(b"done"), "the first outcome counts"
    assert tags.begin(TAG, DIGEST, 9.0, has_effects=True) == (Step.TELL, Outcome(b"done"))


def test_another_order_with_the_tag_gets_no_outcome() -> None:
    """Neither that of the first one nor, while it is open, the promise of it."""
    tags = Tags()
    used = Step.TELL, Outcome(cause=TAG_USED)
    tags.begin(TAG, DIGEST, 5.0, has_effects=False)
    assert tags.begin(TAG, OTHER, 99.0, has_effects=True) == used
    tags.end(TAG, Outcome(b"done"))
    assert tags.begin(TAG, OTHER, 99.0, has_effects=True) == used
    assert tags.begin(TAG, DIGEST, 5.0, has_effects=False) == (Step.TELL, Outcome(b"done"))
    assert tags.deadline == 5.0 + bounds.TAG_KEEP_S, "another order does not keep it"


def test_a_tag_is_kept_after_its_order_and_longer_if_asked_again() -> None:
    tags = Tags()
    tags.begin(TAG, DIGEST, 5.0, has_effects=True)
    tags.begin(TAG, DIGEST, 105.0, has_effects=True)
    tags.expire(5.0 + bounds.TAG_KEEP_S)
    assert (TAG in tags, tags.deadline) == (True, 105.0 + bounds.TAG_KEEP_S)
    tags.expire(105.0 + bounds.TAG_KEEP_S)
    assert (len(tags), tags.deadline) == (0, inf)


def test_a_tag_of_an_earlier_life_is_not_acted_on() -> None:
    tags = Tags([(TAG, 100.0)], now=50.0)
    assert tags.begin(TAG, DIGEST, 60.0, has_effects=True) == (Step.TELL, Outcome(cause=OUTCOME_UNKNOWN))
    assert tags.deadline == 150.0


def test_readings_give_way_and_orders_with_effects_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TAGS_MAX", 2)
    tags = Tags()
    tags.begin(b"write".ljust(16), DIGEST, 1.0, has_effects=True)
    tags.end(b"write".ljust(16), Outcome(b""))
    tags.begin(b"read".ljust(16), DIGEST, 1.0, has_effects=False)
    assert tags.begin(TAG, DIGEST, 1.0, has_effects=False).outcome.cause == "busy", "the reading is not over"
    tags.end(b"read".ljust(16), Outcome(b""))
    assert tags.begin(TAG, DIGEST, 1.0, has_effects=False).step is Step.START
    assert b"write".ljust(16) in tags


def test_tags_that_are_freed_leave_nothing_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TAGS_MAX", 4)
    monkeypatch.setattr("subord.core.carriage.engine.acting.tags.SPARE", 8)
    tags = Tags()
    for number in range(100):
        tags.begin(b"%016d" % number, DIGEST, 1.0, has_effects=True)
        tags.end(b"%016d" % number, Outcome(cause="altered"))
        tags.free(b"%016d" % number)
    assert len(tags) == 0
    assert len(tags._expiries) <= 9
    tags.free(TAG)


def test_only_the_last_readings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "READINGS_MAX", 10)
    monkeypatch.setattr("subord.core.carriage.engine.acting.tags.SPARE", 8)
    tags = Tags()
    for number in range(1000):
        tags.begin(b"%016d" % number, DIGEST, 1.0, has_effects=False)
        tags.end(b"%016d" % number, Outcome(b"1"))
    assert len(tags) == 10
    assert b"%016d" % 990 in tags
    assert len(tags._expiries) <= 2 * 10 + 9


def test_outcomes_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "OUTCOMES_BYTES_MAX", 10)
    tags = Tags()
    for each in (b"1", b"2"):
        tags.begin(each, DIGEST, 1.0, has_effects=True)
        tags.end(each, Outcome(b"12345678"))
    assert tags.begin(b"1", DIGEST, 1.0, has_effects=True).outcome.cause == OUTCOME_UNKNOWN
    assert tags.begin(b"2", DIGEST, 1.0, has_effects=True).outcome.result == b"12345678"
    tags.begin(TAG, DIGEST, 1.0, has_effects=True)
    assert tags.end(TAG, Outcome(bytes(bounds.RESULT_BYTES_MAX + 1))).cause == TOO_LARGE


# -- lanes --------------------------------------------------------------------------------------------------


def test_the_most_urgent_lane_is_first() -> None:
    out = Outgoing()
    for lane in reversed(Lane):
        assert out.offer(lane, b"%d" % lane)
    assert [out.next() for _ in range(6)] == [(lane, b"%d" % lane) for lane in Lane] + [None]


def test_a_slow_reader_stops_its_own_lane_alone() -> None:
    out, frame = Outgoing(), bytes(bounds.FRAME_BYTES_MAX)
    while out.offer(Lane.ORDER, frame):
        pass
    assert out.dropped[Lane.ORDER] == 1
    sent = 0
    while out.next() is not None:
        sent += len(frame)
    assert sent == CREDITS[Lane.ORDER] == out.under_way_bytes(Lane.ORDER)
    out.offer(Lane.BLOB, b"of another lane")
    out.offer(Lane.CONTROL, b"needs no credit")
    assert [out.next(), out.next(), out.next()] == [
        (Lane.CONTROL, b"needs no credit"),
        (Lane.BLOB, b"of another lane"),
        None,
    ]
    assert out.returned(Lane.ORDER, len(frame))
    assert out.next() == (Lane.ORDER, frame)


def test_no_more_credit_comes_back_than_was_spent() -> None:
    out = Outgoing()
    assert not out.returned(Lane.ORDER, 1)
    assert not out.returned(Lane.CONTROL, 1)


def test_credit_goes_back_in_large_parts_and_none_is_lost() -> None:
    taken, owed = 0, 0
    incoming = Incoming()
    for _ in range(1000):
        owed += incoming.took(Lane.ORDER, 1000)
        taken += 1000
        assert taken - owed < CREDITS[Lane.ORDER] / 4 + 1000
    assert incoming.took(Lane.CONTROL, 1000) == 0
    assert decode_credit(encode_credit(Credit(1, 2, Lane.ORDER, 5))) == (1, 2, Lane.ORDER, 5)
    with pytest.raises(Unreadable):
        decode_credit(b"\x94\x01\x02\x09\x01")


# -- due ----------------------------------------------------------------------------------------------------


class Owner:
    at = inf


def test_a_time_that_has_changed_is_void_and_the_table_stays_short() -> None:
    due, owners = Due(), [Owner() for _ in range(10)]
    for number in range(10_000):
        due.plan(owners[number % 10], "at", 20_000.0 - number)
    assert len(due) < 200
    assert due.deadline == 10_001.0
    assert due.take(10_000.0) is None
    taken = [due.take(30_000.0) for _ in range(11)]
    assert [each[0] for each in taken if each] == owners[::-1]
