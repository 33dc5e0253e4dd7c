"""Starting a keeper from outside, and ending its lab.

The keeper is a process of its own (`netns-lab/lab keep`) in a session of its own, so that Ctrl-C on the terminal
reaches only the process that started it, which then ends the lab in good order.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from netlab.common.json_lines import Message
from netlab.common.linux import ENDING_SIGNALS
from netlab.errors import LabError
from netlab.processes import releases, zygote
from netlab.processes.options import Options
from netlab.processes.rundir import RunDirectory, base

SCRIPT = Path(__file__).parents[2] / "lab"
END_S_MAX = 60.0

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much (0: unknown)."""


def silent(_what: str, _done: int, _of: int) -> None:
    """Progress that is not shown."""


class LabHandle:
    """One lab that lives until `end`, or after `release` until `down`. Raises LabError when it cannot be raised."""

    def __init__(self, options: Options, progress: Progress) -> None:
        _check_command(options)
        self.directory: RunDirectory = RunDirectory(base() / options.name)
        self.controller = 0
        # Ctrl-C waits until the handle holds the keeper, which blocks signals itself (keeper.py).
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        command = [sys.executable, str(SCRIPT), "keep", options.to_json()]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self.keeper = self._process.pid
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._await_ready(progress)
        except BaseException:
            self.end()
            raise

    def release(self) -> None:
        self._to.write(b"release\n")
        self._to.close()

    def end(self) -> None:
        """End the lab and wait until it has taken itself down. Safe to repeat."""
        with contextlib.suppress(OSError):
            self._to.close()
        self.wait(END_S_MAX)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end of the lab; the keeper's exit code. Raises subprocess.TimeoutExpired.

        Prints why the lab failed, if it did: a client only sees that its connection has ended.
        """
        code = self._process.wait(timeout_s)
        if not self._from.closed:
            os.set_blocking(self._from.fileno(), False)  # other processes may hold the other end
            for line in (self._from.read() or b"").splitlines():
                if words := _complaint(line):
                    print(words, file=sys.stderr)
            self._from.close()
        return code

    def _await_ready(self, progress: Progress) -> None:
        failed: list[str] = []
        for line in self._from:
            message: Message = json.loads(line)
            if "ready" in message:
                self.controller = message["controller"]
                return
            if "progress" in message:
                progress(message["progress"], message.get("done", 0), message.get("of", 0))
            else:
                failed.append(_complaint(line))
        raise LabError("\n".join(failed) or "The lab's keeper ended without a word. Nothing is left running.")


def _complaint(line: bytes) -> str:
    """The keeper's complaint; nothing for progress, or for a line that ends in the middle."""
    with contextlib.suppress(ValueError):
        message: dict[str, str] = json.loads(line)
        return message.get("error") or message.get("log") or ""
    return ""


def _check_command(options: Options) -> None:
    if options.previous is not None:
        releases.check(Path(options.previous))
    command = Path(zygote.daemon_command(options.daemon)[-1])
    if (options.execute or options.daemon) and not command.exists():
        raise LabError(
            f"{command} does not exist: run `./dev demo` once, which installs subord. Nothing was started."
        )
