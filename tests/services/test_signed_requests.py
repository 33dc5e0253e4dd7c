"""Requests and the command of a service with effects: what is signed, and what the daemon passes on."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import toy_services
import trio
from signers import Signers

from subord.api.http.server import Call
from subord.api.models.coverage import CoverageDocument
from subord.api.query.orders import Answered
from subord.cli import COMMANDS, main
from subord.client import exit_codes
from subord.core.carriage.engine.acting import service_orders
from subord.core.carriage.engine.frames import order_of
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime.security.operators import Operators
from subord.services import serving
from subord.services.acting import act_of, has_effects
from subord.services.serving import effects, service_app, signed_handlers
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon

TAG = b"0123456789abcdef"


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    toy_services.register(monkeypatch.setattr)
    monkeypatch.setattr(serving, "NAMES", ("ping", "touch"))
    monkeypatch.setitem(COMMANDS, "touch", "subord.services.touch.command")


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def call(**given: Any) -> Call:
    body = {"tag": text(TAG), "nodes": "2-3", "payload": text(b"x"), "authority": text(b"signed"), **given}
    return Call({"budget": "2.5"}, json.dumps(body).encode(), is_owner=False)


def test_the_folder_says_what_it_is() -> None:
    assert effects() == ("touch",)
    assert has_effects("touch")
    assert not has_effects("ping")
    assert not has_effects("os")
    assert act_of("touch").__name__ == "act"


async def test_a_reading_may_have_an_agent_that_only_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its orders are answered in the daemon, without signature; nothing is asked of the agent."""

    async def answer(_: object, payload: bytes) -> bytes:
        return payload

    one = serving.service("touch")._replace(answer=answer)
    ping = serving.service("ping")
    monkeypatch.setattr(serving, "service", {"ping": ping, "touch": one}.get)
    node = World().node(1)
    assert has_effects("touch")
    assert effects() == ()
    assert "/v1/touch" not in signed_handlers(node)
    assert await serving.readings(node)["touch"](b"x") == b"x"
    await service_app(node)["/v1/touch"]({})
    assert [service for service, _, _ in node.orders.given] == ["touch"]


async def test_a_reading_may_act_on_signed_orders_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """GET is the reading, and POST the order; the name of the cluster has a path of its own."""

    async def answer(_: object, payload: bytes) -> bytes:
        return payload

    class Acted(CoverageDocument, frozen=True, kw_only=True):
        is_acted: bool = True

    def acted(answered: Answered) -> CoverageDocument:
        return serving.of_coverage(Acted, answered)

    one = serving.service("touch")._replace(answer=answer, acted=acted)
    ping = serving.service("ping")
    monkeypatch.setattr(serving, "service", {"ping": ping, "touch": one}.get)
    node = World().node(1)
    assert effects() == ("touch",)
    assert await serving.readings(node)["touch"](b"x") == b"x"
    asked = await service_app(node)["/v1/touch"]({})
    assert "is_acted" not in json.loads(asked.body)
    told = json.loads((await service_app(node)[serving.signing_path("touch")]({})).body)
    assert (told["name"], told["network"]) == node.gate.cluster
    response = await signed_handlers(node)["/v1/touch"](call())
    assert json.loads(response.body)["is_acted"] is True
    assert [each["authority"] for each in node.orders.signed] == [b"", b"signed"]


async def test_an_order_is_passed_on_as_it_was_signed() -> None:
    node = World().node(1)
    response = await signed_handlers(node)["/v1/touch"](call(receipts=False))
    assert response.status == 200
    assert node.orders.given == [("touch", Ranges.of((2, 3)), 2.5)]
    assert node.orders.signed == [{"tag": TAG, "authority": b"signed", "receipts": False}]


@pytest.mark.parametrize(
    "given", [{"tag": text(b"short")}, {"tag": 7}, {"nodes": "0"}, {"nodes": "x"}, {"payload": 7}]
)
async def test_a_wrong_request_asks_no_node(given: dict[str, Any]) -> None:
    node = World().node(1)
    response = await signed_handlers(node)["/v1/touch"](call(**given))
    assert response.status == 400
    assert b"no node was asked" in response.body
    assert node.orders.given == []


def test_only_signed_orders_reach_it() -> None:
    """GET of the path says what signatures are for; no reading has the name."""
    node = World().node(1)
    assert "/v1/ping" not in signed_handlers(node)
    assert set(serving.readings(node)) == {"ping"}
    assert {"/v1/ping", "/v1/touch"} <= set(service_app(node))


@pytest.mark.slow
def test_the_command_signs_what_was_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signers = Signers(tmp_path)
    world = World()
    node = world.node(7)
    with fake_daemon(node, orders=signed_handlers(node)) as path:
        words = ["touch", "a file", "10.0.0.[4-5]", "--user", "slurm", "--key", str(signers.key("ann"))]
        assert main([*words, "--socket", path]) == exit_codes.OK
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 of 2 answered in ")
    ((service, targets, _),) = node.orders.given
    (given,) = node.orders.signed
    authority = service_orders.decode(given["authority"])
    assert authority is not None
    assert authority.user == "slurm"
    order = order_of(given["tag"], service, json.dumps({"file": "a file"}).encode(), targets, 1)
    bare = msgspec.structs.replace(authority, signature=b"")
    content = service_orders.content_of(node.gate.cluster, order, bare)
    operators = Operators(str(signers.write("ann {ann}")), clock=lambda: 0.0)
    verdict = trio.run(operators.verify, content, authority.signature, "subord.touch", authority.not_before_ms)
    assert verdict.word == ""
    assert verdict.principal == "ann"
