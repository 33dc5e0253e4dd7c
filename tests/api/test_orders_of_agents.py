"""Documents that agents alone read, through the control socket."""

from __future__ import annotations

import base64
import json
from typing import Any

from loops import over

from subord.api.handlers.orders import prepare
from subord.api.http.server import Call
from subord.core.carriage.documents import BODY_BYTES_MAX, NEVER_MS
from tests.api.fake_node_api import World


async def prepared(name: str, body: bytes) -> tuple[int, Any]:
    call = Call({"action": "publish", "name": name}, body, False)  # type: ignore[arg-type]
    response: Any = await prepare(World().node(7), call)
    return response.status, json.loads(response.body)


@over(("name", "namespace"), [("elastic/plan", "subord.plans"), ("hosts/table", "subord.hosts")])
async def test_the_body_is_taken_as_it_is(name: str, namespace: str) -> None:
    status, document = await prepared(name, b"{}")
    (order,) = document["orders"]
    assert (status, order["name"], order["version"], order["namespace"]) == (200, name, 1, namespace)
    assert (base64.b64decode(order["body"]), order["expires_ms"]) == (b"{}", NEVER_MS)


@over(
    ("name", "size", "words"),
    [
        ("shares/plan", 2, "must be one of elastic/plan, hosts/table"),
        ("", 2, "must be one of"),
        ("hosts/table", BODY_BYTES_MAX + 1, "more than 8192 bytes"),
    ],
)
async def test_a_wrong_one_is_refused(name: str, size: int, words: str) -> None:
    status, document = await prepared(name, b"x" * size)
    assert status == 400
    assert words in document["error"]
    assert document["error"].endswith("nothing was prepared")
