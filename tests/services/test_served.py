"""Late services: what a daemon knows of them beforehand is true, and requests and orders load what they need."""

from __future__ import annotations

import socket

import pytest
import trio

from subord.api.handlers.control import control_app
from subord.api.handlers.web import PUBLIC, web_app
from subord.api.http.server import Handlers, serve
from subord.runtime import late
from subord.services import LATE, NAMES
from subord.services.blob_paths import blob_changes
from subord.services.contract import Service
from subord.services.serving import (
    RECORDS,
    Served,
    UnloadedError,
    changes_of,
    module_of,
    own_traits,
    publishings,
    readings,
    service,
    service_app,
    signed_handlers,
    traits_of,
)
from tests.api.fake_node_api import World


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that were to be loaded."""
    found: list[str] = []
    load = late.load

    async def noted(name: str) -> bool:
        found.append(name)
        return await load(name)

    monkeypatch.setattr(late, "load", noted)
    return found


@pytest.fixture
def unloadable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: str) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    monkeypatch.setattr(late, "load", fail)


@pytest.mark.parametrize("name", LATE)
def test_what_is_known_of_a_late_service_is_what_it_says_itself(name: str) -> None:
    one = service(name)
    assert name in NAMES
    assert isinstance(one, Service), "a report is published from the start on"
    assert traits_of(name) == own_traits(one)


def test_the_services_that_publish_are_loaded_at_the_start() -> None:
    assert set(publishings()) == {name for name in NAMES if not isinstance(service(name), Service)}


async def test_every_path_is_found_and_in_one_part_only() -> None:
    node = World().node(1)
    served = Served(node)
    app, changes, orders = {**control_app(node), **service_app(node)}, changes_of(node), signed_handlers(node)
    awaited = {*service_app(node), *blob_changes(node)}
    assert not control_app(node).keys() & service_app(node).keys()
    for path in (*app, *changes, *orders):
        found = await served.control(path)
        assert found is not None
        tables = [(path in found.app, path in found.changes), (path in found.orders, path in found.awaited)]
        assert tables == [(path in app, path in changes), (path in orders, path in awaited)], path
        assert await served.control(path) is found, "what keeps its last answer is made once"
    nothing = await served.control("/v1/nothing")
    assert nothing == Handlers(named={*app, *changes, *orders})


async def test_a_request_loads_its_service_and_no_other(loaded: list[str]) -> None:
    served = Served(World().node(1))
    await served.control("/v1/status")
    await served.control("/v1/orders")
    assert loaded == []
    at_start = [module_of(name) for name in NAMES if name not in LATE]
    await served.control("/v1/shares/why")
    assert sorted(loaded) == sorted([module_of("shares"), *at_start])
    loaded.clear()
    await served.control("/metrics/cluster")
    assert loaded == at_start
    loaded.clear()
    await served.control(RECORDS)
    assert loaded == [module_of("account")]


async def test_the_web_address_serves_its_own_paths_and_the_public_ones(loaded: list[str]) -> None:
    node = World().node(1)
    served = Served(node)
    whole = web_app(node, {**control_app(node), **service_app(node)})
    for path in ("/", "/metrics", "/v1/status", "/v1/errors", "/favicon.ico", "/v1/machines", RECORDS):
        found = await served.web(path)
        assert found is not None
        assert (path in found.app) is (path in whole), path
        assert {*found.app, *found.named} == whole.keys()
        assert found == Handlers(app=found.app, named=found.named)
    assert loaded == [], "no stranger can have services loaded"
    for path in PUBLIC:
        found = await served.web(path)
        assert found is not None
        assert path in found.app


@pytest.mark.usefixtures("unloadable")
async def test_without_the_service_a_request_gets_503_and_the_server_goes_on() -> None:
    served = Served(World().node(1))
    assert await served.control("/v1/account") is None
    assert await served.control(RECORDS) is None
    assert await served.web("/v1/shares/past") is None


async def test_the_server_tells_that_the_handlers_cannot_be_loaded() -> None:
    async def find(path: str) -> Handlers | None:
        await trio.lowlevel.checkpoint()
        return None if path == "/v1/ping" else Handlers()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, find, listener.dup())
            for path, status in (("/v1/ping?nodes=1", b"503"), ("/v1/other", b"404")):
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    await stream.send_all(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
                    answer = b"".join([piece async for piece in stream])
                assert answer.startswith(b"HTTP/1.1 %b" % status)
            nursery.cancel_scope.cancel()


async def test_the_time_to_load_does_not_count_for_the_client(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def find(_: str) -> Handlers:
        await trio.sleep(20.0)
        return Handlers()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, find, listener.dup())
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b"".join([piece async for piece in stream]).startswith(b"HTTP/1.1 404")
            nursery.cancel_scope.cancel()


async def test_an_order_loads_its_service(loaded: list[str]) -> None:
    assert await readings(World().node(4))["account"](b"")
    assert loaded == [module_of("account")]


@pytest.mark.usefixtures("unloadable")
async def test_what_tells_what_is_wrong_answers_also_if_nothing_can_be_loaded() -> None:
    for name in ("ping", "errors", "keys"):
        assert isinstance(await readings(World().node(4))[name](b""), bytes)


@pytest.mark.usefixtures("unloadable")
async def test_an_order_for_a_service_that_cannot_be_loaded_fails() -> None:
    with pytest.raises(UnloadedError):
        await readings(World().node(4))["account"](b"")
