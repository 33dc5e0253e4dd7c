"""Writes the event log: one line of JSON for each event of a node.

Keys: `mono` (seconds of CLOCK_MONOTONIC, the same for all processes and namespaces of a host), `wall` (seconds since
1970), `node` (address), `event`, and the fields of the event. Each line is one write, so several daemons may append
to one file. A failed write loses the line and is logged once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

import msgspec

from subord.runtime.log.writer import to_stderr

logger = logging.getLogger("subord")


class EventLog:
    """Appends to a file, to standard error ("-"), or nowhere ("")."""

    def __init__(self, path: str, node: str, put_line: Callable[[bytes], None] = to_stderr) -> None:
        """`put_line` writes to standard error. Raises OSError if the file cannot be opened."""
        self._node = node
        self._warned = False
        self._encode = msgspec.json.Encoder().encode
        self._file: int | None = None
        self._put: Callable[[bytes], None] | None = None
        if path == "-":
            self._put = put_line
        elif path:
            # O_NONBLOCK: a pipe whose reader is slow or absent must not block the daemon.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            self._file = os.open(path, flags, 0o644)
            self._put = self._append

    def close(self) -> None:
        """Close the file; later writes are ignored. Standard error stays open."""
        if self._file is not None:
            os.close(self._file)
        self._file = self._put = None

    def write(self, event: str, **fields: object) -> None:
        """Append one line."""
        if self._put is None:
            return
        line = {"mono": time.monotonic(), "wall": time.time(), "node": self._node, "event": event, **fields}
        self._put(self._encode(line) + b"\n")

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        try:
            if os.write(self._file, data) < len(data):
                self._warn("the last line was cut short")
        except OSError as error:
            self._warn(str(error.strerror))

    def _warn(self, reason: str) -> None:
        if not self._warned:
            logger.warning("cannot write the event log: %s; events are lost until there is room", reason)
            self._warned = True
