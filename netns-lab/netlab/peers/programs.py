"""Programs other than subord on the nodes of a lab. What each prints goes to a file of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from netlab.common import measure
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.peers.systems import Costs
from netlab.processes import enter

CHUNK_BYTES = 1 << 20
END_S_MAX = 10.0
MEASURING_NICE = -10


class NodePrograms:
    """Processes by position. Their output is in `directory`, one file each; usable as a context manager."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.directory = directory
        self._info = lab.client.ask("info")
        self._running: defaultdict[int, list[subprocess.Popen[bytes]]] = defaultdict(list)
        self._started: list[float] = []
        self._output: dict[tuple[str, int], tuple[Path, int, bytes]] = {}  # file, bytes read, unfinished line

    def __enter__(self) -> NodePrograms:
        return self

    def __exit__(self, *_: object) -> None:
        for some in self._running.values():  # first all, so that none of them is busy with the others' deaths
            for process in some:
                process.kill()
        for position in list(self._running):
            self.end(position)

    def start(self, position: int, name: str, *command: str, folders: Mapping[str, Path] | None = None) -> None:
        """Run a command on the node; it ends with this process. `folders`: as in enter.py. Raises OSError."""
        self._started.append(time.monotonic())
        node = enter.find_node(self._info, str(position))
        path = self.directory / f"{name}-{position}.log"
        options = {"stdin": subprocess.DEVNULL, "cwd": self.directory}
        with path.open("ab") as log:
            process = enter.begin_in(self._info, node, command, folders=folders, stdout=log, stderr=log, **options)
        self._running[position].append(process)
        self._output.setdefault((name, position), (path, 0, b""))

    def started_at(self) -> tuple[float, float]:
        return self._started[0], self._started[-1]

    def end(self, position: int) -> None:
        """Kill what runs on the node; it is gone on return."""
        for process in self._running.pop(position, []):
            process.kill()
            process.wait(END_S_MAX)

    def lines(self, name: str) -> Iterator[tuple[int, str]]:
        """New complete lines of the programs of that name, with the position of the writer."""
        for (its_name, position), (path, offset, begun) in list(self._output.items()):
            if its_name != name or path.stat().st_size == offset:
                continue
            with path.open("rb") as file:
                file.seek(offset)
                chunk = file.read(CHUNK_BYTES)
            *whole, rest = (begun + chunk).split(b"\n")
            self._output[its_name, position] = (path, offset + len(chunk), rest)
            for line in whole:
                yield position, line.decode(errors="replace")

    def live(self) -> frozenset[int]:
        """Nodes whose processes were started and not ended here. Raises LabError when one has ended by itself."""
        for position, some in self._running.items():
            for process in some:
                if process.poll() is not None:
                    name = Path(str(process.args[0])).name  # type: ignore[index]  # as `start` has given it
                    raise LabError(f"{name} on node {position} ended by itself, exit code {process.returncode}.")
        return frozenset(self._running)

    def cpu_s(self) -> dict[int, float]:
        """Of each node's processes together, without the time that their memory takes to read. Raises LabError."""
        return {
            position: sum(measure.cpu_s(each.pid) for each in self._running[position]) for position in self.live()
        }

    def costs(self) -> Costs:
        """Of each node's processes together. Raises LabError when one has ended by itself."""
        reads = (measure.OF_PROCESS[name] for name in Costs._fields)
        return Costs(*({p: sum(read(each.pid) for each in self._running[p]) for p in self.live()} for read in reads))


def version_of(*command: str) -> str:
    """The first line that it prints. Raises LabError when it prints nothing."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=END_S_MAX)
    lines = (ran.stdout + ran.stderr).splitlines()
    if not lines:
        raise LabError(f"`{' '.join(command)}` says nothing.")
    return lines[0].strip()


@contextmanager
def high_priority() -> Iterator[None]:
    """The measuring process must not wait for the measured: 200 busy agents kept it from starting the rest."""
    old = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):  # without rights outside of the lab: ordinary priority
        os.setpriority(os.PRIO_PROCESS, 0, MEASURING_NICE)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, old)


@contextmanager
def programs_on(lab: Lab) -> Iterator[NodePrograms]:
    """With a directory of their own, measured at a high priority."""
    with (
        tempfile.TemporaryDirectory(prefix="programs-") as directory,
        high_priority(),
        NodePrograms(lab, Path(directory)) as programs,
    ):
        yield programs
