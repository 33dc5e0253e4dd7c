"""Programs that tell samples: each file of a directory that may be executed, with a limit of time and of output.

Input is a directory; outputs are pages in the text format of Prometheus, or the reason why a program has none.
Invariants: when `page_of` returns no process of the program's group is left, unless the kernel does not end one, and
then the program is not started again; at most OUTPUT_BYTES_MAX are read of one; a program that others than root and
the user of the daemon may change, itself or a directory above it, is not run.
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
END_S_MAX: Final = 0.5
OUTPUT_BYTES_MAX: Final = 1 << 20
PROGRAMS_MAX: Final = 32
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def programs_in(directory: str) -> list[str]:
    """The programs, in the order of their names; hidden files are none. Blocks. Raises OSError, TextError."""
    demand_safe(directory)
    with os.scandir(directory) as entries:
        found = sorted(each.path for each in entries if not each.name.startswith(".") and each.is_file())
    return [path for path in found if os.access(path, os.X_OK)]


def demand_safe(path: str) -> None:
    """Raises TextError if others can change what is run. Blocks: a file system may not answer."""
    try:
        links = [path] if os.path.islink(path) else []
        owners = [os.lstat(each).st_uid for each in links]
        place = os.path.realpath(path)
        modes = [os.stat(place)]
        while place != (place := os.path.dirname(place)):
            modes.append(os.stat(place))
    except OSError as error:
        raise TextError("unreadable", f"cannot be run: {error.strerror}") from None
    ours = {0, os.geteuid()}
    if not {*owners, *(each.st_uid for each in modes)} <= ours or any(map(_is_open, modes)):
        raise TextError("bad_mode", "is not run: other users can change it, or a directory above it")


def _is_open(status: os.stat_result) -> bool:
    """In a directory with the sticky bit, such as /tmp, users cannot replace files of others."""
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return bool(status.st_mode & WRITABLE_BY_OTHERS) and not is_sticky


class Programs:
    """The programs of one node. Only one process of each is there."""

    def __init__(self) -> None:
        self._left: dict[str, trio.Process] = {}
        """Processes that did not end though they were killed."""

    async def page_of(self, path: str) -> str:
        """What a program prints, in RUN_S_MAX and END_S_MAX. `demand_safe` comes before. Raises TextError."""
        self._left = {each: process for each, process in self._left.items() if process.poll() is None}
        if path in self._left:
            raise TextError("slow", SLOW)
        process = await _started(path)
        text = ""
        try:
            with trio.move_on_after(RUN_S_MAX) as limit:
                text = await _read(process)
                await _ended(process)
        finally:
            with trio.move_on_after(END_S_MAX, shield=True):
                await _end(process)
            if process.returncode is None:
                self._left[path] = process
        if limit.cancelled_caught or process.returncode is None:
            raise TextError("slow", SLOW)
        if process.returncode:
            raise TextError("failed", f"ended with {process.returncode}")
        return text


SLOW: Final = f"did not end within {RUN_S_MAX:g} s, and was killed"


async def _started(path: str) -> trio.Process:
    """Raises TextError."""
    try:
        return await trio.lowlevel.open_process(
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


async def _ended(process: trio.Process) -> None:
    """Until the program has ended. It is not reaped, so that no other process gets its number before `_end`."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # Linux before 5.3
        flags = os.WEXITED | os.WNOWAIT
        await trio.to_thread.run_sync(os.waitid, os.P_PID, process.pid, flags, abandon_on_cancel=True)
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def _end(process: trio.Process) -> None:
    """Kill what is left of the program's group, whose number is that of the program until it is reaped."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        await process.wait()
    finally:
        if process.stdout is not None:
            with trio.CancelScope(shield=True):
                await process.stdout.aclose()
