"""`/v1/errors` at the web address: no names of keys, and one question to all nodes for many readers."""

from __future__ import annotations

import json
from pathlib import Path

import trio
from trio.testing import MockClock

from subord.api.handlers.control import control_app
from subord.api.handlers.web import web_app
from subord.api.handlers.web_problems import KEPT_S
from subord.api.http.server import Handler, Response
from subord.core.view import Liveness
from subord.sealing.keys import key_of, keyring_of
from subord.services.serving import service_app
from tests.api.fake_node_api import World, key_ring_of


async def problems_of(handler: Handler) -> list[tuple[str, list[str]]]:
    response = await handler({})
    assert isinstance(response, Response)
    return [(each["text"], each["addresses"]) for each in json.loads(response.body)["problems"]]


async def test_no_key_is_named(tmp_path: Path) -> None:
    world = World()
    for position in world.leaders:
        world.key_rings[position] = key_ring_of(tmp_path, keyring_of(key_of(bytes([7 if position == 9 else 1]) * 32)))
    node = world.node(1)
    control = {**control_app(node), **service_app(node)}
    (at_socket,) = await problems_of(control["/v1/errors"])
    assert at_socket[0].startswith("has key ")
    assert await problems_of(web_app(node, control)["/v1/errors"]) == [("has other keys than most", ["10.0.0.9"])]


async def test_many_readers_cause_one_question(autojump_clock: MockClock) -> None:
    world = World()
    node = world.node(1)
    handler = web_app(node, {**control_app(node), **service_app(node)})["/v1/errors"]
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(problems_of, handler)
    assert len(node.orders.given) == 1
    world.liveness[11] = Liveness.MISSING
    assert await problems_of(handler) == []
    await trio.sleep(KEPT_S)
    assert await problems_of(handler) == [("down: ended or vanished without goodbye", ["10.0.0.11"])]
