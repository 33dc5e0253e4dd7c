"""Commands of the lab itself that run in a node's namespace, or in that of the bridges, beside the caller.

A command is `netns-lab/lab WORD ORDER`, the order a JSON object. It prints a greeting when it has begun, ends when
its standard input ends, and prints one line of JSON when it is done.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from netlab.errors import LabError
from netlab.processes.enter import command_in
from netlab.processes.launch import SCRIPT

BEGIN_S_MAX = 60.0
END_S_MAX = 30.0  # beyond the time that was asked for


class NodeCommand:
    """One process, from its start on; it has ended after `finish`, and after `end`."""

    def __init__(self, name: str, place: int | str, word: str, order: Mapping[str, Any], for_s: float) -> None:
        """In the lab `name`, at a position or on the wire; the command may take `for_s`."""
        self._what = f"`{word}` at {place}"
        self._until = time.monotonic() + BEGIN_S_MAX + for_s + END_S_MAX
        command = [sys.executable, str(SCRIPT), word, json.dumps(order)]
        self._process = subprocess.Popen(
            command_in(name, str(place), command),
            stdin=subprocess.PIPE,  # its end asks the command to end
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # or what follows the first line might be read with it
        )

    def await_begin(self, greeting: str) -> None:
        """Until it prints the greeting. Raises LabError."""
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], BEGIN_S_MAX)[0] or stdout.readline() != greeting.encode() + b"\n":
            self._process.kill()
            complaint = self._process.communicate()[1].decode(errors="replace").strip()
            raise LabError(f"{self._what} did not begin: {complaint}")

    def finish(self) -> dict[str, Any]:
        """Its line of JSON when it is done. Raises LabError."""
        try:
            printed, complaint = self._process.communicate(timeout=max(0.1, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise LabError(f"{self._what} does not end.") from None
        if self._process.returncode:
            words = (complaint.strip() or printed.strip()).decode(errors="replace")
            raise LabError(f"{self._what} failed: {words}")
        found: dict[str, Any] = json.loads(printed)
        return found

    def end(self) -> None:
        """Safe to repeat, also after `finish`."""
        if self._process.poll() is None:
            self._process.kill()  # what it runs in the namespace dies with it (enter.py)
            self._process.communicate()


def carry_out(act: Callable[..., dict[str, Any]], text: str) -> int:
    """Inside: do what the order (JSON) says, print the result. The exit code: 0, or 1 with a sentence why not."""
    try:
        found = act(**json.loads(text))
    except LabError as reason:
        print(reason, file=sys.stderr)
        return 1
    print(json.dumps(found), flush=True)
    return 0
