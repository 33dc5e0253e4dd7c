"""What the document `shares/plan` says: which classes of work there are, which shares they get, and how long a round
is; or that shares are off.

Input is the order of the document; output is the plan. Invariants: the shares of a plan sum to exactly 100 percent,
because they are counted in thousandths, and none is below the floor; each class stands once. Shares that are off are
a version like any other, so nodes that come back later learn of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.carriage.documents import NEVER_MS, SHARES
from subord.core.carriage.orders import Order
from subord.core.carriage.shares import bounds
from subord.core.decoding import UNREADABLE

_CLASS: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")

_Class = Annotated[str, msgspec.Meta(min_length=1, max_length=bounds.CLASS_CHARS_MAX)]
_Share = Annotated[int, msgspec.Meta(ge=1, le=bounds.THOUSANDTHS)]
Shares = tuple[tuple[_Class, _Share], ...]
"""Classes with thousandths of a ticket."""


class Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Of the document. No `shares`: they are off."""

    round_ms: Annotated[int, msgspec.Meta(ge=bounds.ROUND_MS_MIN, le=bounds.ROUND_MS_MAX)]
    shares: Annotated[Shares, msgspec.Meta(max_length=bounds.CLASSES_MAX)]


class Plan(NamedTuple):
    """A document as the nodes follow it. `wanted`: percents in the order of `classes`. `mark`: of its content, one
    byte; it tells two documents of one version apart."""

    version: int
    round_s: float
    classes: tuple[str, ...]
    wanted: tuple[float, ...]
    mark: int

    @property
    def is_off(self) -> bool:
        return not self.classes


_decoder = msgspec.msgpack.Decoder(Body)


def order_of(version: int, at_ms: int, round_ms: int, shares: Sequence[tuple[str, int]]) -> Order:
    """What an operator signs. No `shares`: they are off."""
    return Order(SHARES, version, at_ms, NEVER_MS, msgspec.msgpack.encode(Body(round_ms, tuple(shares))))


def read(order: Order) -> Plan | None:
    """None: it is another order, or makes no plan."""
    if order.name != SHARES:
        return None
    try:
        body = _decoder.decode(order.body)
    except UNREADABLE:
        return None
    if body.shares and not _is_sound(body.shares):
        return None
    wanted = tuple(share / 1000 for _, share in body.shares)
    mark = blake2b(order.body, digest_size=1).digest()[0]
    return Plan(order.version, body.round_ms / 1000, tuple(name for name, _ in body.shares), wanted, mark)


def floor_of(classes: int) -> int:
    """The least share of a class in a plan, in thousandths of a ticket."""
    return min(bounds.FLOOR_THOUSANDTHS, round(bounds.FLOORS_SUM_MAX / classes))


def _is_sound(shares: Shares) -> bool:
    names = {name for name, _ in shares}
    return (
        1 < len(names) == len(shares)
        and all(map(_CLASS.fullmatch, names))
        and sum(share for _, share in shares) == bounds.THOUSANDTHS
        and min(share for _, share in shares) >= floor_of(len(shares))
    )
