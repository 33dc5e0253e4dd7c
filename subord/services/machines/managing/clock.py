"""The clock of the process that decides: it shows the time of day, and goes on evenly.

Inputs are two clocks of the machine; output is a time in seconds since 1970. Invariant: it is not set back or forward
with the time of day, and it goes on while the machine sleeps, so a process that has slept knows that it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def steady(wall: Callable[[], float] = time.time, even: Callable[[], float] | None = None) -> Callable[[], float]:
    """A clock that shows the time of day of now, and goes on by `even`: since the start of the machine."""
    running = even or (lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
    ahead = wall() - running()
    return lambda: running() + ahead
