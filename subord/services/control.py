"""One request of an agent to the daemon of its node, over the control socket.

Inputs are the path of the socket and a target such as `/v1/blobs/take?blob=B`; output is the answer. The agent asks
for each push, and on many nodes at once, so this is as much of HTTP as the daemon speaks (api/http/server.py): one
request, and one answer with its length. http.client takes longer to import than a push takes. Invariant: the daemon
is not trusted; no more than `bytes_max` of it are held.

All functions block.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Final, NamedTuple

HEAD_BYTES_MAX: Final = 8_192
READ_BYTES: Final = 65_536
_END: Final = b"\r\n\r\n"
_OK: Final = 200
_BUSY: Final = 503


class ControlError(Exception):
    """Why there is no answer, in one clause."""


class UnansweredError(ControlError):
    """The daemon is busy, breaks off or does not run; the same request may be answered later."""


class Answer(NamedTuple):
    """`is_json`: a document, else bytes."""

    is_json: bool
    body: bytearray

    def document(self) -> dict[str, Any]:
        """Raises ControlError."""
        try:
            found = json.loads(self.body) if self.is_json else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ControlError("the answer of the daemon is malformed")
        return found


def post(path: str, target: str, seconds: float, bytes_max: int) -> Answer:
    """Raises UnansweredError: there is none in time, or it is malformed; ControlError: it says why there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            status, answer = _exchanged(connection, path, target, time.monotonic() + seconds, bytes_max)
    except TimeoutError:
        raise UnansweredError(f"the daemon at {path} does not answer within {seconds:g} s") from None
    except OSError as error:
        raise UnansweredError(f"the daemon at {path} does not answer: {error.strerror}") from None
    except EOFError:
        raise UnansweredError(f"the daemon at {path} breaks off its answer") from None
    except ValueError:
        raise UnansweredError("the answer of the daemon is malformed") from None
    if status != _OK:
        said = str(answer.document().get("error", status)) if answer.is_json else str(status)
        raise (UnansweredError if status == _BUSY else ControlError)(said)
    return answer


def _exchanged(connection: socket.socket, path: str, target: str, until: float, bytes_max: int) -> tuple[int, Answer]:
    """Status and answer. Raises OSError, TimeoutError, ValueError; EOFError: it ends early."""
    _limit(connection, until)
    connection.connect(path)
    connection.sendall(f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode("ascii"))
    received = bytearray()
    while _END not in received and len(received) < HEAD_BYTES_MAX:
        received += _received(connection, until)
    head, _, body = received.partition(_END)
    status, headers = _read(head)
    size = int(headers[b"content-length"])
    if not len(body) <= size <= bytes_max:
        raise ValueError("another length")
    whole = bytearray(size)
    whole[: len(body)] = body
    with memoryview(whole) as view:
        at = len(body)
        while at < size:
            _limit(connection, until)
            count = connection.recv_into(view[at:])
            if not count:
                raise EOFError
            at += count
    return status, Answer(headers.get(b"content-type") == b"application/json", whole)


def _received(connection: socket.socket, until: float) -> bytes:
    _limit(connection, until)
    found = connection.recv(READ_BYTES)
    if not found:
        raise EOFError
    return found


def _limit(connection: socket.socket, until: float) -> None:
    """Raises TimeoutError."""
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    connection.settimeout(left_s)


def _read(head: bytearray) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers. Raises ValueError."""
    first, *lines = bytes(head).split(b"\r\n")
    version, status, *_ = first.split(b" ", 2)
    if not version.startswith(b"HTTP/1."):
        raise ValueError("no HTTP")
    fields = (line.partition(b":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if b"content-length" not in headers:
        raise ValueError("no length")
    return int(status), headers
