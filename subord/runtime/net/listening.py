"""Takes the connections that wait at a socket: many in one turn of the event loop.

In: a listening socket, and whether there is room for more at once. Out: its connections, one by one, as
`trio.serve_listeners` asks for them. trio's own listener gives other tasks a turn after each. Where a daemon gets
little of a processor a turn takes half a second, and the last of twelve requests waits six. Invariant: other tasks
have their turn after ACCEPTED_MAX connections, and without room after each.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import trio

ACCEPTED_MAX = 16


class Listener(trio.abc.Listener[trio.SocketStream]):
    """Owns the socket. Errors are those of `trio.SocketListener`."""

    def __init__(self, sock: socket.socket, has_room: Callable[[], bool] = lambda: True) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._has_room = has_room
        self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self._left = 0  # how many more may be taken before other tasks have their turn

    async def accept(self) -> trio.SocketStream:
        """The next connection. Raises OSError, ClosedResourceError."""
        if self._left and self._has_room():
            self._left -= 1
            try:
                accepted, _ = self._sock.accept()
            except OSError:
                pass  # none waits, or the listener will say what is wrong
            else:
                return trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
        stream = await self._listener.accept()
        self._left = ACCEPTED_MAX - 1
        return stream

    async def aclose(self) -> None:
        await self._listener.aclose()
