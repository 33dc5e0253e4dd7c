"""The plan of metrics through the control socket: what is prepared, what is refused, and what is taken."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from loops import over

from subord.api.handlers.orders import prepare
from subord.api.http.server import Call
from subord.core.carriage import plan
from subord.core.carriage.documents import NEVER_MS, PLAN, Document
from subord.core.carriage.orders import Order, Verdict
from subord.core.carriage.plan import PATTERN_CHARS_MAX, PATTERNS_MAX
from tests.api.fake_node_api import FakeNode, World
from tests.api.ordering import given, signed_body


async def prepared(node: FakeNode, body: bytes) -> tuple[int, Any]:
    response: Any = await prepare(node, Call({"action": "metrics-plan"}, body, False))  # type: ignore[arg-type]
    return response.status, json.loads(response.body)


def body_of(*patterns: object) -> bytes:
    return json.dumps({"patterns": patterns}).encode()


def order_in(document: Any) -> Order:
    (one,) = document["orders"]
    body = base64.b64decode(one["body"])
    return Order(one["name"], one["version"], one["at_ms"], one["expires_ms"], body)


async def test_the_first_plan_and_the_next() -> None:
    node = World().node(7)
    status, document = await prepared(node, body_of("node_load1", "x*"))
    order = order_in(document)
    assert (status, document["orders"][0]["namespace"]) == (200, "subord.metrics")
    assert (order.name, order.version, order.expires_ms) == (PLAN, 1, NEVER_MS)
    assert plan.read(order) == ("node_load1", "x*")
    later = node.tracker.wall_ms + 60_000
    node.tracker.take([(Document(*plan.order_of(4, later, ["a"])), Verdict("", "ann"))])
    order = order_in((await prepared(node, body_of("b")))[1])
    assert (order.version, order.at_ms) == (5, later + 1)


@over(
    "body",
    [
        b"",
        b"{}",
        b'{"patterns": "a"}',
        b"[" * 9999,
        body_of(),
        body_of(""),
        body_of(7),
        body_of("a\nb"),
        body_of("x" * (PATTERN_CHARS_MAX + 1)),
        body_of(*["x"] * (PATTERNS_MAX + 1)),
    ],
)
async def test_what_is_no_plan_is_refused(body: bytes) -> None:
    status, document = await prepared(World().node(7), body)
    assert status == 400
    assert document["error"].endswith("nothing was prepared")


@pytest.mark.parametrize(("principal", "status"), [("ann", 200), ("mia", 403)])
async def test_only_the_power_of_metrics_changes_the_plan(principal: str, status: int) -> None:
    node = World().node(7)
    _, document = await prepared(node, body_of("node_load1"))
    found, answer = await given(node, signed_body(document, principal))
    assert found == status, answer
    assert (PLAN in node.tracker.membership.documents.by_name) is (status == 200)
