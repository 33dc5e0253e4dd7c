"""Which orders are refused whatever their signature: the part of the gate that daemon and simulator share.

Inputs are a document and the time; output is a word of core/carriage/verdicts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from subord.core.carriage import plan
from subord.core.carriage.documents import (
    FILES,
    PLAN,
    REVOKED,
    RING,
    SHARES,
    Document,
    is_current,
    is_within_bounds,
)
from subord.core.carriage.orders import Order, namespace_for
from subord.core.carriage.published import read
from subord.core.carriage.shares import plan as shares_plan
from subord.core.identity.revocations import entries_of
from subord.core.members import statements
from subord.core.members.register import LEAP_MS_MAX
from subord.sealing.rotation import ring_of

_READS: Final[Mapping[str, Callable[[Order], object]]] = {
    RING: ring_of,
    REVOKED: entries_of,
    PLAN: plan.read,
    SHARES: shares_plan.read,
}
"""Of documents that are the only ones of their kind; None: it makes no sense."""


def refusal(document: Document, now_ms: int) -> str:
    """Why the order does not count, whatever its signature; "": the signature decides."""
    if not namespace_for(document.name):
        return "unknown_kind"
    if not is_current(document.order, now_ms):
        return "expired"
    if document.at_ms > now_ms + LEAP_MS_MAX:
        return "from_the_future"
    if not document.signature:
        return "unsigned"
    return "" if is_readable(document.order) else "malformed"


def is_readable(order: Order) -> bool:
    """Whether all nodes understand the order."""
    if order.name.partition("/")[0] in (statements.FORGET, statements.MAINTAIN):
        return statements.is_readable(order)
    if order.name.partition("/")[0] == FILES:
        return read(order) is not None and is_within_bounds(order)
    reads = _READS.get(order.name)
    return is_within_bounds(order) if reads is None else reads(order) is not None
