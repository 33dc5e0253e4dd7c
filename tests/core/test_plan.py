"""What the document of the metrics says, and what is none."""

from __future__ import annotations

import msgspec
from loops import over

from subord.core.carriage.documents import BODY_BYTES_MAX, NEVER_MS, PLAN, is_current
from subord.core.carriage.orders import Order
from subord.core.carriage.plan import PATTERN_CHARS_MAX, PATTERNS_MAX, order_of, read


def test_a_plan_is_what_it_was_and_never_expires() -> None:
    order = order_of(2, 1_000, ["node_load1", 'disk{mode="*"}'])
    assert read(order) == ("node_load1", 'disk{mode="*"}')
    assert is_current(order, NEVER_MS - 1)


def test_the_longest_plan_fits_a_document() -> None:
    order = order_of(1, 1, ["x" * PATTERN_CHARS_MAX] * PATTERNS_MAX)
    assert read(order)
    assert len(order.body) <= BODY_BYTES_MAX


@over(
    "patterns",
    [(), ("",), ("x" * (PATTERN_CHARS_MAX + 1),), ("x",) * (PATTERNS_MAX + 1), ("a\nb",), ("a", 7), "a", {"a": 1}],
)
def test_what_is_no_plan(patterns: object) -> None:
    assert read(Order(PLAN, 1, 1, NEVER_MS, msgspec.msgpack.encode(patterns))) is None


def test_another_document_is_no_plan() -> None:
    assert read(order_of(1, 1, ["a"])._replace(name="strict/on")) is None
    assert read(order_of(1, 1, ["a"])._replace(body=b"\xc1")) is None
