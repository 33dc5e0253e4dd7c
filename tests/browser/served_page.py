"""The web address of a fake node, served on loopback by a thread, for tests with a browser."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import trio

from subord.api.handlers.control import control_app
from subord.api.handlers.web import web_app
from subord.api.http.server import EventStream, Handler, Query, Send, serve
from subord.api.http.sockets import bind_tcp
from subord.core.address.network import Network
from subord.core.address.numbering import numbering
from subord.core.settings import Settings
from subord.services.serving import service_app
from tests.api.fake_node_api import FakeNode, World

FANOUT = 8


def large(nodes: int) -> World:
    """All nodes at home, positions from 1, fan-out 8."""
    settings = Settings(network=Network.parse("10.0.0.0/16"), fanout=FANOUT, guest_slots=FANOUT)
    rule = numbering("complete", FANOUT)
    return World({position: rule.computed_leader(position) for position in range(1, nodes + 1)}, settings)


class Served:
    """A web address that can be closed and opened again; its world is changed in its own thread."""

    def __init__(self, node: FakeNode, handlers: Mapping[str, Handler], prefix: str) -> None:
        node.world.is_timed = True
        node.world.known.setdefault(node.position, node)
        control = {**control_app(node), **service_app(node)}
        app = {**web_app(node, control), **handlers}
        self.handlers = {prefix + path: handler for path, handler in app.items()}
        self._sock = bind_tcp("127.0.0.1", 0)
        self._port = self._sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}{prefix}/"
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        started = threading.Event()

        async def main() -> None:
            self._token = trio.lowlevel.current_trio_token()
            async with trio.open_nursery() as nursery:
                self._cancel = nursery.cancel_scope.cancel
                nursery.start_soon(partial(serve, self.handlers, self._sock))
                started.set()

        self._thread = threading.Thread(target=trio.run, args=(main,))
        self._thread.start()
        started.wait()

    def open_again(self) -> None:
        self._sock = bind_tcp("127.0.0.1", self._port)
        self.open()

    def change(self, change: Callable[[], object]) -> None:
        """Between two answers, so that no answer has half of a change."""
        trio.from_thread.run_sync(change, trio_token=self._token)

    def shut(self) -> None:
        if self._thread is not None:
            self.change(self._cancel)
            self._thread.join()
            self._thread = None


@contextmanager
def served(node: FakeNode, handlers: Mapping[str, Handler] | None = None, prefix: str = "") -> Iterator[Served]:
    """`handlers` replace those of the node; `prefix`: as behind a proxy that passes on whole paths."""
    web_address = Served(node, handlers or {}, prefix)
    web_address.open()
    try:
        yield web_address
    finally:
        web_address.shut()


def streams(pieces: bytes) -> Handler:
    """A handler of events that sends these pieces and then nothing more."""

    async def run(send: Send) -> None:
        await send(pieces)
        await trio.sleep_forever()

    async def handler(_: Query) -> EventStream:
        await trio.lowlevel.checkpoint()
        return EventStream(run)

    return handler
