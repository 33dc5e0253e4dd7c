"""The kinds of values of reports: the laws, the bounds, the wire, and the error of quantiles, over drawn values."""

from __future__ import annotations

from collections import Counter
from math import inf, nan
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports import bounds
from subord.core.carriage.reports.algebra import (
    LABELS_MAX,
    NODES_BYTES_MAX,
    TOP_MAX,
    WHOLE_MAX,
    Count,
    Latest,
    Max,
    Min,
    Nodes,
    Quantiles,
    Sum,
    Tally,
    Top,
)
from subord.core.carriage.reports.kinds import KINDS, Value, folded
from subord.core.carriage.reports.records import fitted, fold, read
from subord.core.carriage.reports.sketch import RELATIVE_ERROR, SPAN
from subord.core.carriage.reports.spread import Others, Spread

NUMBERS = st.floats(-1e12, 1e12)
ANY_NUMBERS = st.floats(allow_nan=False)
POSITIONS = st.integers(1, 300)
LABELS = st.sampled_from([f"user-{number}" for number in range(2 * LABELS_MAX)])
SCALARS = st.one_of(
    st.integers(0, 1 << 40).map(Count), NUMBERS.map(Sum.of), ANY_NUMBERS.map(Min), ANY_NUMBERS.map(Max)
)
KIND_VALUES: dict[type, st.SearchStrategy[Any]] = {
    Count: st.integers(0, 1 << 40).map(Count),
    Sum: NUMBERS.map(Sum.of),
    Min: ANY_NUMBERS.map(Min),
    Max: ANY_NUMBERS.map(Max),
    Quantiles: st.lists(ANY_NUMBERS, max_size=20).map(lambda values: Quantiles.of(*values)),
    Top: st.builds(lambda ones: Top.merge([Top.of(*one) for one in ones]), st.lists(st.tuples(NUMBERS, POSITIONS))),
    Nodes: st.lists(POSITIONS).map(Nodes.of),
    Tally: st.dictionaries(LABELS, st.integers(0, 99).map(Count), max_size=LABELS_MAX).map(Tally.of),
    Latest: st.builds(Latest, st.integers(0, 5), st.integers(0, 9), st.binary(max_size=3)),
    Spread: st.lists(st.tuples(NUMBERS, POSITIONS), max_size=3 * TOP_MAX).map(
        lambda ones: Spread.merge([Spread.of(*one) for one in ones])
    ),
}
BYTES_MAX = {
    Count: 11,
    Sum: 16,
    Min: 11,
    Max: 11,
    Quantiles: 2 * SPAN * 10 + 20,
    Top: TOP_MAX * 19 + 5,
    Nodes: NODES_BYTES_MAX + 6,
    Tally: LABELS_MAX * 67 + 30,
    Latest: 280,
    Spread: TOP_MAX * 19 + 2 * SPAN * 10 + 80,
}
"""Of each kind on the wire, written out."""
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
quickly = settings(max_examples=60, deadline=None)


def encoded(value: Value) -> bytes:
    return msgspec.msgpack.encode(value)


@each_kind
def test_any_order_and_grouping_gives_the_same(kind: Any) -> None:
    @quickly
    @given(st.lists(KIND_VALUES[kind], min_size=3, max_size=3))
    def holds(values: list[Any]) -> None:
        a, b, c = values
        whole = kind.merge([a, b, c])
        assert kind.merge([kind.merge([a, b]), c]) == kind.merge([a, kind.merge([b, c])]) == whole
        assert kind.merge([b, a]) == kind.merge([a, b])
        assert kind.merge([a, kind()]) == kind.merge([kind(), a]) == a
        assert kind.merge([]) == kind()

    holds()


@pytest.mark.slow
@each_kind
def test_the_wire_keeps_a_value_and_its_bound(kind: Any) -> None:
    @quickly
    @given(st.lists(KIND_VALUES[kind], min_size=1, max_size=40))
    def holds(values: list[Any]) -> None:
        merged = folded(values)
        data = encoded(merged)
        assert msgspec.msgpack.decode(data, type=Value) == merged
        assert len(data) <= BYTES_MAX[kind]

    holds()


def test_the_largest_values_keep_the_bounds() -> None:
    full = {
        Count: Count(bounds.COUNT_MAX),
        Sum: Sum.of(-1e30),
        Min: Min(-inf),
        Max: Max(inf),
        Quantiles: Quantiles.of(*(sign * 1.05**power for power in range(-2000, 2000) for sign in (1, -1))),
        Top: Top.merge([Top.of(number, 1 << 60 | number) for number in range(99)]),
        Nodes: Nodes.of(range(1, 99_999, 2)),
        Tally: Tally.of({f"{'x' * 60}{number}"[-60:]: Sum.of(1e15) for number in range(999)}),
        Latest: Latest(bounds.COUNT_MAX, 1 << 60, bytes(256)),
        Spread: Spread.merge(
            [Spread.of(sign * 1.03**power, 1 << 60 | 1) for power in range(-2000, 2000) for sign in (1, -1)]
        ),
    }
    for kind in KINDS:
        twice = kind.merge([full[kind]] * 2)  # type: ignore[attr-defined]
        assert len(encoded(twice)) <= BYTES_MAX[kind]
        assert msgspec.msgpack.decode(encoded(twice), type=Value) == twice


@quickly
@given(st.lists(st.floats(1e-3, 1e5) | st.floats(-1e5, -1e-3) | st.just(0.0), min_size=1), st.floats(0, 1))
def test_a_quantile_is_within_the_stated_error(values: list[float], share: float) -> None:
    found = Quantiles.merge([Quantiles.of(value) for value in values])
    true = sorted(values)[int(share * (len(values) - 1) + 1e-9)]
    said = found.at(share)
    assert said is not None
    near = sorted(values)[min(int(share * (len(values) - 1)), len(values) - 1)]
    assert min(abs(said - true) - RELATIVE_ERROR * abs(true), abs(said - near) - RELATIVE_ERROR * abs(near)) <= 1e-9
    assert found.count == len(values)


def test_amounts_far_below_the_largest_share_a_bucket() -> None:
    found = Quantiles.merge([Quantiles.of(1e-9, 1.0), Quantiles.of(1e9)])
    assert found.count == 3
    assert found.at(1.0) == pytest.approx(1e9, rel=RELATIVE_ERROR)
    assert found == Quantiles.of(1e-9, 1.0, 1e9)
    assert Quantiles.of().at(0.5) is None


def test_sums_are_exact_and_bounded() -> None:
    assert Sum.merge([Sum.of(0.1)] * 10) == Sum.of(1.0)
    assert Sum.of(-0.25).value == -0.25
    assert Sum.of(1e30).whole == WHOLE_MAX
    for value in (nan, inf, -inf):
        with pytest.raises(ValueError, match="no number"):
            Sum.of(value)


def test_a_node_is_once_in_the_top() -> None:
    assert Top.merge([Top.of(1, 5), Top.of(3, 5), Top.of(2, 4)]).entries == ((3, 5), (2, 4))


def test_a_cut_set_says_so() -> None:
    found = Nodes.merge([Nodes.of(range(1, 9_999, 2)), Nodes.of([3])])
    assert found.is_cut
    assert found.ranges == Ranges.of(range(1, len(found.ranges) * 2, 2))


def test_labels_without_room_are_the_others() -> None:
    labels = {f"{number:04}": Count(1) for number in range(LABELS_MAX + 3)}
    parts = [Tally.of({label: value}) for label, value in reversed(labels.items())]
    found = Tally.merge([Tally.merge(parts[:70]), Tally.merge(parts[70:])])
    assert list(found.labels) == sorted(labels)[:LABELS_MAX]
    assert found.other == Count(3)


def test_kinds_do_not_mix() -> None:
    values: list[Value] = [Max(9.0), Count(2), Count(3)]
    assert folded(values) == folded(values[::-1]) == Count(5)


@pytest.mark.parametrize(
    "data",
    [
        (1, -1),
        (2, 0, 2_000_000),
        (3, nan),
        (5, 0, (1,)),
        (5, 0, (1, 0)),
        (5, 0, (1, 2, 0, 2)),
        (5, 0, (1, 1, SPAN, 1)),
        (5, 0, (99_999, 1)),
        (6, ((1.0, 1), (2.0, 2))),
        (6, ((2.0, 1), (1.0, 1))),
        (7, (1,)),
        (7, (0, 0) + (1, 0) * 1001),
        (8, {"x" * 49: (1, 1)}),
        (8, {"x": (5, 0)}),
        (9, 0, 0, bytes(257)),
    ],
)
def test_what_breaks_a_bound_is_not_read(data: tuple[Any, ...]) -> None:
    dropped = Counter[str]()
    assert read({"a": msgspec.Raw(msgspec.msgpack.encode(data))}, dropped) == {}
    assert dropped == {"report field malformed": 1}


def test_fields_of_later_releases_are_folded_or_counted() -> None:
    dropped = Counter[str]()
    fields = {"new": msgspec.Raw(encoded(Count(2))), "strange": msgspec.Raw(msgspec.msgpack.encode((77, "?")))}
    assert fold([read(fields, dropped), {"new": Count(1)}]) == {"new": Count(3)}
    assert dropped == {"report field of a later release": 1}


def test_a_record_keeps_its_bounds() -> None:
    record = {f"{number:03}": Latest(1, 1, bytes(250)) for number in range(400)}
    found = fitted(record)
    assert sum(len(bytes(data)) for data in found.fields.values()) <= bounds.RECORD_BYTES_MAX
    assert list(found.fields) == sorted(record)[: len(found.fields)]
    assert found.left_out == 400 - len(found.fields)
    assert len(fitted({f"{number}": Count(1) for number in range(300)}).fields) == bounds.FIELDS_MAX


@quickly
@given(st.lists(st.tuples(st.floats(-1e5, 1e5), POSITIONS), min_size=1, max_size=200), st.floats(0, 1))
def test_a_spread_tells_what_its_values_are(ones: list[tuple[float, int]], share: float) -> None:
    found = Spread.merge([Spread.of(*one) for one in ones])
    values = sorted(value for value, _ in ones)
    assert found.count == len(values)
    assert found.sum == pytest.approx(sum(values), abs=1e-6 * len(values))
    assert (found.least, found.greatest) == (values[0], values[-1])
    assert list(found.top) == sorted(ones, key=lambda one: (-one[0], one[1]))[:TOP_MAX]
    said = found.at(share)
    assert said is not None
    ranks = (int(share * (len(values) - 1)), min(int(share * (len(values) - 1) + 1e-9), len(values) - 1))
    allowed = 0.0 if len(values) <= TOP_MAX else RELATIVE_ERROR
    floor = values[-1] / 7e8 if values[-1] > 0 else 0.0
    assert min(abs(said - values[rank]) - allowed * abs(values[rank]) - floor for rank in ranks) <= 1e-9


def test_a_spread_of_one_node_is_small() -> None:
    assert len(encoded(Spread.of(0.25, 500))) == 17
    assert Spread().at(0.5) is None
    assert (Spread().count, Spread().sum) == (0, 0.0)


def test_the_largest_numbers_of_a_member_end_no_leader() -> None:
    """A member may tell any number; a leader folds them all the same."""
    for value in (1.7e308, -1.7e308):
        found = Spread.merge([Spread.of(value, each) for each in range(1, 40)])
        assert (found.count, found.least, found.greatest) == (39, value, value)
        assert abs(found.sum) == WHOLE_MAX


def test_a_field_with_a_long_name_is_left_out_alone() -> None:
    record = {"a": Count(1), "x" * (bounds.NAME_CHARS_MAX + 1): Count(1), "z": Count(1)}
    fields, left_out = fitted(record)
    assert (list(fields), left_out) == (["a", "z"], 1)


@pytest.mark.parametrize("least", [nan, inf, -inf])
def test_others_without_a_least_value_are_refused(least: float) -> None:
    with pytest.raises(ValueError, match="not a number"):
        Others(2, Sum.of(1), least)


def test_spreads_that_are_none_are_refused() -> None:
    for top in (((1.0, 1), (2.0, 2)), ((inf, 1),), ((nan, 1),), ((1.0, 2), (1.0, 1))):
        with pytest.raises(ValueError, match="not in order, or not a number"):
            Spread(top)
    with pytest.raises(ValueError, match="though the largest have room"):
        Spread(((1.0, 1),), Others(1, least=1.0))
