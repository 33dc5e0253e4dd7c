"""The document of shares through the control socket: what is prepared, what is refused, and what is taken."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from loops import over

from subord.api.handlers.orders import prepare
from subord.api.http.server import Call
from subord.core.carriage.documents import NEVER_MS, SHARES, Document
from subord.core.carriage.orders import Order, Verdict
from subord.core.carriage.shares.plan import order_of, read
from tests.api.fake_node_api import FakeNode, World
from tests.api.ordering import given, signed_body

SHARES_OF_TWO = [["web", 60_000], ["rest", 40_000]]


async def prepared(node: FakeNode, body: bytes) -> tuple[int, Any]:
    response: Any = await prepare(node, Call({"action": "shares-plan"}, body, False))  # type: ignore[arg-type]
    return response.status, json.loads(response.body)


def body_of(*shares: object, round_ms: object = 300) -> bytes:
    return json.dumps({"round_ms": round_ms, "shares": shares}).encode()


def order_in(document: Any) -> Order:
    (one,) = document["orders"]
    body = base64.b64decode(one["body"])
    return Order(one["name"], one["version"], one["at_ms"], one["expires_ms"], body)


async def test_the_first_plan_the_next_and_off() -> None:
    node = World().node(7)
    status, document = await prepared(node, body_of(*SHARES_OF_TWO))
    order = order_in(document)
    assert (status, document["orders"][0]["namespace"]) == (200, "subord.shares")
    assert (order.name, order.version, order.expires_ms) == (SHARES, 1, NEVER_MS)
    plan = read(order)
    assert plan is not None
    assert plan.wanted == (60.0, 40.0)
    later = node.tracker.wall_ms + 60_000
    node.tracker.take([(Document(*order_of(4, later, 300, [("a", 50_000), ("b", 50_000)])), Verdict("", "ann"))])
    order = order_in((await prepared(node, body_of()))[1])
    assert (order.version, order.at_ms) == (5, later + 1)
    off = read(order)
    assert off is not None
    assert off.is_off


@over(
    "body",
    [
        b"",
        b"{}",
        b"[" * 9999,
        body_of(["web", 100_000]),
        body_of(["web", 60_000], ["rest", 39_999]),
        body_of(*SHARES_OF_TWO, round_ms=299),
        body_of(*SHARES_OF_TWO, round_ms=1 << 70),
        body_of(["web", 60_000.5], ["rest", 39_999.5]),
    ],
)
async def test_what_are_no_shares_is_refused(body: bytes) -> None:
    status, document = await prepared(World().node(7), body)
    assert status == 400
    assert document["error"].endswith("nothing was prepared")


@pytest.mark.parametrize(("principal", "status"), [("ann", 200), ("mia", 403)])
async def test_only_the_power_of_shares_changes_them(principal: str, status: int) -> None:
    node = World().node(7)
    _, document = await prepared(node, body_of(*SHARES_OF_TWO))
    found, answer = await given(node, signed_body(document, principal))
    assert found == status, answer
    assert (SHARES in node.tracker.membership.documents.by_name) is (status == 200)


async def test_a_document_that_makes_no_plan_is_taken_by_no_node() -> None:
    node = World().node(7)
    _, document = await prepared(node, body_of(*SHARES_OF_TWO))
    document["orders"][0]["body"] = base64.b64encode(b"\xc1").decode()
    found, answer = await given(node, signed_body(document, "ann"))
    assert found == 403, answer
