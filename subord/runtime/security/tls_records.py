"""A TLS connection from which several records are read at once.

OpenSSL returns one record of at most 16 KiB for each read, and each read of a trio.SSLStream is a turn of the event
loop, which costs more than the decryption. Input is what has come from the network; output are the bytes of all whole
records in it, as far as there is room. Invariants: an error that follows bytes is raised by the read after them; a
stream that is cut off in the handshake or before a read is an SSLEOFError with every Python.
"""

from __future__ import annotations

import ssl
from typing import Any


def named(error: ssl.SSLError) -> ssl.SSLError:
    """Python before 3.11.3 has a plain SSLError where a stream is cut off (its issue 95494)."""
    if error.reason != "UNEXPECTED_EOF_WHILE_READING" or isinstance(error, ssl.SSLEOFError):
        return error
    found = ssl.SSLEOFError(ssl.SSL_ERROR_EOF, error.strerror)
    found.library, found.reason = error.library, error.reason
    return found


class Records(ssl.SSLObject):
    """Made by a context with `sslobject_class`."""

    _error: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """As the class above."""
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            raise named(error) from None

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - as in the class above
        """As the class above; into a `buffer` one record at most."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        try:
            data = super().read(len, buffer)
        except ssl.SSLError as error:
            raise named(error) from None
        return data if buffer is not None else self._joined(data, len)

    def _joined(self, data: bytes, room: int) -> bytes:
        """`data`, and what follows."""
        parts = [data]
        room -= len(data)
        while data and room > 0:
            try:
                data = super().read(room)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError as error:
                self._error = named(error)
                break
            parts.append(data)
            room -= len(data)
        return b"".join(parts)
