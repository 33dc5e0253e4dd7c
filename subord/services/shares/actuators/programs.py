"""Runs a program with a limit of time and of output. Blocks; for a thread of the agent.

Output is what it printed. Invariant: when `run` returns, the program and its process group were killed or have ended.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

OUTPUT_BYTES_MAX: Final = 4096
END_S_MAX: Final = 1.0
ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


class ProgramError(Exception):
    """What happened to it; follows its name."""


def run(words: Sequence[str], limit_s: float) -> str:
    """What the program printed. Raises ProgramError."""
    try:
        process = _begun(words)
    except OSError as error:
        raise ProgramError(f"cannot be run: {error.strerror}") from None
    deadline = time.monotonic() + limit_s
    try:
        output = _read(process, deadline)
        if output is None or not _has_ended(process, deadline):
            raise ProgramError(f"did not end within {round(limit_s, 1):g} s, and was killed")
    finally:
        _end(process)
    text = output.decode(errors="replace").strip()
    if process.returncode:
        raise ProgramError(f"ended with {process.returncode}: {_line(text)}")
    return text


def _begun(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """It gets no SIGTERM: systemd sends that to all processes of a unit that is stopped, until there are no new ones,
    and the agent still puts back weights. Raises OSError."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # of this thread; the program inherits it
    try:
        return subprocess.Popen(  # noqa: S603 - words of the configuration, without a shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """Until the end of the output; None: it did not end in time. Raises ProgramError."""
    assert process.stdout is not None
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            part = os.read(process.stdout.fileno(), OUTPUT_BYTES_MAX)
            if not part:
                return bytes(output)
            output += part
            if len(output) > OUTPUT_BYTES_MAX:
                raise ProgramError(f"prints more than {OUTPUT_BYTES_MAX} bytes, and was killed")
    return None


def _has_ended(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Without reaping it, so that its number stays its own until `_end`."""
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of its group. A process that the kernel does not end is left to it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S_MAX)
    assert process.stdout is not None
    process.stdout.close()


def _line(text: str) -> str:
    """The first line, as far as it can be printed."""
    first = (text.splitlines() or ["it printed nothing"])[0][:200]
    return "".join(each if each.isprintable() else "?" for each in first)
