"""The cgroups of the classes of a lab's nodes, and busy loops in them.

A node has a group with a group for each class below it, in the hierarchies in which the kernel divides processors
(cgroup v1: `cpu` and `cpuacct`; else v2), with a quota for all its classes together. Loops of one node run on one
processor, because the kernel compares weights on each processor by itself. Invariant: `remove` leaves no group and no
process in one; groups that a killed lab has left are removed by the next lab.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from netlab.common import linux
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from subord.services.shares.actuators.faults import ActuatorError
from subord.services.shares.actuators.mounts import Places, places_of

FIRST: Final = "subord-lab-"
"""Of the name of a lab's group, with the process of its controller at the end."""
PERIOD_US: Final = 500_000
"""The kernel gives time in slices of some milliseconds, and forgets at the end of a quota what a group is still owed:
with 50 ms of 200 ms a class of 10 percent gets 8."""
LAB_TIMES: Final = 8
"""The weight of a lab's group, in times of the usual one, so that other work on the machine takes less of the quotas;
without quotas it would take the machine."""
END_S_MAX: Final = 10.0
GROUPS_READ_ONLY: Final = "groups-read-only"
"""A file in the directory of a node: its agent cannot write to groups, from its next start on."""
LOOP: Final = ("sh", "-c", "while :; do :; done")


class Used(NamedTuple):
    """`at`: of the monotonic clock, when the counters were read; `cpu_s`: by node and class, since the start."""

    at: float
    cpu_s: dict[int, dict[str, float]]


class Groups:
    """Those of the lab of this controller. Raises LabError when there can be none here."""

    def __init__(self, name: str, classes: Sequence[str], quota: float) -> None:
        """`quota`: processors of a node for all its classes together; 0: no limit."""
        try:
            self._places: Places = places_of(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
        except ActuatorError as reason:
            raise LabError(f"Classes need cgroups: {reason}.") from None
        self.path = path_of(name)
        self._classes = tuple(classes)
        self._quota = quota
        self._tops = list(map(Path, cgroup_mounts()))
        self._loops: dict[tuple[int, str], subprocess.Popen[bytes]] = {}
        self._nodes: list[int] = []
        remove_left()

    def make(self, node: int) -> None:
        """The groups of a node. Raises LabError."""
        try:
            for top in self._tops:
                self._make_at(top, node)
            self._limit(self._tops[0] / self.path / str(node))
        except OSError as reason:
            raise LabError(f"Classes need cgroups that can be changed, as root: {reason}.") from None
        self._nodes.append(node)

    def _make_at(self, top: Path, node: int) -> None:
        above = top / self.path
        for group in (above, above / str(node)):
            group.mkdir(exist_ok=True)
            if self._places.version == 2:
                (group / "cgroup.subtree_control").write_text("+cpu")
        for name in self._classes:
            (above / str(node) / name).mkdir()

    def _limit(self, group: Path) -> None:
        if not self._quota:
            return
        (group.parent / self._kind).write_text(str(LAB_TIMES * self._usual))
        quota_us = round(self._quota * PERIOD_US)
        if self._places.version == 2:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            return
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))

    def load(self, node: int, name: str, *, busy: bool) -> None:
        """From now on there is work of this class on the node, or none. Raises LabError, OSError."""
        self._check(node, name)
        loop = self._loops.get((node, name))
        if loop is not None:
            loop.send_signal(signal.SIGCONT if busy else signal.SIGSTOP)
        elif busy:
            self._loops[node, name] = self._begun(node, name)

    def _begun(self, node: int, name: str) -> subprocess.Popen[bytes]:
        processors = sorted(os.sched_getaffinity(0))
        processor = processors[self._nodes.index(node) % len(processors)]
        controller = os.getpid()

        def enter() -> None:
            linux.die_with(controller, signal.SIGKILL)
            os.sched_setaffinity(0, {processor})
            for top in self._tops:
                (top / self.path / str(node) / name / "cgroup.procs").write_text("0")

        return subprocess.Popen(LOOP, stdin=subprocess.DEVNULL, preexec_fn=enter)  # noqa: PLW1509 - it has one thread

    def _check(self, node: int, name: str) -> None:
        if node not in self._nodes or name not in self._classes:
            raise LabError(f"There is no class {name} on the node {node} of this lab. Nothing was changed.")

    def used(self) -> Used:
        """What all classes have used."""
        at = time.monotonic()
        return Used(at, {node: {name: self._used_of(node, name) for name in self._classes} for node in self._nodes})

    def _used_of(self, node: int, name: str) -> float:
        group = Path(self._places.usage) / self.path / str(node) / name
        with suppress(OSError):  # a test has removed it
            if self._places.version == 1:
                return int((group / "cpuacct.usage").read_text()) / 1e9
            line = (group / "cpu.stat").read_text().splitlines()[0]
            return int(line.split()[1]) / 1e6
        return 0.0

    def weights(self, node: int) -> dict[str, int]:
        """Those of the classes that have a group now."""
        found = {}
        for name in self._classes:
            with suppress(OSError):
                found[name] = int((self._group(node, name) / self._kind).read_text())
        return found

    def weigh(self, node: int, weights: dict[str, int]) -> None:
        """Set weights by hand. Raises OSError."""
        for name, weight in weights.items():
            self._check(node, name)
            (self._group(node, name) / self._kind).write_text(str(weight))

    def _group(self, node: int, name: str) -> Path:
        return self._tops[0] / self.path / str(node) / name

    @property
    def _kind(self) -> str:
        return "cpu.shares" if self._places.version == 1 else "cpu.weight"

    @property
    def _usual(self) -> int:
        """The weight of a group that was not set."""
        return 1024 if self._places.version == 1 else 100

    def remove_class(self, node: int, name: str) -> None:
        """The class has no group on this node from now on. Raises LabError."""
        self._check(node, name)
        self._loops.pop((node, name), None)
        for top in self._tops:
            _remove(top / self.path / str(node) / name)

    def remove(self) -> None:
        """All groups, and what runs in them."""
        for top in self._tops:
            _remove(top / self.path)


def path_of(name: str) -> str:
    """The group of a lab, below the top of a hierarchy. It names the controller, which is this process."""
    return f"{FIRST}{name}-{os.getpid()}"


def cgroup_mounts() -> list[str]:
    """Where the hierarchies are mounted that divide processors. Raises ActuatorError."""
    places = places_of(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    return list(dict.fromkeys((places.cpu, places.usage)))


def remove_left() -> None:
    """What labs have left whose controllers were killed. Raises LabError."""
    try:
        tops = cgroup_mounts()
    except ActuatorError:
        return
    for top in map(Path, tops):
        for group in top.glob(f"{FIRST}*"):
            pid = group.name.rpartition("-")[2]
            if pid.isdigit() and not Path("/proc", pid).exists():
                _remove(group)


def _remove(group: Path) -> None:
    """With all below it, once its processes have ended. Raises LabError."""

    def is_gone() -> bool:
        for each in _below(group):
            with suppress(OSError):
                for pid in (each / "cgroup.procs").read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                each.rmdir()
        return not group.exists()

    if not wait_until(is_gone, END_S_MAX, 0.02):
        raise LabError(f"The cgroup {group} cannot be removed: look which processes are in it, and remove it.")


def _below(group: Path) -> Iterator[Path]:
    """The deepest ones first."""
    with suppress(OSError):
        for each in sorted(group.iterdir()):
            if each.is_dir():
                yield from _below(each)
    yield group
