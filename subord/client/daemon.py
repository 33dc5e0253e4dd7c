"""Ask the daemon on this host.

Intuition: a house telephone with one button per question. If nobody picks up, it says which of the
everyday reasons it is, and what to do.

http.client over a Unix socket: importing an HTTP library costs more time than the whole command needs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import select
import socket
import threading
import time
from typing import Any

from subord.client import exit_codes
from subord.client.errors import CommandError, tell
from subord.client.text import printable

READ_BYTES = 65536
ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""A roster row is about 300 bytes, so this is room for some 800,000 nodes."""
TIMEOUT_S = 5.0
NOTHING_HERE = "there is nothing here"
"""How every release begins its answer to a question that it does not know (api/http/server.py)."""
SLOW_S = 1.0
"""The daemon promises an answer within this time, whichever other nodes hang."""
_EXIT_CODE_BY_STATUS = {
    403: exit_codes.PERMISSION,
    404: exit_codes.NO_SUCH_NODE,
    409: exit_codes.NOT_REACHED,
    502: exit_codes.TRY_AGAIN,
    503: exit_codes.TRY_AGAIN,
    504: exit_codes.TRY_AGAIN,
}

Document = dict[str, Any]


class UnreachableError(CommandError):
    """Nobody answers at the socket; `subord wait` goes on waiting, the others give up."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_codes.DAEMON_UNREACHABLE)


class SilentError(CommandError):
    """The daemon is there and does not answer. `how`: e.g. "does not answer within 5 s"."""

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

    `gives_up_s`: of whoever asks again and again, when it will stop, as the user is told after a second of silence;
    0: nothing is said. Raises `CommandError`: `UnreachableError` if nobody answers there, `SilentError` if not in
    time, else with the exit code that fits.
    """
    return _document(path, target, *_exchange(path, "GET", target, timeout_s, gives_up_s))


def change(path: str, target: str, timeout_s: float = 2 * TIMEOUT_S) -> Document:
    """Have something changed; otherwise as `ask`."""
    return _document(path, target, *_exchange(path, "POST", target, timeout_s))


def _document(path: str, target: str, status: int, body: bytes) -> Document:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandError(
            f"what answers at {path} is no subord daemon (its answer is no JSON object): choose with --socket",
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


def add_timeout(
    parser: argparse.ArgumentParser, default_s: float = TIMEOUT_S, what: str = "give up after this long"
) -> None:
    """Give a command the option `--timeout`."""
    add_seconds(parser, "--timeout", default_s, what)


def add_seconds(parser: argparse.ArgumentParser, name: str, default_s: float, what: str) -> None:
    """Give a command an option of some seconds."""
    parser.add_argument(
        name,
        metavar="SECONDS",
        type=_seconds,
        default=default_s,
        help=f"{what} (default: {default_s:g})",
    )


def _exchange(
    path: str, method: str, target: str, timeout_s: float, gives_up_s: float | None = None
) -> tuple[int, bytes]:
    until = time.monotonic() + timeout_s
    connection = _UnixConnection(path, timeout_s)
    try:
        connection.request(method, target)
        if timeout_s > SLOW_S:
            _say_if_slow(connection, path, timeout_s if gives_up_s is None else gives_up_s)
        return _answer(connection, until)
    except TimeoutError:
        raise SilentError(path, f"does not answer within {timeout_s:g} s") from None
    except PermissionError:
        raise CommandError(
            f"no permission for {path}: run as its owner, or join the group of the socket", exit_codes.PERMISSION
        ) from None
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise UnreachableError(
            f"no subord daemon answers at {path}: is it running? see `subord run`; choose another with --socket"
        ) from None
    except (http.client.HTTPException, OSError) as error:
        is_cut = isinstance(error, http.client.IncompleteRead)
        why = "its answer is incomplete" if is_cut else str(error) or type(error).__name__
        raise UnreachableError(
            f"the daemon at {path} broke off ({why}): is it stopping? try again, or choose another with --socket"
        ) from None
    finally:
        connection.close()


def _answer(connection: http.client.HTTPConnection, until: float) -> tuple[int, bytes]:
    """Status and body. Raises TimeoutError when it is not all there at `until`, IncompleteRead when it ends early."""
    sock = connection.sock  # the connection forgets it as soon as the head of the answer is there
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
    """More than 0. Raises TimeoutError if nothing is left."""
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


_slow_line = threading.Lock()
"""Taken for good by whoever says it: once in a process, although several may ask at the same time."""


def _say_if_slow(connection: http.client.HTTPConnection, path: str, gives_up_s: float) -> None:
    """A daemon that hangs shall not leave its user in the dark: one line after a second."""
    if _slow_line.locked() or not gives_up_s:
        return
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN)
    if not waiting.poll(SLOW_S * 1000) and _slow_line.acquire(blocking=False):
        tell(f"subord: the daemon at {path} has not answered for {SLOW_S:g} s; waiting up to {gives_up_s:g} s")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if 0 < seconds <= 86400:
        return seconds
    raise argparse.ArgumentTypeError(f"must be seconds, more than 0 and at most 86400, not {text!r}")
