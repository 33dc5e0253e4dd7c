"""HTTP for small answers: one request, one answer, goodbye.

Intuition: a counter where everybody asks one question and leaves. Who dawdles is sent away, who brings
a lorry is turned back at the door, and when the room is full the others wait outside.

h11 (RFC 9112) and trio instead of a web server: a lab runs hundreds of daemons on one machine, and this
costs a third of the memory per daemon (figures in docs/architecture.md).
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl, urlsplit

import h11
import msgspec
import trio

HEADER_BYTES_MAX = 8192
REQUEST_S_MAX = 5.0
"""From the accepted connection to the complete request."""
ANSWER_S_MAX = 10.0
"""To make the answer and hand it to the kernel: a reader that stops reading is dropped."""
CONNECTIONS_MAX = 16
"""Served at the same time per socket; more wait in the kernel's backlog."""
READ_BYTES = 4096
_CREDENTIALS = struct.Struct("=iII")  # struct ucred
_Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
JSON = "application/json"


class Response(msgspec.Struct, frozen=True):
    """What a handler answers."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    allow: str = ""
    """The method that would have been right (RFC 9110, 15.5.6)."""


class Error(msgspec.Struct, frozen=True):
    """Body of every answer that is no success: one plain sentence."""

    error: str


Query = Mapping[str, str]
Handler = Callable[[Query], Awaitable[Response]]
App = Mapping[str, Handler]
"""Handlers of GET by exact path."""


class _BoundedListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts only while there is room, so that waiting connections cost no task of ours."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._inner = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self.room = trio.Semaphore(CONNECTIONS_MAX)

    async def accept(self) -> trio.SocketStream:
        await self.room.acquire()
        try:
            return await self._inner.accept()
        except BaseException:
            self.room.release()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


def failure(status: int, sentence: str) -> Response:
    """An answer that says in one sentence what went wrong."""
    return Response(msgspec.json.encode(Error(sentence)), status)


def is_owner(stream: trio.SocketStream) -> bool:
    """Whether it is root or our own user at the other end of a Unix socket (unix(7): SO_PEERCRED)."""
    _, uid, _ = _CREDENTIALS.unpack(
        stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return uid in (0, os.geteuid())


async def serve(
    app: App,
    sock: socket.socket,
    *,
    changes: App | None = None,
    tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer GET requests on a listening stream socket, until cancelled; then the socket is closed.

    `changes` are handlers of POST, for `is_owner` alone: the socket must be a Unix socket. `tls` is called for each
    connection; None: in the clear. A handler that raises is a bug and ends `serve` with that error; whatever a client
    does is not.
    """
    listener = _BoundedListener(sock)

    async def attend(stream: trio.SocketStream) -> None:
        try:
            await _Visit(_secured(stream, tls())).attend(app, changes or {})
        except trio.BrokenResourceError:
            pass  # the client went away in the middle
        finally:
            listener.room.release()

    task_status.started()  # the socket listens already
    await trio.serve_listeners(attend, [listener])


def _secured(stream: trio.SocketStream, context: ssl.SSLContext | None) -> _Stream:
    return stream if context is None else trio.SSLStream(stream, context, server_side=True, https_compatible=True)


class _Visit:
    """One connection: reads one request, writes one answer."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        self._request: h11.Request | None = None

    async def attend(self, app: App, changes: App) -> None:
        try:
            with trio.fail_after(REQUEST_S_MAX):
                asked = await self._read()
            if asked is None:
                return
            with trio.fail_after(ANSWER_S_MAX):
                await self._write(asked if isinstance(asked, Response) else await self._answer(asked, app, changes))
        except trio.TooSlowError:
            return

    async def _read(self) -> h11.Request | Response | None:
        """The request, or the refusal of one that is malformed, too large or has a body; None if nobody asked."""
        while True:
            try:
                event = self._connection.next_event()
            except h11.RemoteProtocolError as error:
                return failure(error.error_status_hint, "this is no HTTP request that we understand")
            if event is h11.NEED_DATA:
                self._connection.receive_data(bytes(await self._stream.receive_some(READ_BYTES)))
            elif isinstance(event, h11.Request):
                self._request = event
            elif isinstance(event, h11.Data):
                return failure(413, "a request with a body is not served here")
            else:
                return self._request if isinstance(event, h11.EndOfMessage) else None

    async def _write(self, response: Response) -> None:
        headers = [
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            ("cache-control", "no-store"),
            ("connection", "close"),
        ]
        if response.allow:
            headers.append(("allow", response.allow))
        events: list[h11.Event] = [h11.Response(status_code=response.status, headers=headers)]
        # The answer to HEAD has no body (RFC 9110, 9.3.2), and h11 holds us to it.
        if self._request is None or self._request.method != b"HEAD":
            events.append(h11.Data(data=response.body))
        events.append(h11.EndOfMessage())
        await self._stream.send_all(b"".join(self._connection.send(event) or b"" for event in events))

    async def _answer(self, request: h11.Request, app: App, changes: App) -> Response:
        try:
            target = urlsplit(request.target.decode("ascii"))
            query = dict(parse_qsl(target.query, keep_blank_values=True, max_num_fields=8))
        except ValueError:
            return failure(400, "the address of the request is malformed")
        handler = app.get(target.path) or changes.get(target.path)
        if handler is None:
            return failure(404, f"there is nothing here; served: {', '.join(sorted((*app, *changes)))}")
        allowed = "GET" if target.path in app else "POST"
        if request.method.decode("ascii", "replace") != allowed:
            return msgspec.structs.replace(failure(405, f"only {allowed} is served here"), allow=allowed)
        if target.path in changes and not self._is_owner():
            return failure(403, "only root and the daemon's own user may change something: nothing was changed")
        return await handler(query)

    def _is_owner(self) -> bool:
        return isinstance(self._stream, trio.SocketStream) and is_owner(self._stream)
