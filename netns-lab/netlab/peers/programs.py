"""Other people's programs on the nodes of a lab, for comparison.

Intuition: a playground that is let to another club for an afternoon: the same field, the same lines, their own ball.
Everybody writes on a sheet of their own, and we read what is new on all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from netlab.common import linux, measure
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.peers.systems import Meters
from netlab.processes import enter

CHUNK_BYTES = 1 << 20
END_S_MAX = 10.0


class Visitors:
    """Processes by position. Their output is in `directory`, one file each; usable as a context manager."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self._lab = lab
        self._directory = directory
        self._info = lab.client.ask("info")
        self._running: defaultdict[int, list[subprocess.Popen[bytes]]] = defaultdict(list)
        self._sheets: dict[tuple[str, int], tuple[Path, int, bytes]] = {}  # file, bytes read, unfinished line

    def __enter__(self) -> Visitors:
        return self

    def __exit__(self, *_: object) -> None:
        for some in self._running.values():  # first all, so that none of them is busy with the others' deaths
            for process in some:
                process.kill()
        for position in list(self._running):
            self.end(position)

    def start(self, position: int, name: str, *command: str) -> None:
        """Run a command in the node's namespaces; it ends with us. Raises OSError when there is no such program."""
        node = enter.find_node(self._info, str(position))
        us = os.getpid()
        path = self._directory / f"{name}-{position}.log"

        def become_a_visitor() -> None:
            enter.enter(self._info, node)
            linux.die_with(us, signal.SIGKILL)
            os.setpriority(os.PRIO_PROCESS, 0, 0)  # whoever measures may come first (peers/experiment.py)

        with path.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                preexec_fn=become_a_visitor,  # noqa: PLW1509 - we have one thread
            )
        self._running[position].append(process)
        self._sheets.setdefault((name, position), (path, 0, b""))

    def end(self, position: int) -> None:
        """Kill what runs on the node; it is gone on return."""
        for process in self._running.pop(position, []):
            process.kill()
            process.wait(END_S_MAX)

    def lines(self, name: str) -> Iterator[tuple[int, str]]:
        """New complete lines on the sheets of that name, with the position of the writer."""
        for (its_name, position), (path, offset, begun) in list(self._sheets.items()):
            if its_name != name or path.stat().st_size == offset:
                continue
            with path.open("rb") as file:
                file.seek(offset)
                chunk = file.read(CHUNK_BYTES)
            *whole, rest = (begun + chunk).split(b"\n")
            self._sheets[its_name, position] = (path, offset + len(chunk), rest)
            for line in whole:
                yield position, line.decode(errors="replace")

    def live(self) -> frozenset[int]:
        """Nodes whose processes were started, and not ended by us. Raises LabError when one has ended by itself."""
        for position, some in self._running.items():
            for process in some:
                if process.poll() is not None:
                    word = Path(str(process.args[0])).name if isinstance(process.args, tuple) else process.args
                    raise LabError(f"{word} on node {position} ended by itself, exit code {process.returncode}.")
        return frozenset(self._running)

    def meters(self) -> Meters:
        """Of each node's processes together. Raises LabError when one has ended by itself."""

        def of_each(read: Callable[[int], float]) -> dict[int, float]:
            return {p: sum(read(each.pid) for each in self._running[p]) for p in self.live()}

        return Meters(of_each(measure.cpu_s), of_each(measure.pss_mib), of_each(measure.resident_mib))


def version_of(*command: str) -> str:
    """The first line of what it says of its version. Raises LabError when it says nothing."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=END_S_MAX)
    lines = (ran.stdout + ran.stderr).splitlines()
    if not lines:
        raise LabError(f"`{' '.join(command)}` says nothing.")
    return lines[0].strip()
