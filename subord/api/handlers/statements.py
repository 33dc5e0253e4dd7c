"""What an operator says of members: `forget`, `maintain`, and the end of a maintenance.

Input: positions, a reason, the operator's name. Output: what was said and of which nodes. The statement is a document
(core/members/statements.py) on this node's disk before the answer, and travels to all nodes from here.
"""

from __future__ import annotations

import secrets
from typing import Any

from subord.api.http.server import Query, Response, document, failure
from subord.api.models import nodes
from subord.api.models.fields import StatementDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.documents import Document
from subord.core.members import statements
from subord.core.members.membership import DOCUMENTS
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
from subord.core.view import Position

TAG_BYTES = 8
NAMED_MAX = 512
UNTIL_S_MAX = 366 * 86_400


class _RefusedError(Exception):
    """The request cannot be granted: (HTTP status, one sentence)."""


async def forget(node: NodeApi, query: Query) -> Response:
    """Those that are down are expected no longer; the others are named, and nothing is said of them."""
    try:
        ranges, reason, by = _ranges(node, query), _reason(query), _author(query)
    except _RefusedError as error:
        return failure(*error.args)
    down = [p for p in node.tracker.membership.register.positions(State.DOWN) if statements.in_ranges(ranges, p)]
    if not down:
        return failure(409, "none of these nodes is down: nothing was changed")
    said = Forget(statements.ranges_of(down), reason, node.tracker.wall_ms, by)
    refusal = await _say(node, [statements.forget_document(_tag(), said)])
    return refusal or document(_answer(node, down))


async def maintain(node: NodeApi, query: Query) -> Response:
    """They are under maintenance from now on, present or not."""
    now_ms = node.tracker.wall_ms
    try:
        ranges, reason, by = _ranges(node, query), _reason(query), _author(query)
        until_ms = _until_ms(query, now_ms)
    except _RefusedError as error:
        return failure(*error.args)
    said = Maintain(ranges, reason, now_ms, by, until_ms)
    refusal = await _say(node, [statements.maintain_document(_tag(), said, 1, now_ms)])
    return refusal or document(_answer(node, _positions(ranges)))


async def resume(node: NodeApi, query: Query) -> Response:
    """End all maintenances of these nodes; one that also covers other nodes goes on for those."""
    now_ms = node.tracker.wall_ms
    try:
        ranges, by = _ranges(node, query), _author(query)
    except _RefusedError as error:
        return failure(*error.args)
    ended, changed = statements.ended(node.tracker.membership.documents, ranges, by, now_ms)
    if not ended:
        return failure(409, "none of these nodes is under maintenance: nothing was changed")
    refusal = await _say(node, changed)
    return refusal or document(_answer(node, ended))


async def _say(node: NodeApi, documents: list[Document]) -> Response | None:
    """None: it is stated. Else nothing was changed."""
    held = node.tracker.membership.documents
    held.drop_expired(node.tracker.wall_ms)
    if not all(map(statements.is_readable, documents)):
        sentence = f"a statement would name more than {RANGES_MAX} ranges, or be too long: name fewer nodes at once"
        return failure(400, f"{sentence}; nothing was changed")
    if not held.has_room(documents):
        sentence = f"{len(held)} statements are held, and no more have room until some expire"
        return failure(503, f"{sentence}: nothing was changed")
    node.tracker.spread(DOCUMENTS, documents)
    await node.tracker.memory.save()
    return None


def _answer(node: NodeApi, positions: list[Position]) -> StatementDocument:
    named = nodes.addresses(node.settings, positions[:NAMED_MAX])
    return StatementDocument(nodes=len(positions), addresses=named)


def _tag() -> str:
    return secrets.token_hex(TAG_BYTES)


def _ranges(node: NodeApi, query: Query) -> Ranges:
    size, text = node.settings.network.size, query.get("nodes", "")
    try:
        ranges = tuple(_range(part) for part in text.split(","))
    except ValueError:
        raise _RefusedError(400, "nodes must be positions such as 1,3-5: nothing was changed") from None
    if any(not 1 <= first <= last <= size for first, last in ranges):
        raise _RefusedError(400, f"a position must be from 1 to {size}: nothing was changed")
    if len(ranges) > RANGES_MAX or statements.size_of(ranges) > POSITIONS_MAX:
        raise _RefusedError(400, f"at most {RANGES_MAX} ranges of {POSITIONS_MAX} nodes at once: nothing was changed")
    return ranges


def _range(text: str) -> tuple[Position, Position]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _positions(ranges: Ranges) -> list[Position]:
    return [position for first, last in ranges for position in range(first, last + 1)]


def _reason(query: Query) -> str:
    reason = query.get("reason", "").strip()
    if not reason or len(reason) > REASON_CHARS_MAX or not reason.isprintable():
        raise _RefusedError(
            400, f"give a reason of 1 to {REASON_CHARS_MAX} printable characters: nothing was changed"
        )
    return reason


def _author(query: Query) -> str:
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
        raise _RefusedError(400, "until must be a number of seconds since 1970: nothing was changed") from None
    if not now_ms < until_ms <= now_ms + UNTIL_S_MAX * 1000:
        raise _RefusedError(400, "until must be in the future, at most a year from now: nothing was changed")
    return until_ms
