"""Programs that tell samples: each file of a directory that may be executed, with a limit of time and of output.

Input is a directory; outputs are pages in the text format of Prometheus, or the reason why a program has none.
Invariants: when `page_of` returns the program has ended, and no process of its group holds its output; at most
OUTPUT_BYTES_MAX are read of one; a file that others than root and the user of the daemon may write is not run.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from contextlib import suppress
from typing import Final

import trio

from subord.services.metrics.texts import TextError

RUN_S_MAX: Final = 2.0
END_S_MAX: Final = 1.0
OUTPUT_BYTES_MAX: Final = 1 << 20
PROGRAMS_MAX: Final = 32
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def programs_in(directory: str) -> list[str]:
    """The first PROGRAMS_MAX programs, in the order of their names; hidden files are none. Raises OSError."""
    with os.scandir(directory) as entries:
        found = sorted(each.path for each in entries if not each.name.startswith(".") and each.is_file())
    return [path for path in found if os.access(path, os.X_OK)][:PROGRAMS_MAX]


async def page_of(path: str) -> str:
    """What a program prints. Raises TextError."""
    _demand_safe(path)
    try:
        process = await trio.lowlevel.open_process(
            [path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise TextError("unreadable", f"cannot be run: {error.strerror}") from None
    try:
        with trio.move_on_after(RUN_S_MAX) as limit:
            text = await _read(process)
            code = await process.wait()
    finally:
        await _end(process)
    if limit.cancelled_caught:
        raise TextError("slow", f"did not end within {RUN_S_MAX:g} s, and was killed")
    if code:
        raise TextError("failed", f"ended with {code}")
    return text


def _demand_safe(path: str) -> None:
    """Raises TextError."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise TextError("unreadable", f"cannot be run: {error.strerror}") from None
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & WRITABLE_BY_OTHERS:
        raise TextError("bad_mode", "is not run: other users can change it")


async def _read(process: trio.Process) -> str:
    """Raises TextError."""
    assert process.stdout is not None
    output = bytearray()
    async for part in process.stdout:
        output += part
        if len(output) > OUTPUT_BYTES_MAX:
            raise TextError("too_large", f"prints more than {OUTPUT_BYTES_MAX} bytes, and was killed")
    try:
        return output.decode()
    except UnicodeDecodeError:
        raise TextError("garbled", "does not print UTF-8 text") from None


async def _end(process: trio.Process) -> None:
    """Kill the program's group, unless it has ended: its number may then be that of another one."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with trio.CancelScope(deadline=trio.current_time() + END_S_MAX, shield=True):
        await process.wait()
    if process.stdout is not None:
        with trio.CancelScope(shield=True):
            await process.stdout.aclose()
