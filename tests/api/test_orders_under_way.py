"""`/v1/orders`: what passes a node, and what has ended, each with its coverage so far."""

from __future__ import annotations

import json

from subord.api.handlers.control import control_app
from subord.api.handlers.web import PUBLIC
from subord.api.http.server import Response
from subord.core.carriage.engine.interface import Overview
from tests.api.fake_node_api import World


async def test_orders_and_counters_of_the_engine() -> None:
    node = World().node(2)
    node.orders.held = [
        Overview("ping", 5, False, 7, 3, 1, 0.25, 0.55),
        Overview("errors", 1 << 40, False, 0, 0, 0, 0, 1),
    ]
    node.orders.past = [(Overview("keys", 2, True, 11, 11, 0, 0.1, 0.7), 4.0)]
    node.counters.dropped |= {"order_late": 2, "malformed": 3}
    response = await control_app(node)["/v1/orders"]({})
    assert isinstance(response, Response)
    found = json.loads(response.body)
    counts = {"asked": 7, "told": 3, "missing": 1}
    assert found["orders"][0] == {
        "service": "ping", "issuer": "10.0.0.5", "own": False, **counts, "since_s": 0.25, "left_s": 0.55
    }  # fmt: skip
    assert found["orders"][1]["issuer"] is None
    (ended,) = found["ended"]
    assert (ended["service"], ended["own"], ended["took_s"], ended["since_s"]) == ("keys", True, 0.1, 4.0)
    assert found["dropped"] == {"late": 2}
    assert found["tables"] == {"held_bytes": 0, "orders": 2}


def test_any_client_may_read_it() -> None:
    assert "/v1/orders" in PUBLIC
