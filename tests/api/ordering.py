"""Orders as a command gives them: prepared by a fake node, signed, and given to it."""

from __future__ import annotations

import base64
import json
from typing import Any

from fake_operators import sign

from subord.api.handlers.orders import give, prepare
from subord.api.http.server import Call
from tests.api.fake_node_api import FakeNode

Answer = tuple[int, Any]


async def prepared(node: FakeNode, action: str, /, *, is_owner: bool = True, **query: str) -> Answer:
    """Status and document."""
    response = await prepare(node, Call({"action": action, **query}, b"", is_owner))
    return response.status, json.loads(response.body)


def signed_body(document: dict[str, Any], principal: str = "ann") -> bytes:
    """The body with all prepared orders."""
    orders = []
    for each in document["orders"]:
        signature = sign(base64.b64decode(each["content"]), each["namespace"], principal)
        kept = {key: each[key] for key in ("name", "version", "at_ms", "expires_ms", "body")}
        orders.append({**kept, "signature": base64.b64encode(signature).decode()})
    return json.dumps({"orders": orders}).encode()


async def given(node: FakeNode, body: bytes) -> Answer:
    response = await give(node, Call({}, body, is_owner=False))
    return response.status, json.loads(response.body)


async def order(node: FakeNode, action: str, principal: str = "ann", /, **query: str) -> Answer:
    """Status and document: of the refusal, or what was prepared, with the answer to the order as `judged`."""
    status, document = await prepared(node, action, **query)
    if status != 200:
        return status, document
    status, answer = await given(node, signed_body(document, principal))
    return status, {**document, "judged": answer} if status == 200 else answer
