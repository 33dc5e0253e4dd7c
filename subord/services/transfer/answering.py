"""Serves the methods of a transfer queue at the agent's socket (local.py).

Inputs are connections of processes of this host, of any user, and a keeper, which decides; outputs are answers.
Invariants: each request comes with the user that the kernel names; what is no request ends its own connection alone;
at most CONNECTIONS_MAX are served at once, half of them of one user, and those of methods that only wait cost no
thread and no process; files of the process are left for its other work; requests that are being read have at most
REQUESTS_BYTES_MAX. What is over a bound is closed without an answer, and its method asks again.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import trio

from subord.services.transfer.local import (
    DONE,
    LINE_BYTES_MAX,
    PENDING,
    WRONG,
    Answer,
    Sense,
    Start,
    Want,
    request_in,
)

CONNECTIONS_MAX: Final = 8192
OTHER_FILES: Final = 256
"""Of the process: records, the link, and the commands of the batch system."""
REQUESTS_BYTES_MAX: Final = 64 << 20
REQUEST_S_MAX: Final = 10.0
TAKEN_S_MAX: Final = 60.0
_BACKLOG: Final = 1024
"""All jobs of a burst start their methods at once, and an agent that was started again is asked by all."""
_CREDENTIALS: Final = struct.Struct("3i")
_READ_BYTES: Final = 64 << 10
_ROOT: Final = 0


class Shares:
    """Of what all users of this host share: together they never have more than `most`, and one user half of it, so
    another one always finds some. Root has no bound of its own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = Counter[int]()

    def take(self, uid: int, amount: int = 1) -> bool:
        """False: there is no room, and nothing was taken."""
        is_full = self._taken.total() + amount > self._most
        if is_full or (uid != _ROOT and self._taken[uid] + amount > self._most // 2):
            return False
        self._taken[uid] += amount
        return True

    def give(self, uid: int, amount: int = 1) -> None:
        """Back, of what was taken."""
        self._taken[uid] -= amount
        if not self._taken[uid]:
            del self._taken[uid]


class _CrowdedError(Exception):
    """Requests have too many bytes together."""


class Caller(NamedTuple):
    """Whose process has sent a request."""

    pid: int
    uid: int


Tell = Callable[[Answer], Awaitable[None]]


class Keeper(Protocol):
    """What the agent does for methods. A refusal raises ValueError with a sentence."""

    async def start(self, caller: Caller, request: Start, tell: Tell) -> Answer:
        """One of ENDS. Before, `tell` is called with ACCEPTED when the job is on the disk, and with SENT before it is
        sent. Cancelled when the method has gone: its job may have ended, which the next look at the cell shows."""

    async def told(self, request: Start, answer: Answer, *, is_taken: bool) -> None:
        """The method has ended after this answer of `start`; not taken: it had gone before it read it."""

    async def want(self, caller: Caller, request: Want) -> None:
        """Note it."""

    async def sense(self) -> int:
        """What the load sensor reports."""


def remove(path: Path) -> None:
    """Nothing but a socket. Raises OSError."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "what is there is no socket, and was left unchanged", str(path))
        path.unlink()


def bound(path: Path) -> trio.SocketListener:
    """A socket for all users of this host, instead of one that was left. Raises OSError."""
    remove(path)
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        own.bind(str(path))
        os.chmod(path, 0o666)  # noqa: S103 - the kernel tells who asks
        own.listen(_BACKLOG)
    except OSError:
        own.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(own))


async def serve(
    listener: trio.SocketListener, keeper: Keeper, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Until it is cancelled."""
    places, memory = Shares(_connections_max()), Shares(REQUESTS_BYTES_MAX)

    async def served(stream: trio.SocketStream) -> None:
        async with stream:
            uid = _caller(stream).uid
            if not places.take(uid):
                return
            try:
                with suppress(trio.BrokenResourceError, _CrowdedError):  # the method has gone
                    await _answer(stream, keeper, memory)
            finally:
                places.give(uid)

    task_status.started()  # the socket listens already
    await trio.serve_listeners(served, [listener])


def _connections_max() -> int:
    """Each is an open file."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if files == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, max(16, files - OTHER_FILES))


async def _answer(stream: trio.SocketStream, keeper: Keeper, memory: Shares) -> None:
    """Raises BrokenResourceError, _CrowdedError."""
    line = b""
    with trio.move_on_after(REQUEST_S_MAX):
        line = await _line(stream, memory)
    try:
        match request_in(line):
            case Start() as request:
                await _serve_start(stream, keeper, request)
                return
            case Want() as request:
                await keeper.want(_caller(stream), request)
                answer = Answer(DONE)
            case Sense():
                answer = Answer(PENDING, await keeper.sense())
    except ValueError as error:
        answer = Answer(WRONG, reason=str(error) or "it is no request")
    await stream.send_all(answer.line())


async def _serve_start(stream: trio.SocketStream, keeper: Keeper, request: Start) -> None:
    """Raises BrokenResourceError."""
    answer: Answer | None = None

    async def tell(word: Answer) -> None:
        with suppress(trio.BrokenResourceError):  # the watch ends it all
            await stream.send_all(word.line())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, stream, nursery.cancel_scope)
        try:
            answer = await keeper.start(_caller(stream), request, tell)
        except ValueError as error:
            answer = Answer(WRONG, reason=str(error))
        nursery.cancel_scope.cancel()
    if answer is None:
        return
    is_taken = await _is_taken(stream, answer)
    if answer.word != WRONG:
        await keeper.told(request, answer, is_taken=is_taken)


async def _is_taken(stream: trio.SocketStream, answer: Answer) -> bool:
    """Whether the method has read it: the kernel tells when a connection was closed with something unread."""
    try:
        await stream.send_all(answer.line())
        with trio.move_on_after(TAKEN_S_MAX):
            return not await stream.receive_some(_READ_BYTES)
    except trio.BrokenResourceError:
        pass
    return False


async def _watch(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """A method says nothing more, and has gone when it closes its end."""
    with suppress(trio.BrokenResourceError):
        while await stream.receive_some(_READ_BYTES):
            pass
    scope.cancel()


async def _line(stream: trio.SocketStream, memory: Shares) -> bytes:
    """What is no whole line is no request either. Raises _CrowdedError."""
    found, uid = bytearray(), _caller(stream).uid
    try:
        while len(found) <= LINE_BYTES_MAX:
            part = await stream.receive_some(_READ_BYTES)
            if not part:
                break
            if not memory.take(uid, len(part)):
                raise _CrowdedError
            found += part
            if part.endswith(b"\n"):
                return bytes(found)
        return b""
    finally:
        memory.give(uid, len(found))


def _caller(stream: trio.SocketStream) -> Caller:
    raw = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return Caller(pid, uid)
