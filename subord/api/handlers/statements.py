"""What operators say of members: `forget`, `maintain`, and the end of a maintenance, as orders to be signed; and what
was said.

Input: positions, a reason, the name that the command gives to the operator. Output: orders (core/members/
statements.py), and the nodes that they are about; or the list of all statements that hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from subord.api.handlers.refused import RefusedError
from subord.api.http.server import Query
from subord.api.models import nodes
from subord.api.models.document import time_text
from subord.api.models.orders import MaintenanceDocument, SaidDocument, StatementsDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.orders import Order
from subord.core.members import statements
from subord.core.members.register import State
from subord.core.members.statements import (
    AUTHOR_CHARS_MAX,
    POSITIONS_MAX,
    RANGES_MAX,
    REASON_CHARS_MAX,
    Forget,
    Maintain,
    Ranges,
)
from subord.core.members.writer import GRACE_S
from subord.core.view import Position

UNTIL_S_MAX = 366 * 86_400
NAMED_MAX = 512
Said = tuple[list[Order], list[Position]]


def forget(node: NodeApi, query: Query, tag: str) -> Said:
    """Of `nodes`, those that are down are expected no longer; of the others nothing is said. `absent` are no members,
    as after a goodbye, and have pinned keys. No key is pinned to any of them any more. Raises RefusedError.
    """
    reason, by = reason_in(query), said_by(query)
    absent = _positions(_ranges(node, query, "absent")) if "absent" in query else []
    ranges = _ranges(node, query) if "nodes" in query or not absent else ()
    register, pins = node.tracker.membership.register, node.tracker.membership.pins
    if strangers := [each for each in absent if pins is None or not pins.key_of(each)]:
        first, more = nodes.address(node.settings, strangers[0]), len(strangers) - 1
        sentence = f"no member, and no key is pinned to its address: {first}{f' and {more} more' if more else ''}"
        raise RefusedError(404, f"{sentence}; `subord members` lists all, and nothing was changed")
    down = [p for p in register.positions(State.DOWN) if statements.in_ranges(ranges, p)]
    found = sorted({*down, *absent})
    if not found:
        later = f"one that has just vanished is down within {GRACE_S:g} s, try again then"
        raise RefusedError(409, f"none of these nodes is down for this node: nothing was changed; {later}")
    said = Forget(statements.ranges_of(found), reason, by)
    return _checked([statements.forget_order(tag, said, node.tracker.wall_ms)]), found


def maintain(node: NodeApi, query: Query, tag: str) -> Said:
    """They are under maintenance from now on, present or not. Raises RefusedError."""
    now_ms = node.tracker.wall_ms
    ranges, reason, by = _ranges(node, query), reason_in(query), said_by(query)
    said = Maintain(ranges, reason, by, _until_ms(query, now_ms))
    return _checked([statements.maintain_order(tag, said, now_ms)]), _positions(ranges)


def resume(node: NodeApi, query: Query) -> Said:
    """End all maintenances of these nodes; one that covers others goes on for those. Raises RefusedError."""
    ranges, by = _ranges(node, query), said_by(query)
    ended, changed = statements.ended(node.tracker.membership.documents, ranges, by, node.tracker.wall_ms)
    if not ended:
        raise RefusedError(409, "none of these nodes is under maintenance: nothing was changed")
    return _checked(changed), ended


def _checked(orders: list[Order]) -> list[Order]:
    """Raises RefusedError if other nodes could not read them."""
    if not all(map(statements.is_readable, orders)):
        sentence = f"a statement would name more than {RANGES_MAX} ranges, or be too long: name fewer nodes at once"
        raise RefusedError(400, f"{sentence}; nothing was changed")
    return orders


def _ranges(node: NodeApi, query: Query, name: str = "nodes") -> Ranges:
    size, text = node.settings.network.size, query.get(name, "")
    try:
        ranges = tuple(_range(part) for part in text.split(","))
    except ValueError:
        raise RefusedError(400, f"{name} must be positions such as 1,3-5: nothing was changed") from None
    if any(not 1 <= first <= last <= size for first, last in ranges):
        raise RefusedError(400, f"a position must be from 1 to {size}: nothing was changed")
    if len(ranges) > RANGES_MAX or statements.size_of(ranges) > POSITIONS_MAX:
        raise RefusedError(400, f"at most {RANGES_MAX} ranges of {POSITIONS_MAX} nodes at once: nothing was changed")
    return ranges


def _range(text: str) -> tuple[Position, Position]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _positions(ranges: Ranges) -> list[Position]:
    return [position for first, last in ranges for position in range(first, last + 1)]


def reason_in(query: Query) -> str:
    """The reason of an order. Raises RefusedError."""
    reason = query.get("reason", "").strip()
    if not reason or len(reason) > REASON_CHARS_MAX or not reason.isprintable():
        raise RefusedError(400, f"give a reason of 1 to {REASON_CHARS_MAX} printable characters: nothing was changed")
    return reason


def said_by(query: Query) -> str:
    """The operator as the command names it; the authority is the signature."""
    by = query.get("by", "")[:AUTHOR_CHARS_MAX]
    return by if by.isprintable() else "?"


def _until_ms(query: Query, now_ms: int) -> int:
    """0: no end was given."""
    given: Any = query.get("until")
    if given is None:
        return 0
    try:
        until_ms = int(float(given[:32]) * 1000)
    except (ValueError, OverflowError):
        raise RefusedError(400, "until must be a number of seconds since 1970: nothing was changed") from None
    if not now_ms < until_ms <= now_ms + UNTIL_S_MAX * 1000:
        raise RefusedError(400, "until must be in the future, at most a year from now: nothing was changed")
    return until_ms


# -- what was said --------------------------------------------------------------------------------------------


def said(node: NodeApi) -> StatementsDocument:
    """The statements that this node holds."""
    membership, now_ms = node.tracker.membership, node.tracker.wall_ms
    return StatementsDocument(
        asked=node.address,
        maintenances=tuple(
            _maintenance(node, each) for each in statements.under_maintenance(membership.documents, now_ms)
        ),
        forgotten=tuple(
            SaidDocument(**_said(node, each, _within(node, each.said.nodes)))
            for each in statements.forgets(membership.documents)
        ),
    )


def _maintenance(node: NodeApi, each: statements.Maintenance) -> MaintenanceDocument:
    present = statements.covered([each], node.tracker.membership.register, State.UP, State.DOWN)
    absent = sorted({*_within(node, each.said.nodes)} - {*present})
    return MaintenanceDocument(
        **_said(node, each, present),
        absent_nodes=len(absent),
        absent=nodes.addresses(node.settings, absent[:NAMED_MAX]),
        until=time_text(each.said.until_ms / 1000) if each.said.until_ms else None,
    )


def _said(
    node: NodeApi, each: statements.Maintenance | statements.Forgotten, positions: list[Position]
) -> dict[str, Any]:
    principal, _ = node.tracker.membership.signers.get(each.name, ("", ""))
    return {
        "nodes": len(positions),
        "addresses": nodes.addresses(node.settings, positions[:NAMED_MAX]),
        "reason": each.said.reason,
        "principal": principal or None,
        "said_by": each.said.by or None,
        "time": time_text(each.at_ms / 1000),
    }


def _within(node: NodeApi, ranges: Iterable[tuple[Position, Position]]) -> list[Position]:
    """The positions of this network, each once."""
    size = node.settings.network.size
    return sorted({p for first, last in ranges for p in range(first, min(last, size) + 1)})
