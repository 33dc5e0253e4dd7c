"""Progress for people: one line that changes on a terminal, a line per step in a file."""

from __future__ import annotations

import sys


class Terminal:
    """Progress goes to standard error, results to standard output."""

    def __init__(self) -> None:
        self._moving = sys.stderr.isatty()
        self._last = ""

    def progress(self, what: str, done: int, of: int) -> None:
        if self._moving:
            text = f"{what}: {done} of {of}" if of else f"{what} ..."
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif what != self._last:
            print(f"{what} ...", file=sys.stderr, flush=True)
        self._last = what

    def say(self, text: str) -> None:
        if self._moving:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        print(text, flush=True)
        self._last = ""
