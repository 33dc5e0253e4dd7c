"""Writes the log in a thread, so that the daemon never blocks on the reader of the log.

In: lines from any thread, queued up to QUEUE_BYTES_MAX; further lines are lost and counted. A thread is needed
because standard error may be a pipe whose reader is stopped, a terminal after Ctrl-S, or a file on a disk that does
not answer. O_NONBLOCK has no effect on files, and on a pipe or terminal it would apply to all processes that share
it.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

QUEUE_BYTES_MAX = 1 << 20
STDERR = 2

Write = Callable[[bytes], None]
"""Writes one line; raises OSError if it cannot."""


class LogWriter:
    """The queue of lines and the thread that writes them."""

    def __init__(self) -> None:
        self.written = 0
        self.lost = 0
        """Lines that found the queue full or could not be written."""
        self._queue: deque[tuple[Write, bytes]] = deque()
        self._queue_bytes = 0
        self._ready = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self._thread.start()

    def put(self, write: Write, line: bytes) -> bool:
        """Queue a call of `write(line)`. False: the queue is full, the line is lost."""
        with self._ready:
            if self._is_closing or self._queue_bytes + len(line) > QUEUE_BYTES_MAX:
                self.lost += 1
                return False
            self._queue.append((write, line))
            self._queue_bytes += len(line)
            self._ready.notify()
            return True

    def close(self, timeout_s: float) -> bool:
        """Write the queue, for at most `timeout_s`. False: some lines were not written."""
        with self._ready:
            self._is_closing = True
            self._ready.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._queue:
                    if self._is_closing:
                        return
                    self._ready.wait()
                write, line = self._queue.popleft()
            try:
                write(line)
            except OSError:
                done = 0
            else:
                done = 1
            with self._ready:
                self._queue_bytes -= len(line)  # only now: a line counts against the bound while it is written
                self.written += done
                self.lost += 1 - done


def to_stderr(line: bytes) -> None:
    """Write all of `line`, however long it takes. Raises OSError: the reader is gone, or the disk is full."""
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[os.write(STDERR, rest) :]
        except BlockingIOError:  # another process that shares it has set O_NONBLOCK
            poll = select.poll()
            poll.register(STDERR, select.POLLOUT)
            poll.poll()


def fill_standard_streams() -> None:
    """Open /dev/null for each closed standard stream (`2>&-`). Else the log could go to a socket with number 2."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
