"""The two versions of the kernel's cgroups: where a weight is set, and where the counters of a group are.

Input is a group, by its path below the mounted hierarchy; outputs are values as the kernel writes them. Methods raise
OSError (faults.py): of a group that is gone, or NoControllerError.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from math import inf
from typing import ClassVar

from subord.services.shares.actuators import files
from subord.services.shares.actuators.faults import NoControllerError
from subord.services.shares.actuators.files import number_in, read_at
from subord.services.shares.actuators.mounts import Places
from subord.services.shares.actuators.usage import Counters
from subord.services.shares.actuators.weights import SHARES, WEIGHT, Scale


class Version(ABC):
    """One mounted hierarchy, below the root directory `root`."""

    kind: ClassVar[str]
    """The file of the weight; also the word for how saved values are put back."""
    tasks: ClassVar[str]
    """The file with the numbers of the threads of a group."""
    scale: ClassVar[Scale]

    def __init__(self, places: Places, root: str = "") -> None:
        self.top = root + places.cpu
        self.usage_top = root + places.usage
        self.is_read_only = places.is_read_only

    def identity(self, group: str) -> int:
        """Of the group that is there now: differs when one is made anew under its name."""
        return files.identity_of(self.top + group)

    def value(self, group: str, identity: int) -> str:
        """The weight."""
        return self._at(group, identity, lambda directory: read_at(directory, self.kind).strip())

    def put(self, group: str, identity: int, text: str) -> None:
        """Set the weight."""

        def write(directory: int) -> str:
            files.write_at(directory, self.kind, text + "\n")
            return ""

        self._at(group, identity, write)

    def is_idle(self, group: str) -> bool:
        """Whether the kernel gives it only what all others leave, and takes no weight for it."""
        try:
            return read_at(None, f"{self.top}{group}/cpu.idle").strip() == "1"
        except OSError:  # an older kernel, or the group is gone
            return False

    @abstractmethod
    def counters(self, group: str) -> Counters:
        """What the group has used, with all groups below it."""

    @abstractmethod
    def quota(self, group: str) -> float:
        """The processors that the group may use at most, by its own limit; inf: there is none."""

    @abstractmethod
    def check(self) -> None:
        """Raises NoControllerError: no group of this hierarchy can have a weight."""

    @abstractmethod
    def _advice(self, group: str) -> str:
        """Of a group without a file for its weight."""

    def _at(self, group: str, identity: int, does: files.OnDirectory) -> str:
        path = self.top + group
        with files.opened(path, identity) as directory:
            try:
                return does(directory)
            except FileNotFoundError:
                if not _is_there(path, directory):
                    raise
                raise NoControllerError(self._advice(group)) from None


class First(Version):
    """cgroup v1."""

    kind = "cpu.shares"
    tasks = "tasks"
    scale = SHARES

    def check(self) -> None:
        """Its mount says that it has the controller."""

    def _advice(self, group: str) -> str:
        return f"there is no {self.kind} in {self.top}{group}"

    def counters(self, group: str) -> Counters:
        return Counters(number_in(read_at(None, f"{self.usage_top}{group}/cpuacct.usage")))

    def quota(self, group: str) -> float:
        path = f"{self.top}{group}/cpu.cfs_"
        try:
            quota, period = (number_in(read_at(None, f"{path}{name}_us")) for name in ("quota", "period"))
        except OSError:
            return inf
        return quota / period if quota > 0 and period > 0 else inf


class Second(Version):
    """cgroup v2."""

    kind = "cpu.weight"
    tasks = "cgroup.threads"
    scale = WEIGHT

    def check(self) -> None:
        if "cpu" not in read_at(None, f"{self.top}/cgroup.controllers").split():
            words = f"the hierarchy at {self.top} has no controller for processors (cgroup.controllers)"
            raise NoControllerError(words)

    def counters(self, group: str) -> Counters:
        path = self.usage_top + group
        used = _field(read_at(None, f"{path}/cpu.stat"), "usage_usec ")
        try:
            waited = _field(read_at(None, f"{path}/cpu.pressure"), "some ", "total=")
        except OSError:  # a kernel without pressure, or one that was started with psi=0
            return Counters(used * 1000)
        return Counters(used * 1000, waited * 1000)

    def quota(self, group: str) -> float:
        try:
            quota, _, period = read_at(None, f"{self.top}{group}/cpu.max").partition(" ")
            return inf if quota == "max" else number_in(quota) / max(1, number_in(period))
        except OSError:  # the first group of the hierarchy has none
            return inf

    def _advice(self, group: str) -> str:
        above = self.top + os.path.dirname(group).rstrip("/")
        return f"the group has no {self.kind}: write +cpu to {above}/cgroup.subtree_control"


def _is_there(path: str, directory: int) -> bool:
    """Whether an open directory is still the one of this path."""
    with suppress(OSError):
        return files.identity_of(path) == os.fstat(directory).st_ino
    return False


def _field(text: str, start: str, name: str = "") -> int:
    """The number after `name` in the line that begins with `start`. Raises OSError."""
    line = next((line for line in text.splitlines() if line.startswith(start)), "")
    return number_in(line.removeprefix(start).rpartition(name)[2] if name else line.removeprefix(start))
