"""The wall clock of each node, which may be wrong: takes the place of `time.time` in the zygote of a lab with agents.

A copy of the zygote reads from the directory of its node by how many seconds its clock is ahead. Timers of daemons
count by the clock of the system, and certificates are not affected.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

FILE = "clock"


class WallClock:
    """Called in the place of `time.time`, which modules may have kept since their import."""

    def __init__(self) -> None:
        self._right = time.time
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return self._right() + self._ahead_s

    def install(self) -> None:
        """Before subord is imported."""
        time.time = self

    def read(self, files: Path) -> None:
        """In the copy: from now on it is the clock of the node with this directory."""
        with suppress(FileNotFoundError):
            self._ahead_s = float((files / FILE).read_text())
