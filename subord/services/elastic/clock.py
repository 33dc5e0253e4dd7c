"""The clock of the queue's node, which a lab can let run faster.

Input is the time of the machine; output is the time by which nodes are added and removed. With a rate of 60 an hour
passes in a minute. Invariant: all clocks with the same rate and origin show the same time, also after a restart, so
times in records stay comparable.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

BOOT: Final = "btime "


class Clock:
    """`now`: of the machine, seconds since 1970. `rate`: seconds of this clock in a second of the machine. `origin`:
    when both show the same; None: when it is made."""

    def __init__(self, now: Callable[[], float] = time.time, rate: float = 1.0, origin: float | None = None) -> None:
        self._now = now
        self._rate = rate
        self._origin = now() if origin is None else origin

    def now(self) -> float:
        return self.shown(self._now())

    def shown(self, real: float) -> float:
        """What this clock shows at a time of the machine, such as one of the batch system."""
        return self._origin + (real - self._origin) * self._rate

    def real(self, shown: float) -> float:
        """The time of the machine at which this clock shows so."""
        return self._origin + (shown - self._origin) / self._rate

    async def sleep(self, seconds: float) -> None:
        """Seconds of this clock."""
        await trio.sleep(max(0.0, seconds) / self._rate)


def booted_at(stat: str = "/proc/stat") -> float:
    """Since when this machine runs, and is paid for; 0: not known. Blocks."""
    try:
        lines = Path(stat).read_text(encoding="ascii", errors="replace").splitlines()
        return next(float(line.removeprefix(BOOT)) for line in lines if line.startswith(BOOT))
    except (OSError, ValueError, StopIteration):
        return 0.0
