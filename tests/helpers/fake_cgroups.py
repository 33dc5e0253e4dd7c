"""The files of a kernel's cgroups below a directory: what the actuators of shares read and write, without a kernel.

Groups are directories with ordinary files, so a weight that is written can be read again; counters and tasks change
only by the methods here.
"""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

from subord.config.schema import SharesConfig
from subord.services.shares.actuators.actuator import Actuator

CLASSES = ("web=/apps/web-*", "batch=/apps/batch", "rest=/apps/*")
BOOT = "proc/sys/kernel/random/boot_id"
FIRST = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:4 - cgroup cgroup rw,cpu\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)
SECOND = "31 23 0:28 / /sys/fs/cgroup rw,nosuid,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


class FakeNode:
    """A machine with two processors below `root`."""

    def __init__(self, top: Path, version: int = 1) -> None:
        self.version = version
        self._removed = count()
        self.root = top / "root"
        self.state = top / "state"
        self.state.mkdir(mode=0o700)
        cgroup = self.root / "sys/fs/cgroup"
        self.cpu, self.usage = (cgroup / "cpu", cgroup / "cpuacct") if version == 1 else (cgroup, cgroup)
        self.cpu.mkdir(parents=True)
        self.usage.mkdir(exist_ok=True)
        self.write("proc/self/mountinfo", FIRST if version == 1 else SECOND)
        self.write("sys/devices/system/cpu/online", "0-1\n")
        self.write(BOOT, "one\n")
        if version == 2:
            (self.cpu / "cgroup.controllers").write_text("cpuset cpu io\n")

    def write(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def group(self, path: str, weight: int | None = None) -> None:
        """A group, and those above it, as the kernel makes them."""
        for below in [*reversed(Path(path).parents), Path(path)][1:]:
            place = self.cpu / str(below).lstrip("/")
            if place.exists():
                continue
            place.mkdir()
            if self.version == 1:
                (place / "cpu.shares").write_text("1024\n")
                (place / "cpu.cfs_quota_us").write_text("-1\n")
                (place / "cpu.cfs_period_us").write_text("100000\n")
                (place / "tasks").write_text("")
                (self.usage / str(below).lstrip("/")).mkdir()
            else:
                (place / "cpu.weight").write_text("100\n")
                (place / "cpu.max").write_text("max 100000\n")
                (place / "cgroup.threads").write_text("")
            self.used(str(below), 0)
        if weight is not None:
            self.weight_file(path).write_text(f"{weight}\n")

    def weight_file(self, path: str) -> Path:
        return self.cpu / path.lstrip("/") / ("cpu.shares" if self.version == 1 else "cpu.weight")

    def weight(self, path: str) -> int:
        return int(self.weight_file(path).read_text())

    def weights(self, *paths: str) -> list[int]:
        return [self.weight(path) for path in paths]

    def used(self, path: str, seconds: float, waited: float | None = None) -> None:
        """Set the counters of a group."""
        place = self.usage / path.lstrip("/")
        if self.version == 1:
            (place / "cpuacct.usage").write_text(f"{round(seconds * 1e9)}\n")
        else:
            (place / "cpu.stat").write_text(f"usage_usec {round(seconds * 1e6)}\nuser_usec 7\n")
        if waited is not None:
            some = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={round(waited * 1e6)}"
            (place / "cpu.pressure").write_text(f"{some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")

    def tasks(self, path: str, *states: str, first: int = 100) -> None:
        """Give a group tasks with these states."""
        numbers = range(first, first + len(states))
        name = "tasks" if self.version == 1 else "cgroup.threads"
        (self.cpu / path.lstrip("/") / name).write_text("".join(f"{number}\n" for number in numbers))
        for number, state in zip(numbers, states, strict=True):
            self.write(f"proc/{number}/stat", f"{number} (a (b) R) {state} 1 1 1 0\n")

    def remove(self, path: str) -> None:
        """The directory itself is kept elsewhere: a disk would give its inode number to the next one, the kernel does
        not."""
        for top in {self.cpu, self.usage}:
            kept = self.root / f"removed-{next(self._removed)}"
            (top / path.lstrip("/")).rename(kept)
            for each in kept.iterdir():
                if each.is_dir():
                    shutil.rmtree(each)
                else:
                    each.unlink()

    def actuator(self, *classes: str, queues: tuple[str, ...] = (), systemctl: str = "systemctl") -> Actuator:
        config = SharesConfig(classes=classes or CLASSES, queues=queues)
        return Actuator(config, str(self.state), str(self.root), systemctl)
