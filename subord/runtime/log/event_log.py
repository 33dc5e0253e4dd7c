"""The event log: one line of JSON for everything that changes a node's place.

Intuition: a ship's log. It is written for whoever reconstructs the voyage later: lab, evaluation, a
colleague at night. Several daemons may append to one file, because each line is one write.

Keys: `mono` (seconds of CLOCK_MONOTONIC, the same for all processes and namespaces of a host), `wall`
(seconds since 1970), `node` (address), `event`, and the fields of that event.
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
        """`put_line` writes to standard error. Raises OSError when the file cannot be opened."""
        self._node = node
        self._warned = False
        self._encode = msgspec.json.Encoder().encode
        self._file: int | None = None
        self._put: Callable[[bytes], None] | None = None
        if path == "-":
            self._put = put_line
        elif path:
            # O_NONBLOCK is for a pipe whose reader is slow or gone: the daemon waits for nobody.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            self._file = os.open(path, flags, 0o644)
            self._put = self._append

    def close(self) -> None:
        """Nothing is written from now on. Standard error stays open."""
        if self._file is not None:
            os.close(self._file)
        self._file = self._put = None

    def write(self, event: str, **fields: object) -> None:
        """One line. A full disk costs one warning and the lines, never the daemon."""
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
