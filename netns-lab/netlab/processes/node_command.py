"""Commands of the lab itself that run inside a node's namespace, or on the wire, beside what we do.

Intuition: an envoy. It is sent off with one written order, sends word when it has arrived, and brings one line home.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from typing import Any

from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes.enter import command_in
from netlab.processes.launch import SCRIPT

BEGIN_S_MAX = 60.0
END_S_MAX = 30.0  # beyond the time that was asked for


class Envoy:
    """One process, from its start on; it has ended after `finish`, and after `end`."""

    def __init__(self, lab: Lab, place: int | str, word: str, order: str, for_s: float) -> None:
        """`netns-lab/lab WORD ORDER` at a position, or on the wire; it may take `for_s`."""
        self._what = f"`{word}` at {place}"
        self._until = time.monotonic() + BEGIN_S_MAX + for_s + END_S_MAX
        self._process = subprocess.Popen(
            command_in(lab.options.name, str(place), [sys.executable, str(SCRIPT), word, order]),
            stdin=subprocess.PIPE,  # its end asks those to end who listen
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # or what follows the first line might be read with it
        )

    def await_word(self, greeting: str) -> None:
        """Until it says so. Raises LabError."""
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], BEGIN_S_MAX)[0] or stdout.readline() != greeting.encode() + b"\n":
            self._process.kill()
            complaint = self._process.communicate()[1].decode(errors="replace").strip()
            raise LabError(f"{self._what} did not begin: {complaint}")

    def finish(self) -> dict[str, Any]:
        """What it brings home when it is done. Raises LabError."""
        try:
            told, complaint = self._process.communicate(timeout=max(0.1, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise LabError(f"{self._what} does not end.") from None
        if self._process.returncode:
            words = (complaint.strip() or told.strip()).decode(errors="replace")
            raise LabError(f"{self._what} came to nothing: {words}")
        brought: dict[str, Any] = json.loads(told)
        return brought

    def end(self) -> None:
        """Safe to repeat, also after `finish`."""
        if self._process.poll() is None:
            self._process.kill()  # what it runs in the namespace dies with it (processes/enter.py)
            self._process.communicate()
