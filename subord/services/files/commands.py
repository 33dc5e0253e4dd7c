"""Runs the command of a check, or of what follows a push, in a shell, and tells why it failed.

Input is a line for /bin/sh, and its environment; output is "", or a sentence with the end of what it printed.
Invariants: no process of its group is left when the caller is to end before its time; memory and disks do not grow
with what it prints.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Final

from subord.client.text import printable
from subord.services.files.staging import Pause

SHELL: Final = "/bin/sh"
POLL_S: Final = 0.1
SHOWN_BYTES: Final = 200
PIPE_BYTES: Final = 65_536
"""As Linux gives a pipe, so one read takes all that is in it."""


def failure(line: str, environment: Mapping[bytes, bytes], pause: Pause) -> str:
    """Run it; "": it ended with 0. Raises what `pause` raises."""
    process = subprocess.Popen(  # noqa: S603 - the operator has signed the line
        [SHELL, "-c", line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        env=dict(environment),
        cwd="/",
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        os.set_blocking(output.fileno(), False)
        end = _waited(process, output, pause)
    code = process.returncode
    if not code:
        return ""
    said = printable(end.decode("utf-8", "replace").strip())
    how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
    return f"{how}: {said}" if said else how


def _waited(process: subprocess.Popen[bytes], output: IO[bytes], pause: Pause) -> bytes:
    """The last bytes that it has printed until its end. A process that it leaves in the background is not waited
    for."""
    poller, is_open, end = select.poll(), True, b""
    poller.register(output, select.POLLIN)
    while process.poll() is None:
        _paused(process, pause)
        if not is_open:
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
        elif poller.poll(POLL_S * 1000):
            data = output.read(PIPE_BYTES)
            is_open, end = bool(data), (end + data)[-SHOWN_BYTES:]
    return (end + (output.read(PIPE_BYTES) or b""))[-SHOWN_BYTES:]


def _paused(process: subprocess.Popen[bytes], pause: Pause) -> None:
    try:
        pause()
    except BaseException:  # trio.Cancelled, too; raised again
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
