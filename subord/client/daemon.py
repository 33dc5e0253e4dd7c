"""Requests to the daemon on this host.

Input: the path of its socket, a target such as "/v1/status" and a timeout. Output: the JSON object of the answer, or
a `CommandError` with one sentence and an exit code. http.client over a Unix socket is used because importing an HTTP
library takes longer than the whole command.
"""

from __future__ import annotations

import argparse
import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from subord.client import exit_codes
from subord.client.errors import CommandError, to_stderr
from subord.client.options import TIMEOUT_S, socket_path
from subord.client.text import printable

READ_BYTES = 65536
ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""Room for some 800,000 rows of a roster, of about 300 bytes each."""
NOTHING_HERE = "there is nothing here"
"""The beginning of every release's answer to an unknown question (api/http/server.py)."""
SLOW_S = 1.0
"""The daemon answers within this time even if other nodes hang, unless all nodes are asked and the root hangs."""
NODES_TIMEOUT_S = 2.5
NODES_SHARE, DAEMON_GRACE_S = 0.8, 1.0
"""Of a question to all nodes: their share of the time, and how much longer the daemon may take."""
_EXIT_CODE_BY_STATUS = {
    400: exit_codes.USAGE,
    403: exit_codes.PERMISSION,
    404: exit_codes.NO_SUCH_NODE,
    409: exit_codes.NOT_REACHED,
    502: exit_codes.TRY_AGAIN,
    503: exit_codes.TRY_AGAIN,
    504: exit_codes.TRY_AGAIN,
    507: exit_codes.TRY_AGAIN,
}

Document = dict[str, Any]


class UnreachableError(CommandError):
    """No daemon answers at the socket; `subord wait` continues to wait, other commands end."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_codes.DAEMON_UNREACHABLE)


class BrokenOffError(UnreachableError):
    """The daemon ended the connection before its answer was whole. What was asked of it may have happened."""


class SilentError(CommandError):
    """A daemon runs and does not answer. `how`: e.g. "does not answer within 5 s"."""

    def __init__(self, path: str, how: str) -> None:
        super().__init__(
            f"the daemon at {path} {how}: is it stopped or overloaded? try again with a longer --timeout",
            exit_codes.TRY_AGAIN,
        )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str, target: str, timeout_s: float = TIMEOUT_S, *, gives_up_s: float | None = None) -> Document:
    """The JSON object at `target` (e.g. "/v1/status") of the daemon at `path`, within `timeout_s`.

    `gives_up_s`: when a caller that asks repeatedly will stop, which is printed after a second of silence; 0: nothing
    is printed. Raises `CommandError`: `UnreachableError` if no daemon answers there, `SilentError` if it does not in
    time, else with the exit code that fits.
    """
    return _document(path, target, *_exchange(path, "GET", target, timeout_s, gives_up_s))


def asked(arguments: argparse.Namespace, target: str) -> Document:
    """The answer to a command with the options of `add_asking`."""
    return ask(socket_path(arguments), target, arguments.timeout)


def asked_of_all(arguments: argparse.Namespace, target: str) -> Document:
    """The answer to a command that asks all nodes; its timeout is their time."""
    timeout_s: float = arguments.timeout
    return ask(socket_path(arguments), f"{target}?budget={timeout_s * NODES_SHARE:.3f}", timeout_s + DAEMON_GRACE_S)


def change(path: str, target: str, timeout_s: float = 2 * TIMEOUT_S, *, body: bytes | None = None) -> Document:
    """Request a change; otherwise as `ask`."""
    return _document(path, target, *_exchange(path, "POST", target, timeout_s, body=body))


def _document(path: str, target: str, status: int, body: bytes) -> Document:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandError(
            f"what answers at {path} is not a subord daemon (its answer is not a JSON object): choose with --socket",
            exit_codes.DAEMON_UNREACHABLE,
        )
    if status != 200:
        sentence = printable(str(document.get("error", f"the daemon answers with HTTP status {status}")))
        if status == 404 and sentence.startswith(NOTHING_HERE):
            raise CommandError(
                f"the daemon at {path} does not know {target.partition('?')[0]}: it runs an older release than this "
                "command; nothing was changed. Restart it with the new one",
                exit_codes.DAEMON_UNREACHABLE,
            )
        raise CommandError(sentence, _EXIT_CODE_BY_STATUS.get(status, exit_codes.INTERNAL))
    return document


def lines(path: str, target: str, timeout_s: float, body: bytes) -> Iterator[Document]:
    """The JSON objects of an answer to a POST, line by line as they come, within `timeout_s`. Otherwise as `ask`.
    What was asked for ends when the connection does, because the caller stops reading or this process ends."""
    connection = _UnixConnection(path, timeout_s)
    try:
        with _failing(path, timeout_s):
            connection.request("POST", target, body)
            response = connection.getresponse()
            if response.status != 200:
                _document(path, target, response.status, response.read(READ_BYTES))
        while True:
            with _failing(path, timeout_s):
                line = response.readline(ANSWER_BYTES_MAX)
                if not line:
                    raise http.client.IncompleteRead(b"")
            yield _document(path, target, 200, line)
    finally:
        connection.close()


def _exchange(
    path: str,
    method: str,
    target: str,
    timeout_s: float,
    gives_up_s: float | None = None,
    *,
    body: bytes | None = None,
) -> tuple[int, bytes]:
    until = time.monotonic() + timeout_s
    connection = _UnixConnection(path, timeout_s)
    try:
        with _failing(path, timeout_s):
            connection.request(method, target, body)
            if timeout_s > SLOW_S:
                _report_if_slow(connection, path, timeout_s if gives_up_s is None else gives_up_s)
            return _answer(connection, until)
    finally:
        connection.close()


@contextmanager
def _failing(path: str, timeout_s: float) -> Iterator[None]:
    """Makes a CommandError of what a connection raises."""
    try:
        yield
    except TimeoutError:
        raise SilentError(path, f"does not answer within {timeout_s:g} s") from None
    except PermissionError:
        raise CommandError(
            f"no permission for {path}: use sudo, or join the group of the daemon (subord, if systemd runs it) "
            "and log in again; `id` shows the groups",
            exit_codes.PERMISSION,
        ) from None
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise UnreachableError(
            f"no subord daemon answers at {path}: is it running? see `subord run`; choose another with --socket"
        ) from None
    except (http.client.HTTPException, OSError) as error:
        is_cut = isinstance(error, http.client.IncompleteRead)
        why = "its answer is incomplete" if is_cut else str(error) or type(error).__name__
        raise BrokenOffError(
            f"the daemon at {path} broke off ({why}): is it stopping? try again, or choose another with --socket"
        ) from None


def _answer(connection: http.client.HTTPConnection, until: float) -> tuple[int, bytes]:
    """Status and body. Raises TimeoutError if it is incomplete at `until`, IncompleteRead if it ends early."""
    sock = connection.sock  # the connection drops it after the head of the answer
    sock.settimeout(_left_s(until))
    response = connection.getresponse()
    body = bytearray()
    while response.length != 0 and len(body) < ANSWER_BYTES_MAX:
        sock.settimeout(_left_s(until))
        piece = response.read1(READ_BYTES)
        if not piece:
            break
        body += piece
    if response.length and len(body) < ANSWER_BYTES_MAX:
        raise http.client.IncompleteRead(bytes(body), response.length)
    return response.status, bytes(body)


def _left_s(until: float) -> float:
    """More than 0. Raises TimeoutError if no time is left."""
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


_slow_line = threading.Lock()
"""Never released: the line is printed once per process, although several threads may ask."""


def _report_if_slow(connection: http.client.HTTPConnection, path: str, gives_up_s: float) -> None:
    """One line on standard error after a second without an answer."""
    if _slow_line.locked() or not gives_up_s:
        return
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN)
    if not waiting.poll(SLOW_S * 1000) and _slow_line.acquire(blocking=False):
        to_stderr(f"subord: the daemon at {path} has not answered for {SLOW_S:g} s; waiting up to {gives_up_s:g} s")
