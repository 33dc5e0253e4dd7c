"""Somebody who writes the log, so that the daemon never waits for whoever reads it.

Intuition: a scribe at his own desk. What is called out to him he writes down as fast as the ink flows; when his tray
is full, he shakes his head, and what he misses is counted. Nobody else stands still because his pen does.

A thread, because nothing else helps for all that standard error may be: a pipe whose reader sleeps, a terminal that
was stopped by Ctrl-S, a file on a disk that does not answer. O_NONBLOCK does nothing for files, and on a pipe or
terminal it would be set for everybody who shares it.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

TRAY_BYTES_MAX = 1 << 20
STDERR = 2

Carry = Callable[[bytes], None]


class LogWriter:
    """Give him lines with `put`, from any thread."""

    def __init__(self) -> None:
        self.written = 0
        self.lost = 0
        """Lines that found the tray full, or that could not be written."""
        self._tray: deque[tuple[Carry, bytes]] = deque()
        self._tray_bytes = 0
        self._ready = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self._thread.start()

    def put(self, carry: Carry, line: bytes) -> bool:
        """Have `carry(line)` called soon, which may raise OSError. False: the tray is full, the line is lost."""
        with self._ready:
            if self._is_closing or self._tray_bytes + len(line) > TRAY_BYTES_MAX:
                self.lost += 1
                return False
            self._tray.append((carry, line))
            self._tray_bytes += len(line)
            self._ready.notify()
            return True

    def close(self, patience_s: float) -> bool:
        """Write what is in the tray, for at most so long. False: it could not all be written."""
        with self._ready:
            self._is_closing = True
            self._ready.notify()
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._tray:
                    if self._is_closing:
                        return
                    self._ready.wait()
                carry, line = self._tray.popleft()
            try:
                carry(line)
            except OSError:
                done = 0
            else:
                done = 1
            with self._ready:
                self._tray_bytes -= len(line)  # not before: a line that cannot be written takes its room
                self.written += done
                self.lost += 1 - done


def to_stderr(line: bytes) -> None:
    """All of it, however long that takes. Raises OSError: nobody reads, no room on the disk."""
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[os.write(STDERR, rest) :]
        except BlockingIOError:  # somebody who shares it has set O_NONBLOCK
            poll = select.poll()
            poll.register(STDERR, select.POLLOUT)
            poll.poll()


def fill_standard_streams() -> None:
    """Whoever closed one of the first three (`2>&-`) would have the next socket take its number, and us write the
    log into it."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
