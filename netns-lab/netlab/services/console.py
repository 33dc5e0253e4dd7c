"""Commands that an operator types on a node: how long each takes, and what it prints.

Invariant: what a command prints goes to files, so that it never waits for its reader; it ends with this process.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes import enter

SUBORD = str(Path(sys.executable).with_name("subord"))
LOOK_S = 0.01
WORDS_MAX = 80  # characters


class Done(NamedTuple):
    """A command that has ended. `took_s`: from before its fork on."""

    took_s: float
    code: int
    out: str
    err: str


class Console:
    """Of one node of a lab; commands sign as the operator of the lab, and have `variables` in their environment."""

    def __init__(self, lab: Lab, position: int, variables: Mapping[str, str] | None = None) -> None:
        self.position = position
        self._info = lab.client.ask("info")
        self._node = enter.find_node(self._info, str(position))
        socket = {"SUBORD_SOCKET": str(lab.control_socket(position))}
        self._environment = {**lab.environment, **socket, **(variables or {})}

    def run(self, *words: str, seconds: float = 600.0) -> Done:
        """Until it has ended. Raises LabError after `seconds`."""
        return self.begin(*words).done(seconds)

    def begin(self, *words: str) -> Command:
        """Raises LabError when there is no such program."""
        out, err = os.memfd_create("out"), os.memfd_create("err")
        began = time.monotonic()
        try:
            process = enter.begin_in(
                self._info,
                self._node,
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as reason:
            raise LabError(f"{words[0]}: {reason.strerror}.") from None
        return Command(process, began, out, err)


class Command:
    """One command, from its start on."""

    def __init__(self, process: subprocess.Popen[bytes], began: float, out: int, err: int) -> None:
        self._process = process
        self._began = began
        self._out, self._err = out, err
        self._words = " ".join(map(str, process.args))[:WORDS_MAX]  # type: ignore[arg-type]  # a list of them
        self.pid = process.pid

    @property
    def lasted_s(self) -> float:
        return time.monotonic() - self._began

    def printed(self) -> str:
        """On standard output, so far."""
        return _text(self._out)

    def interrupt(self) -> None:
        """As Ctrl-C does on a terminal: all processes of the session."""
        os.killpg(self.pid, signal.SIGINT)

    def done(self, seconds: float, look: Callable[[], object] | None = None) -> Done:
        """Wait for its end; `look` is called all the time. Kills it after `seconds`, and raises LabError."""
        until = self._began + seconds
        pause_s = LOOK_S if look else seconds
        ended = os.pidfd_open(self.pid)
        try:
            while not select.select([ended], [], [], pause_s)[0]:
                if time.monotonic() > until:
                    raise LabError(f"A command took longer than {seconds:g} s: {self._words}.")
                if look:
                    look()
            took_s = self.lasted_s
        except BaseException:
            os.killpg(self.pid, signal.SIGKILL)
            raise
        finally:
            os.close(ended)
            code = self._process.wait()
        done = Done(took_s, code, _text(self._out), _text(self._err))
        os.close(self._out)
        os.close(self._err)
        return done


def _text(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")
