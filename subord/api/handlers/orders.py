"""Orders of operators: prepared here, signed by the operator's command, given here, and spread from here.

`prepare` answers the orders that an action needs, and what they would do. `give` takes the signed orders: each is
judged like one of a neighbour (runtime/security/gate.py), and either all are taken or none is. The authority is the
signature, so every client of the socket may call both; only a key ring, which holds secrets, is prepared for root and
the daemon's own user alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import trio

from subord.api.handlers import keys
from subord.api.handlers.refused import RefusedError
from subord.api.handlers.statements import forget, maintain, reason_in, resume, said_by
from subord.api.http.server import Call, Orders, Query, Response, document, failure
from subord.api.models import nodes
from subord.api.models.orders import (
    JudgedDocument,
    JudgedOrder,
    OrderDocument,
    PlanRequest,
    PreparedDocument,
    SharesRequest,
    SignedDocument,
)
from subord.api.node_api import NodeApi
from subord.core.carriage import plan
from subord.core.carriage.documents import (
    BODY_BYTES_MAX,
    NEVER_MS,
    OF_AGENTS,
    PLAN,
    SHARES,
    STRICT,
    Document,
    is_within_bounds,
)
from subord.core.carriage.orders import TEST, Order, Verdict, namespace_for, signed_content
from subord.core.carriage.shares import plan as shares_plan
from subord.core.carriage.verdicts import POWERS, power_of, sentence
from subord.core.decoding import UNREADABLE
from subord.core.identity.revocations import WHAT_CHARS_MAX, Entry, Kind
from subord.core.view import Position
from subord.sealing.keys import KeyringError

RING_ACTIONS: Final = ("ring-install", "ring-use", "ring-remove")
PLAN_ACTION: Final = "metrics-plan"
SHARES_ACTION: Final = "shares-plan"
PUBLISH_ACTION: Final = "publish"
"""Of a document that agents alone read."""
NAMED_MAX: Final = 512
TEST_MS: Final = 600_000
TAG_BYTES: Final = 8
_request = msgspec.json.Decoder(SignedDocument)
_plan_request = msgspec.json.Decoder(PlanRequest)
_shares_request = msgspec.json.Decoder(SharesRequest)


class Prepared(NamedTuple):
    """The orders of an action, and the nodes that it is about."""

    orders: list[Order]
    positions: list[Position]


def order_handlers(node: NodeApi) -> Orders:
    """The handlers for every client of the control socket."""

    async def prepare_one(call: Call) -> Response:
        return await prepare(node, call)

    async def give_one(call: Call) -> Response:
        return await give(node, call)

    return {"/v1/orders/prepare": prepare_one, "/v1/orders": give_one}


# -- preparing ------------------------------------------------------------------------------------------------


async def prepare(node: NodeApi, call: Call) -> Response:
    """The unsigned orders of `?action=A`; nothing is changed. Those of a plan are made of the body."""
    action = call.query.get("action", "")
    try:
        if action in RING_ACTIONS:
            return document(await _ring(node, action, call))
        if action == PLAN_ACTION:
            return document(PreparedDocument(orders=_unsigned(node, [_plan(node, call.body)])))
        if action == SHARES_ACTION:
            return document(PreparedDocument(orders=_unsigned(node, [_shares(node, call.body)])))
        if action == PUBLISH_ACTION:
            return document(PreparedDocument(orders=_unsigned(node, [_of_agents(node, call)])))
        make = _ACTIONS.get(action)
        if make is None:
            known = ", ".join((*_ACTIONS, PLAN_ACTION, SHARES_ACTION, PUBLISH_ACTION, *RING_ACTIONS))
            raise RefusedError(400, f"the action must be one of {known}: nothing was prepared")
        orders, positions = await make(node, call.query)
    except RefusedError as error:
        return failure(*error.args)
    named = nodes.addresses(node.settings, positions[:NAMED_MAX])
    return document(PreparedDocument(orders=_unsigned(node, orders), nodes=len(positions), addresses=named))


def _unsigned(node: NodeApi, orders: list[Order]) -> tuple[OrderDocument, ...]:
    return tuple(
        OrderDocument(
            **order._asdict(), content=signed_content(node.gate.cluster, order), namespace=namespace_for(order.name)
        )
        for order in orders
    )


async def _ring(node: NodeApi, action: str, call: Call) -> PreparedDocument:
    if node.key_ring is None:
        raise RefusedError(409, keys.NO_KEYS)
    if not call.is_owner:
        raise RefusedError(403, "only root and the daemon's own user may see keys, so they prepare changes of them")
    try:
        order, name = await keys.ring_order(node, action.removeprefix("ring-"), call.query)
    except KeyringError as error:
        raise RefusedError(409, f"{error}; nothing was changed") from None
    return PreparedDocument(orders=_unsigned(node, [order]), key=name, revision=order.version)


async def _forget(node: NodeApi, query: Query) -> Prepared:
    await trio.lowlevel.checkpoint()
    return Prepared(*forget(node, query, _tag()))


async def _maintain(node: NodeApi, query: Query) -> Prepared:
    await trio.lowlevel.checkpoint()
    return Prepared(*maintain(node, query, _tag()))


async def _resume(node: NodeApi, query: Query) -> Prepared:
    await trio.lowlevel.checkpoint()
    return Prepared(*resume(node, query))


async def _revoke(node: NodeApi, query: Query) -> Prepared:
    """`?operator=PRINCIPAL|FINGERPRINT` or `?node=ADDRESS`, `&reason=R&by=U`."""
    await trio.lowlevel.checkpoint()
    now_ms = node.tracker.wall_ms
    is_node, what, position = _revoked(node, query)
    key = _key_of(node, what, position) if is_node else b""
    kind: Kind = "node" if is_node else "operator"
    entry = Entry(kind, what, position, reason_in(query), now_ms, said_by(query), key)
    order = node.tracker.membership.revocations.with_entry(entry, now_ms)
    if order is None:
        raise RefusedError(503, "the list of revocations is full: end some with --undo; nothing was changed")
    return Prepared([order], [position] if position else [])


def _key_of(node: NodeApi, address: str, position: Position) -> bytes:
    """The key that is pinned to an address. Raises RefusedError."""
    pins = node.tracker.membership.pins
    key = b"" if pins is None else pins.key_of(position)
    if not key:
        raise RefusedError(404, f"no key is pinned to {address}, so there is none to revoke: nothing was changed")
    return key


async def _unrevoke(node: NodeApi, query: Query) -> Prepared:
    """The same, for an entry that the list has."""
    await trio.lowlevel.checkpoint()
    is_node, what, position = _revoked(node, query)
    found = node.tracker.membership.revocations.without("node" if is_node else "operator", what, node.tracker.wall_ms)
    if found is None:
        raise RefusedError(404, f"{what} is not revoked: nothing was changed")
    return Prepared([found], [position] if position else [])


def _revoked(node: NodeApi, query: Query) -> tuple[bool, str, Position]:
    """Whether it is a node, its name on the list, and its position."""
    if "node" in query:
        network = node.settings.network
        position = network.position_of(query["node"])
        if position is None:
            raise RefusedError(404, f"{query['node'][:64]!r} is no address of the network: nothing was changed")
        return True, network.address_text_of(position), position
    what = query.get("operator", "").strip()
    if not what or len(what) > WHAT_CHARS_MAX or not what.isprintable():
        raise RefusedError(400, f"name an operator with 1 to {WHAT_CHARS_MAX} printable characters, or a node")
    return False, what, 0


async def _strict(node: NodeApi, query: Query) -> Prepared:
    """`?to=on` or `?to=off`."""
    await trio.lowlevel.checkpoint()
    to = query.get("to")
    if to not in ("on", "off"):
        raise RefusedError(400, "strict is on or off: nothing was changed")
    before = node.tracker.membership.documents.by_name.get(STRICT)
    version = 1 if before is None else before.version + 1
    body = msgspec.msgpack.encode(to == "on")
    return Prepared([Order(STRICT, version, node.tracker.wall_ms, NEVER_MS, body)], [])


def _plan(node: NodeApi, body: bytes) -> Order:
    """The next version of the plan of metrics. Raises RefusedError."""
    try:
        patterns = _plan_request.decode(body).patterns
    except UNREADABLE:
        raise RefusedError(400, "the body is no list of patterns: nothing was prepared") from None
    order = plan.order_of(*_next(node, PLAN), patterns)
    if plan.read(order) is None:
        each = f"each of 1 to {plan.PATTERN_CHARS_MAX} printable characters"
        raise RefusedError(400, f"a plan has 1 to {plan.PATTERNS_MAX} patterns, {each}: nothing was prepared")
    return order


def _shares(node: NodeApi, body: bytes) -> Order:
    """The next version of the shares. Raises RefusedError."""
    try:
        wanted = _shares_request.decode(body)
        order = shares_plan.order_of(*_next(node, SHARES), wanted.round_ms, wanted.shares)
    except UNREADABLE:
        raise RefusedError(400, "the body is no list of shares: nothing was prepared") from None
    if shares_plan.read(order) is None:
        rule = "2 to 126 classes whose shares sum to 100 percent, in rounds of 0.3 to 600 s"
        raise RefusedError(400, f"shares are of {rule}, or none at all: nothing was prepared")
    return order


def _of_agents(node: NodeApi, call: Call) -> Order:
    """`?name=N`: the next version of a document with the given body. Raises RefusedError."""
    name = call.query.get("name", "")
    if name not in OF_AGENTS:
        raise RefusedError(400, f"the name must be one of {', '.join(sorted(OF_AGENTS))}: nothing was prepared")
    order = Order(name, *_next(node, name), NEVER_MS, call.body)
    if not is_within_bounds(order):
        raise RefusedError(400, f"the body has more than {BODY_BYTES_MAX} bytes: nothing was prepared")
    return order


def _next(node: NodeApi, name: str) -> tuple[int, int]:
    """Version and time of the next document of a name."""
    before, at_ms = node.tracker.membership.documents.by_name.get(name), node.tracker.wall_ms
    return (1, at_ms) if before is None else (before.version + 1, max(at_ms, before.at_ms + 1))


async def _test(node: NodeApi, query: Query) -> Prepared:
    """`?power=P`: an order that is judged and never stored."""
    await trio.lowlevel.checkpoint()
    name, now_ms = f"{TEST}/{query.get('power', '')[:32]}", node.tracker.wall_ms
    if not namespace_for(name):
        raise RefusedError(400, f"the power must be one of {', '.join(POWERS)}")
    return Prepared([Order(name, 1, now_ms, now_ms + TEST_MS, secrets.token_bytes(TAG_BYTES))], [])


_ACTIONS: Mapping[str, Callable[[NodeApi, Query], Awaitable[Prepared]]] = {
    "forget": _forget,  # ?nodes=1,3-5&reason=R&by=U
    "maintain": _maintain,  # the same, &until=SECONDS since 1970
    "resume": _resume,  # the end of a maintenance: ?nodes=1,3-5&by=U
    "revoke": _revoke,
    "unrevoke": _unrevoke,
    "strict": _strict,
    "test": _test,
}


def _tag() -> str:
    return secrets.token_hex(TAG_BYTES)


# -- giving ---------------------------------------------------------------------------------------------------


async def give(node: NodeApi, call: Call) -> Response:
    """Judge the signed orders of the body, and take all of them, or none."""
    try:
        given = _request.decode(call.body)
        documents = [Document(o.name, o.version, o.at_ms, o.expires_ms, o.body, o.signature) for o in given.orders]
    except UNREADABLE:
        return failure(400, "the body is no document with signed orders: nothing was changed")
    held = node.tracker.membership.documents
    held.drop_expired(node.tracker.wall_ms)
    judged = [(each, await node.gate.judge_given(each, held)) for each in documents]
    verdicts = tuple(_shown(*each) for each in judged)
    if all(each.kind == TEST for each in documents):
        return document(JudgedDocument(orders=verdicts, stored=False, saved=False))
    refused = [f"{each.name}: {each.sentence}" for each in verdicts if each.word]
    if refused:
        passing = all(verdict.word in ("", "busy") for _, verdict in judged)
        return failure(503 if passing else 403, f"refused: {'; '.join(refused)}. Nothing was changed"[:1000])
    judged = [each for each in judged if each[0].kind != TEST]
    if not held.has_room([each for each, _ in judged]):
        return failure(
            503, f"{len(held)} orders are held, and no more have room until some expire: nothing was changed"
        )
    node.tracker.take(judged)
    is_saved = await node.tracker.memory.save()
    return document(JudgedDocument(orders=verdicts, stored=True, saved=is_saved))


def _shown(given: Document, verdict: Verdict) -> JudgedOrder:
    fields: dict[str, Any] = verdict._asdict()
    what = sentence(verdict.word) if verdict.word else ""
    return JudgedOrder(name=given.name, power=power_of(namespace_for(given.name)), sentence=what, **fields)
