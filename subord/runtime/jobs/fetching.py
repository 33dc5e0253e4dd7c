"""Reads a small file or a page on this machine, at most BYTES_MAX.

Blocks, so it runs in a thread: a disk may not answer, and parsing a large page takes time. It uses the HTTP client of
the standard library, because a client for trio would be one more dependency for one GET.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

from subord.config.performance import Place
from subord.runtime.jobs.readings import ReadingError

if TYPE_CHECKING:
    from http.client import HTTPResponse

BYTES_MAX = 1 << 20
FETCH_S_MAX = 2.0
ACCEPT = "text/plain; version=0.0.4"


def file_text(path: str) -> str:
    """The text of a regular file. Raises ReadingError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not block
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ReadingError("unreadable", "is not a regular file")
            return _text(file.read(BYTES_MAX + 1))
    except FileNotFoundError:
        raise ReadingError("missing", "does not exist") from None
    except OSError as error:
        raise ReadingError("unreadable", f"cannot be read: {error.strerror}") from None


def page_text(place: Place) -> str:
    """The text of a page on this machine; redirections are not followed. Raises ReadingError."""
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - most nodes read no page

    connection = HTTPConnection(place.host, place.port, timeout=FETCH_S_MAX)
    until = time.monotonic() + FETCH_S_MAX
    try:
        connection.request("GET", place.path, headers={"Accept": ACCEPT, "Connection": "close"})
        with connection.getresponse() as response:
            if response.status != 200:
                raise ReadingError("unreadable", f"answers with HTTP status {response.status}")
            return _text(_body(response, until))
    except TimeoutError:
        raise ReadingError("slow", f"is not read within {FETCH_S_MAX:g} s") from None
    except ConnectionRefusedError:
        raise ReadingError("missing", "refuses the connection: no process listens") from None
    except (OSError, HTTPException, ValueError) as error:
        raise ReadingError("unreadable", f"cannot be read: {str(error)[:80] or type(error).__name__}") from None
    finally:
        connection.close()


def _body(response: HTTPResponse, until: float) -> bytes:
    """The body, up to BYTES_MAX + 1. Raises TimeoutError, ReadingError."""
    body = b""
    while len(body) <= BYTES_MAX and (part := response.read1(BYTES_MAX + 1 - len(body))):
        body += part
        if time.monotonic() > until:
            raise TimeoutError
    if len(body) <= BYTES_MAX and response.length:  # Content-Length announced more
        raise ReadingError("unreadable", "breaks off in the middle")
    return body


def _text(content: bytes) -> str:
    if len(content) > BYTES_MAX:
        raise ReadingError("too_large", f"is longer than {BYTES_MAX} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ReadingError("garbled", "is not UTF-8 text") from None
