"""Runs the command of a check, or of what follows a push, in a shell, and tells why it failed.

Input is a line for /bin/sh, and its environment; output is "", or a sentence with the end of what it printed.
Invariant: no process of its group is left when the caller is to end before its time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from subord.client.text import printable
from subord.services.files.staging import Pause

SHELL: Final = "/bin/sh"
POLL_S: Final = 0.1
SHOWN_BYTES: Final = 200


def failure(line: str, environment: Mapping[bytes, bytes], pause: Pause) -> str:
    """Run it; "": it ended with 0. Raises what `pause` raises."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603 - the operator has signed the line
            [SHELL, "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
        )
        code = _waited(process, pause)
        if not code:
            return ""
        output.seek(0, os.SEEK_END)
        output.seek(max(0, output.tell() - SHOWN_BYTES))
        said = printable(output.read().decode("utf-8", "replace").strip())
        how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
        return f"{how}: {said}" if said else how


def _waited(process: subprocess.Popen[bytes], pause: Pause) -> int:
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(POLL_S)
        try:
            pause()
        except BaseException:  # trio.Cancelled, too; raised again
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
