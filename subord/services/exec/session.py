"""All processes of a command: those of its session, in whatever process group they are, and how they are ended.

A command is the first process of a session of its own, so a shell with job control or timeout(1), which make process
groups of their own, stay in it. Inputs are /proc and a session; output are signals. Invariant: after `end` no process
of the session is left, unless the kernel cannot end it (it waits for a disk).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import trio

TERM_S: Final = 1.0
"""After SIGTERM, until SIGKILL."""
KILL_S_MAX: Final = 2.0
END_S_MAX: Final = TERM_S + KILL_S_MAX + 1.0
POLL_S: Final = 0.02
PROC: Final = "/proc"


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    return list(_groups(session))


async def end(session: int) -> None:
    """End all processes. Takes less than END_S_MAX; a caller that may be cancelled shields it so long. The first
    process must not be waited for yet, so that no other has its number."""
    with suppress(ProcessLookupError, PermissionError):
        # Most commands stay in the group of the first process; /proc, which shows the others, takes long to read.
        os.killpg(session, signal.SIGTERM)
        os.killpg(session, signal.SIGCONT)  # a stopped process does not see SIGTERM
    await trio.sleep(POLL_S)
    if not await _signal(session, signal.SIGTERM, TERM_S, told_group=session):
        await _signal(session, signal.SIGKILL, KILL_S_MAX)


async def _signal(session: int, number: signal.Signals, seconds: float, told_group: int = 0) -> bool:
    """Send a signal to each process, also to those that come meanwhile, until none is left; False: some are.
    `told_group`: a group whose processes have had it."""
    told: set[int] | None = None
    with trio.move_on_after(seconds) as waiting:
        while found := await trio.to_thread.run_sync(_groups, session):
            if told is None:
                told = {pid for pid, group in found.items() if group == told_group}
            for pid in found if number == signal.SIGKILL else set(found) - told:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
                    os.kill(pid, signal.SIGCONT)
            told.update(found)
            await trio.sleep(POLL_S)
    return not waiting.cancelled_caught


def _groups(session: int) -> dict[int, int]:
    """The processes of a session that have not ended, with their groups."""
    found = ((pid, _group_in(pid, session)) for pid in _pids())
    return {pid: group for pid, group in found if group is not None}


def _pids() -> Iterator[int]:
    with os.scandir(PROC) as entries:
        for each in entries:
            if each.name.isdigit():
                yield int(each.name)


def _group_in(pid: int, session: int) -> int | None:
    """The group of a process of the session; None: it is of none, or has ended."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before it may have spaces and brackets
    except OSError:
        return None
    is_of = len(fields) > 3 and fields[0] not in (b"Z", b"X") and int(fields[3]) == session
    return int(fields[2]) if is_of else None
