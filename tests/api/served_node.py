"""The control socket of a fake node, served by a thread, for tests of the commands."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trio

from subord.api.handlers.control import control_app
from subord.api.handlers.orders import order_handlers
from subord.api.http.server import Handler, Orders, Query, Response, serve
from subord.api.http.sockets import bind_unix
from subord.services.serving import changes_of, service_app
from tests.api.fake_node_api import FakeNode


@contextmanager
def fake_daemon(
    node: FakeNode, handlers: Mapping[str, Handler] | None = None, orders: Orders | None = None
) -> Iterator[str]:
    """Yields the path of the socket. `handlers` and `orders` replace those of the control socket."""
    with TemporaryDirectory(prefix="s") as folder:
        path = Path(folder) / "control.sock"
        sock = bind_unix(path)
        stop = trio.Event()
        tokens: list[trio.lowlevel.TrioToken] = []
        started = threading.Event()

        async def main() -> None:
            tokens.append(trio.lowlevel.current_trio_token())
            async with trio.open_nursery() as nursery:
                app = {**control_app(node), **service_app(node)}
                changes = {**changes_of(node)}
                for target, handler in (handlers or {}).items():
                    (changes if target in changes else app)[target] = handler
                nursery.start_soon(
                    partial(serve, app, sock, changes=changes, orders={**order_handlers(node), **(orders or {})})
                )
                started.set()
                await stop.wait()
                nursery.cancel_scope.cancel()

        thread = threading.Thread(target=trio.run, args=(main,))
        thread.start()
        started.wait()
        try:
            yield str(path)
        finally:
            trio.from_thread.run_sync(stop.set, trio_token=tokens[0])
            thread.join()
            path.unlink(missing_ok=True)


def fixed_answer(body: bytes, status: int = 200) -> Handler:
    """A handler that always answers the same."""

    async def handler(_: Query) -> Response:
        await trio.lowlevel.checkpoint()
        return Response(body, status)

    return handler


async def document_by(handler: Handler) -> dict[str, Any]:
    """What a handler answers without a query."""
    response = await handler({})
    assert isinstance(response, Response)
    assert response.status == 200
    found: dict[str, Any] = json.loads(response.body)
    return found


async def hanging(_: Query) -> Response:
    """A handler that never returns."""
    await trio.sleep_forever()
    raise AssertionError
