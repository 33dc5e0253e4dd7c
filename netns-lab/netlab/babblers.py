"""Strangers in the namespaces of nodes, who babble beside the scenario (babble.py says what).

Intuition: hecklers who are let in, watched, and led out at the end.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time

from netlab.babble import Speech
from netlab.enter import command_in
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.launch import SCRIPT

BEGIN_S_MAX = 30.0
END_S_MAX = 30.0  # beyond the time that was asked for


class Babblers:
    """Every process is started by `start` and has ended after `end`."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._processes: list[tuple[subprocess.Popen[str], float]] = []  # and when it should have ended

    def start(self, position: int, speech: Speech) -> None:
        """Returns when the first word is about to be said. Raises LabError."""
        command = command_in(
            self._lab.options.name, str(position), [sys.executable, str(SCRIPT), "babble", speech.to_json()]
        )
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._processes.append((process, time.monotonic() + BEGIN_S_MAX + speech.for_s + END_S_MAX))
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], BEGIN_S_MAX)[0] or process.stdout.readline() != "babbling\n":
            process.kill()
            raise LabError(f"The babbler of node {position} did not begin: {process.communicate()[1].strip()}")

    def finish(self) -> int:
        """Wait until all have said everything; datagrams sent. Raises LabError when one could say nothing."""
        sent = 0
        for process, until in self._processes:
            try:
                told, complaint = process.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise LabError("A babbler does not end.") from None
            if process.returncode:
                raise LabError(f"A babbler could send nothing: {complaint.strip() or told.strip()}")
            sent += json.loads(told)["sent"]
        return sent

    def end(self) -> None:
        """Safe to repeat."""
        for process, _ in self._processes:
            if process.poll() is None:
                process.kill()  # what it runs in the namespace dies with it (enter.py)
            process.communicate()
        self._processes.clear()
