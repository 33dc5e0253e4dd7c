"""Ask the daemon on this host.

Intuition: a house telephone with one button per question. If nobody picks up, it says which of the
everyday reasons it is, and what to do.

http.client over a Unix socket: importing an HTTP library costs more time than the whole command needs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
from typing import Any

from subord.cli import exit_codes
from subord.cli.errors import CommandError
from subord.cli.words import printable

ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""A roster row is about 300 bytes, so this is room for some 800,000 nodes."""
TIMEOUT_S = 5.0
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


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str, target: str, timeout_s: float = TIMEOUT_S) -> Document:
    """The JSON object at `target` (e.g. "/v1/status") of the daemon at `path`.

    Raises `CommandError`: `UnreachableError` if nobody answers there, else with the exit code that fits.
    """
    return _document(path, *_exchange(path, "GET", target, timeout_s))


def change(path: str, target: str, timeout_s: float = 2 * TIMEOUT_S) -> Document:
    """Have something changed; otherwise as `ask`."""
    return _document(path, *_exchange(path, "POST", target, timeout_s))


def _document(path: str, status: int, body: bytes) -> Document:
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
        raise CommandError(sentence, _EXIT_CODE_BY_STATUS.get(status, exit_codes.INTERNAL))
    return document


def add_timeout(
    parser: argparse.ArgumentParser, default_s: float = TIMEOUT_S, what: str = "give up after this long"
) -> None:
    """Give a command the option `--timeout`."""
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=default_s,
        help=f"{what} (default: {default_s:g})",
    )


def _exchange(path: str, method: str, target: str, timeout_s: float) -> tuple[int, bytes]:
    connection = _UnixConnection(path, timeout_s)
    try:
        connection.request(method, target)
        response = connection.getresponse()
        return response.status, response.read(ANSWER_BYTES_MAX)
    except TimeoutError:
        raise CommandError(
            f"the daemon at {path} does not answer within {timeout_s:g} s: is it stopped or overloaded? "
            "try again with a longer --timeout",
            exit_codes.TRY_AGAIN,
        ) from None
    except PermissionError:
        raise CommandError(
            f"no permission for {path}: run as its owner, or join the group of the socket", exit_codes.PERMISSION
        ) from None
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise UnreachableError(
            f"no subord daemon answers at {path}: is it running? see `subord run`; choose another with --socket"
        ) from None
    except (http.client.HTTPException, OSError) as error:
        raise UnreachableError(
            f"the daemon at {path} broke off ({str(error) or type(error).__name__}): is it stopping? try again, "
            "or choose another with --socket"
        ) from None
    finally:
        connection.close()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if 0 < seconds <= 86400:
        return seconds
    raise argparse.ArgumentTypeError(f"must be seconds, more than 0 and at most 86400, not {text!r}")
