"""What the document of shares says, and what is none."""

from __future__ import annotations

from typing import Any

import msgspec
from loops import over

from subord.core.carriage.documents import BODY_BYTES_MAX, NAME_CHARS_MAX, NEVER_MS, is_within_bounds
from subord.core.carriage.orders import Order
from subord.core.carriage.shares import bounds
from subord.core.carriage.shares.plan import SHARES, floor_of, order_of, read
from subord.services.shares import policy, wanted

THREE = (("web", 60_000), ("batch", 30_000), ("rest", 10_000))


def raw(body: Any) -> Order:
    return Order(SHARES, 1, 1, NEVER_MS, msgspec.msgpack.encode(body))


def test_a_plan_is_what_it_was() -> None:
    plan = read(order_of(2, 1_000, 300, THREE))
    assert plan is not None
    assert plan[:4] == (2, 0.3, ("web", "batch", "rest"), (60.0, 30.0, 10.0))
    assert not plan.is_off


def test_off_is_a_version_too() -> None:
    plan = read(order_of(7, 1_000, 300, ()))
    assert plan is not None
    assert (plan.version, plan.is_off, plan.classes) == (7, True, ())


def test_two_plans_of_one_version_differ_in_their_marks() -> None:
    turned = (("batch", 60_000), ("web", 30_000), ("rest", 10_000))
    orders = [order_of(2, 1, 300, THREE), order_of(2, 1, 301, THREE), order_of(2, 1, 300, turned)]
    assert len({plan.mark for plan in map(read, orders) if plan is not None}) == 3


def test_the_longest_plan_fits_a_document() -> None:
    share, rest = divmod(bounds.THOUSANDTHS, bounds.CLASSES_MAX)
    shares = [(f"{each:032}", share + (each < rest)) for each in range(bounds.CLASSES_MAX)]
    order = order_of(1, 1, bounds.ROUND_MS_MAX, shares)
    assert read(order)
    assert len(order.body) <= BODY_BYTES_MAX
    assert len(SHARES) <= NAME_CHARS_MAX
    assert is_within_bounds(order)


@over(
    "shares",
    [
        (("web", 100_000),),
        (("web", 60_000), ("rest", 39_999)),
        (("web", 60_000), ("web", 40_000)),
        (("web", 60_000), ("web", 20_000), ("rest", 20_000)),
        (("web", 99_001), ("rest", 999)),
        (("Web", 60_000), ("rest", 40_000)),
        (("x" * 33, 60_000), ("rest", 40_000)),
        (("web\n", 60_000), ("rest", 40_000)),
        (("", 60_000), ("rest", 40_000)),
        tuple((str(each), 787) for each in range(127)),
        (("web", 60_000.5), ("rest", 39_999.5)),
        (("web", -1), ("rest", 100_001)),
        "web",
    ],
)
def test_what_is_no_plan(shares: Any) -> None:
    assert read(raw((300, shares))) is None


@over("round_ms", [0, 299, 600_001, "300", None, 1 << 63])
def test_a_round_has_bounds(round_ms: Any) -> None:
    assert read(raw((round_ms, THREE))) is None


def test_a_plan_of_a_later_release_is_not_half_read() -> None:
    assert read(raw((300, THREE, "keep"))) is None
    assert read(order_of(1, 1, 300, THREE)._replace(body=b"\xc1")) is None
    assert read(order_of(1, 1, 300, THREE)._replace(name="metrics/plan")) is None


def test_the_floor_is_that_of_the_policies() -> None:
    """The core cannot ask them."""
    for classes in range(2, bounds.CLASSES_MAX + 1):
        assert floor_of(classes) == round(policy.floor_of(classes), 3) * 1000


def test_every_text_that_is_accepted_makes_a_plan() -> None:
    for text in ("web=60,batch=30,rest=10", "a=99,b=1", "a=33.333,b=33.333,c=33.334"):
        shares = [(each.name, round(each.percent * 1000)) for each in wanted.parse(text)]
        assert read(order_of(1, 1, 300, shares)) is not None
