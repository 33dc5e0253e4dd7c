"""Virtual time that passes while a test waits for nothing but time.

Input is the clock of a run; output are its jumps to the next deadline. Time does not pass while a thread of trio's
own limit works, or a process that the run has started: a busy machine delays a test, and changes nothing that it
sees. What does not end is overtaken after HANGS_S of real time, so that limits of time still end it.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio
import trio.testing

HANGS_S: Final = 20.0
LOOK_S: Final = 0.005


async def passing(clock: trio.testing.MockClock) -> None:
    """A task of the run that has the clock, until it is cancelled."""
    others, waited_s = _children(), 0.0
    while True:
        pause_s = LOOK_S if waited_s else 0.0
        await trio.testing.wait_all_tasks_blocked(pause_s)
        if _is_at_work(others) and waited_s < HANGS_S:
            waited_s += pause_s or LOOK_S
            continue
        waited_s = 0.0
        left_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if math.isfinite(left_s):
            clock.jump(max(0.0, left_s))
        else:
            waited_s = LOOK_S  # for a socket or a signal: look again, but not at once


def start(clock: trio.testing.MockClock) -> None:
    """Within the run that has the clock, until its end."""
    trio.lowlevel.spawn_system_task(passing, clock)


def _is_at_work(others: set[str]) -> bool:
    has_thread = trio.to_thread.current_default_thread_limiter().borrowed_tokens
    return bool(has_thread) or any(_runs(each) for each in _children() - others)


def _children() -> set[str]:
    """Of all threads of this process: one that trio has borrowed may have started them."""
    found = set[str]()
    for each in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found.update(Path(f"/proc/self/task/{each}/children").read_text().split())
    return found


def _runs(process: str) -> bool:
    """Not one that has ended, and for which its parent has not waited yet."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
