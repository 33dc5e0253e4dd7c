"""A small HTTP/1.1 server: one request and one answer per connection; or a stream of events until the reader leaves.

All resources are bounded: the size and time of a request, the time of an answer, the requests that are answered at
once, the readers of streams, and the waiting connections. h11 (RFC 9112) and trio are used instead of a web server
because a lab runs hundreds of daemons on one machine, and this costs a third of the memory per daemon (figures in
docs/architecture.md). h11 is loaded for the first connection: it costs 0.4 MiB and 8 ms of each start.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Never
from urllib.parse import parse_qsl, urlsplit

import msgspec
import trio

from subord.api.http.host_check import FOREIGN_HOST
from subord.api.http.slots import ANSWERED_MAX, LOAD_S_MAX, READERS_MAX, Slots
from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.runtime import late
from subord.runtime.net.listening import Listener

if TYPE_CHECKING:
    import h11

HEADER_BYTES_MAX = 8192
BODY_BYTES_MAX = 65_536
"""Of a POST for `orders`."""
BLOB_PATHS = "/v1/blobs"
"""How paths begin that take a chunk of a blob, or the list of its chunks."""
REQUEST_S_MAX = 5.0
"""From when h11 is loaded to the complete request, and to a place for it."""
ANSWER_S_MAX = 10.0
"""To make the answer and hand it to the kernel: the connection of a reader that stops reading is closed. To hand it
over only, where a handler is awaited (`serve`)."""
REFUSAL_S_MAX = 1.0
"""To tell a request that it got no slot, or no answer in time."""
READ_BYTES = 4096
PATH_LOGGED_MAX = 100
_CREDENTIALS = struct.Struct("=iII")  # struct ucred
_Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
JSON = "application/json"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"
OPENMETRICS_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
logger = logging.getLogger("subord")


class Response(msgspec.Struct, frozen=True):
    """What a handler answers."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


Send = Callable[[bytes], Awaitable[None]]


class EventStream(msgspec.Struct, frozen=True):
    """An answer without an end: `run` gets a function that sends one piece, and runs until it is cancelled."""

    run: Callable[[Send], Awaitable[None]]
    content_type: str = "text/event-stream"


class Error(msgspec.Struct, frozen=True):
    """The body of every answer that is no success: one plain sentence."""

    error: str


Query = Mapping[str, str]
Handler = Callable[[Query], Awaitable[Response | EventStream]]
App = Mapping[str, Handler]
"""Handlers of GET by exact path. The header `Last-Event-ID` (HTML, server-sent events) is `since` in the query, and
an `Accept` of metrics that names OpenMetrics is `format=openmetrics`."""


class Call(NamedTuple):
    """A POST that every client of the socket may send. `is_owner`: it comes from root or the daemon's own user."""

    query: Query
    body: bytes
    is_owner: bool


Orders = Mapping[str, Callable[[Call], Awaitable[Response | EventStream]]]
"""Handlers of such requests by exact path."""
NOTHING: Mapping[str, Never] = MappingProxyType({})


class Handlers(NamedTuple):
    """What a socket serves. `changes` are handlers of POST, for `is_owner` alone; `orders` are handlers of POST with
    a body, for all clients: the socket must be a Unix socket. A handler of a path in `awaited` is cancelled when its
    client leaves, and must end in its own time. `named`: further paths, for the answer to one that is not served."""

    app: App = NOTHING
    changes: App = NOTHING
    orders: Orders = NOTHING
    awaited: Collection[str] = ()
    named: Collection[str] = ()

    @property
    def paths(self) -> frozenset[str]:
        """Those with a handler."""
        return frozenset((*self.app, *self.changes, *self.orders))


Find = Callable[[str], Awaitable[Handlers | None]]
"""The handlers for a path, which may have to be loaded; None: they cannot be, which was logged."""


def document(value: object) -> Response:
    """A JSON document."""
    return Response(msgspec.json.encode(value))


def failure(status: int, sentence: str) -> Response:
    """An answer that says in one sentence what went wrong."""
    return Response(msgspec.json.encode(Error(sentence)), status)


BUSY = failure(503, f"the daemon is busy with {ANSWERED_MAX} other requests: nothing was done; try again later")
LATE = failure(503, f"the daemon has not made this answer within {ANSWER_S_MAX:g} s: it is busy; try again later")


def is_owner(stream: trio.SocketStream) -> bool:
    """Whether the peer of a Unix socket is root or the daemon's own user (unix(7): SO_PEERCRED)."""
    _, uid, _ = _CREDENTIALS.unpack(
        stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return uid in (0, os.geteuid())


async def serve(
    app: App | Find,
    sock: socket.socket,
    *,
    changes: App | None = None,
    orders: Orders | None = None,
    awaited: Collection[str] = (),
    tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    is_our_host: Callable[[str], bool] = lambda _: True,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer requests on a listening stream socket until cancelled; then close the socket.

    `app`: handlers, with `changes`, `orders` and `awaited` as in Handlers; or what finds all of them, called once for
    each request. `tls` is called for each connection; None: in the clear. `is_our_host` judges the header `Host`,
    where there is one. A handler that raises is a bug: the log has its traceback, the client gets 500, and other
    connections are not affected.
    """
    find = app if callable(app) else partial(_found, Handlers(app, changes or {}, orders or {}, awaited))
    slots = Slots()
    listener = Listener(sock, has_room=lambda: slots.has_room)

    async def run(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):  # the client went away in the middle
            await _Exchange(_secured(stream, tls()), slots, is_our_host).run(find)

    task_status.started()  # the socket listens already
    await trio.serve_listeners(run, [listener])


async def _found(handlers: Handlers, _: str) -> Handlers:
    await trio.lowlevel.checkpoint()
    return handlers


async def _made(answer: Awaitable[Response | EventStream], path: str) -> Response | EventStream:
    try:
        return await answer
    except Exception:
        logger.exception("answering %s failed; this is a bug in subord", path[:PATH_LOGGED_MAX])
        return failure(500, "this is a bug in subord; see the log of the daemon")


def _body_bytes_max(request: h11.Request | None) -> int:
    is_of_blobs = request is not None and request.target.startswith(BLOB_PATHS.encode())
    return CHUNK_BYTES_MAX if is_of_blobs else BODY_BYTES_MAX


def _announces_body(request: h11.Request) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0") != b"")
        for name, value in request.headers
    )


def _path_of(request: h11.Request) -> str:
    """ "": the address is malformed, which `_answer` tells."""
    with suppress(ValueError):
        return urlsplit(request.target.decode("ascii")).path
    return ""


def _not_allowed(*methods: str) -> Response:
    refused = failure(405, f"only {' and '.join(methods)} is served here")
    return msgspec.structs.replace(refused, headers=(("allow", ", ".join(methods)),))  # RFC 9110, 15.5.6


def _headers(content_type: str) -> list[tuple[str, str]]:
    """The headers of every answer."""
    return [
        ("content-type", content_type),
        ("cache-control", "no-store"),
        ("connection", "close"),
        ("x-content-type-options", "nosniff"),
    ]


def _secured(stream: trio.SocketStream, context: ssl.SSLContext | None) -> _Stream:
    return stream if context is None else trio.SSLStream(stream, context, server_side=True, https_compatible=True)


class _Exchange:
    """One connection: reads one request, writes one answer."""

    def __init__(self, stream: _Stream, slots: Slots, is_our_host: Callable[[str], bool]) -> None:
        self._stream = stream
        self._is_our_host = is_our_host
        self._slots = slots
        self._connection: h11.Connection
        self._request: h11.Request | None = None
        self._handlers = Handlers()
        self._body = bytearray()

    @property
    def _read_bytes(self) -> int:
        return READ_BYTES if self._request is None else BODY_BYTES_MAX

    async def run(self, find: Find) -> None:
        asked: h11.Request | Response | None = None
        has_place = False
        with self._slots.waiting() as limit:
            if await late.load("h11"):
                limit.deadline = trio.current_time() + REQUEST_S_MAX
                asked = await self._read(partial(self._find, find, limit))
            if asked is not None:
                await self._slots.take_place()
                has_place = True
        if asked is None:
            return
        if not has_place:
            with trio.move_on_after(REFUSAL_S_MAX):
                await self._write(BUSY)
            return
        try:
            events: EventStream | None = None
            with trio.move_on_after(ANSWER_S_MAX) as limit:
                answer = asked if isinstance(asked, Response) else await self._answer(asked, limit)
                if isinstance(answer, Response):
                    await self._write(answer)
                elif answer is not None:
                    events = answer
            if events is not None:
                await self._serve_events(events)
            elif limit.cancelled_caught:
                await self._tell_late()
        finally:
            self._slots.places.release()

    async def _find(self, find: Find, limit: trio.CancelScope, path: str) -> bool:
        """The handlers; False: they cannot be loaded. The time that takes does not count for the client."""
        now = trio.current_time()
        limit.deadline += LOAD_S_MAX
        found = await find(path)
        limit.deadline += trio.current_time() - now - LOAD_S_MAX
        self._handlers = found or Handlers()
        return found is not None

    async def _read(self, find: Callable[[str], Awaitable[bool]]) -> h11.Request | Response | None:
        """The request; or the refusal of a malformed or too large one, or of a body that no handler takes; None if
        the client left."""
        import h11  # noqa: PLC0415 - see the top; `run` has loaded it

        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        while True:
            try:
                event = self._connection.next_event()
            except h11.RemoteProtocolError as error:
                return failure(error.error_status_hint, "this is not a valid HTTP request")
            if event is h11.NEED_DATA:
                self._connection.receive_data(bytes(await self._stream.receive_some(self._read_bytes)))
            elif isinstance(event, h11.Request):
                self._request = event
                path = _path_of(event)
                if not await find(path):
                    return failure(503, "what answers this cannot be loaded: see the log of the daemon")
                if _announces_body(event) and not (event.method == b"POST" and path in self._handlers.orders):
                    return failure(413, "a request with a body is not served here")
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > (most := _body_bytes_max(self._request)):
                    return failure(413, f"a body of more than {most} bytes is not served here: nothing was changed")
            else:
                return self._request if isinstance(event, h11.EndOfMessage) else None

    async def _tell_late(self) -> None:
        """Unless a part of the answer is written. To a POST no status says it: what was asked for may have happened,
        which clients conclude from a connection that ends early."""
        import h11  # noqa: PLC0415 - as in `_read`

        is_reading = self._request is not None and self._request.method != b"POST"
        if is_reading and self._connection.our_state is h11.SEND_RESPONSE:
            with trio.move_on_after(REFUSAL_S_MAX):
                await self._write(LATE)

    async def _serve_events(self, events: EventStream) -> None:
        """Until the reader leaves or stops reading."""
        try:
            self._slots.readers.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_after(ANSWER_S_MAX):
                await self._write(
                    failure(503, f"{READERS_MAX} readers of events or orders are connected already: try again later")
                )
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._await_end, nursery.cancel_scope)
                await self._send_events(events, nursery.cancel_scope)
        finally:
            self._slots.readers.release()

    async def _send_events(self, events: EventStream, reading: trio.CancelScope) -> None:
        """Nothing is raised out of the nursery."""
        import h11  # noqa: PLC0415 - as in `_read`

        async def send(piece: bytes) -> None:
            try:
                with trio.fail_after(ANSWER_S_MAX):
                    await self._send(h11.Data(data=piece))
            except (trio.BrokenResourceError, trio.TooSlowError):
                reading.cancel()
                await trio.lowlevel.checkpoint_if_cancelled()

        headers = [*_headers(events.content_type), ("x-accel-buffering", "no")]  # a proxy must not buffer the events
        try:
            with trio.fail_after(ANSWER_S_MAX):
                await self._send(h11.Response(status_code=200, headers=headers))
            await events.run(send)
        except (trio.BrokenResourceError, trio.TooSlowError):
            pass
        except Exception:
            logger.exception("sending events failed; this is a bug in subord")
        reading.cancel()

    async def _await_end(self, waiting: trio.CancelScope) -> None:
        """Cancels the scope when the client leaves; its input is ignored."""
        with suppress(trio.BrokenResourceError):
            while await self._stream.receive_some(READ_BYTES):
                pass
        waiting.cancel()

    async def _write(self, response: Response) -> None:
        import h11  # noqa: PLC0415 - as in `_read`

        headers = [*_headers(response.content_type), ("content-length", str(len(response.body))), *response.headers]
        events: list[h11.Event] = [h11.Response(status_code=response.status, headers=headers)]
        # The answer to HEAD has no body (RFC 9110, 9.3.2); h11 enforces it.
        if self._request is None or self._request.method != b"HEAD":
            events.append(h11.Data(data=response.body))
        await self._send(*events, h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        await self._stream.send_all(b"".join(self._connection.send(event) or b"" for event in events))

    async def _answer(self, request: h11.Request, limit: trio.CancelScope) -> Response | EventStream | None:
        """What is to be written; None: nothing more. `limit` ends the answer."""
        try:
            target = urlsplit(request.target.decode("ascii"))
            query = dict(parse_qsl(target.query, keep_blank_values=True, max_num_fields=8))
            headers = dict(reversed(list(request.headers)))  # the first of each name
            if b"last-event-id" in headers:  # a browser that reconnects repeats the first URL
                query["since"] = headers[b"last-event-id"].decode("ascii")
            if target.path.startswith("/metrics") and OPENMETRICS.encode() in headers.get(b"accept", b"").lower():
                query["format"] = "openmetrics"
            host = target.netloc or headers.get(b"host", b"").decode("ascii")
        except ValueError:
            return failure(400, "the address of the request is malformed")
        if host and not self._is_our_host(host):
            return failure(421, FOREIGN_HOST)
        handled = self._handled(request.method.decode("ascii", "replace"), target.path, query)
        return await (self._while_there(handled, limit) if target.path in self._handlers.awaited else handled)

    async def _while_there(
        self, handled: Awaitable[Response | EventStream], limit: trio.CancelScope
    ) -> EventStream | None:
        """Events that are to be sent; None: the answer is written, or the client left and the handler was cancelled.
        Otherwise the handler ends in its own time: a busy daemon answers late, but it answers."""
        limit.deadline = inf
        answer: Response | EventStream | None = None
        waiting = trio.CancelScope()  # a client that ends its input later still reads
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._await_end, waiting)
            with waiting:
                answer = await handled
            limit.deadline = trio.current_time() + ANSWER_S_MAX
            if isinstance(answer, Response):  # here, because the end of the nursery takes two turns of the event loop
                with suppress(trio.BrokenResourceError):  # which a nursery would raise in a group
                    await self._write(answer)
                answer = None
            nursery.cancel_scope.cancel()
        return answer

    async def _handled(self, method: str, path: str, query: Query) -> Response | EventStream:
        handlers = self._handlers
        if path in handlers.orders and method == "POST":
            return await _made(handlers.orders[path](Call(query, bytes(self._body), self._is_owner())), path)
        apps = (("GET", handlers.app), ("POST", handlers.changes))
        here = {name: each[path] for name, each in apps if path in each}
        if path not in handlers.orders and not here:
            return failure(
                404, "there is nothing here; served: " + ", ".join(sorted({*handlers.paths, *handlers.named}))
            )
        asked = "GET" if method == "HEAD" else method  # without the body, see `_write`
        if asked not in here:
            return _not_allowed(*here, *(["POST"] if path in handlers.orders else []))
        if method == "POST" and not self._is_owner():
            return failure(403, "only root and the daemon's own user may make changes: nothing was changed")
        answer = await _made(here[asked](query), path)
        is_endless = method == "HEAD" and isinstance(answer, EventStream)
        return Response(b"", content_type=answer.content_type) if is_endless else answer

    def _is_owner(self) -> bool:
        return isinstance(self._stream, trio.SocketStream) and is_owner(self._stream)
