"""Where the kernel's cgroup controllers for processors are mounted.

Input is the text of /proc/self/mountinfo (proc(5)); output is the version of the hierarchy with the controller `cpu`
and its places. A v1 hierarchy with the controller counts first: beside it, a v2 hierarchy cannot have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from subord.services.shares.actuators.faults import ActuatorError

_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """A mounted cgroup hierarchy. `controllers`: of v1; empty for v2, where a file tells them."""

    place: str
    version: int
    controllers: frozenset[str]
    is_read_only: bool


class Places(NamedTuple):
    """`cpu`: where weights are set; `usage`: where the time used is read, the same for v2."""

    version: int
    cpu: str
    usage: str
    is_read_only: bool


def mounts_of(mountinfo: str) -> Iterator[Mount]:
    """The mounted cgroup hierarchies, in their order."""
    for line in mountinfo.splitlines():
        front, _, back = line.partition(" - ")
        fields, kind = front.split(" "), back.split(" ")
        if len(fields) < 6 or len(kind) < 3 or kind[0] not in {"cgroup", "cgroup2"}:
            continue
        options = kind[2].split(",")
        is_second = kind[0] == "cgroup2"
        yield Mount(
            _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4]),
            2 if is_second else 1,
            frozenset(() if is_second else options),
            "ro" in fields[5].split(",") or "ro" in options,
        )


def places_of(mountinfo: str) -> Places:
    """Of two mounts of one hierarchy the one that can be written to. Raises ActuatorError."""
    seen = {mount.place: mount for mount in mounts_of(mountinfo)}  # a later mount hides the earlier one at its place
    mounts = sorted(seen.values(), key=lambda mount: mount.is_read_only)
    cpu = _with("cpu", mounts)
    if cpu is not None:
        usage = _with("cpuacct", mounts)
        if usage is None:
            raise ActuatorError(f"cgroup v1 has no controller cpuacct here: mount it beside {cpu.place}")
        return Places(1, cpu.place, usage.place, cpu.is_read_only)
    second = next((mount for mount in mounts if mount.version == 2), None)
    if second is None:
        raise ActuatorError("no cgroup controller for processors is mounted here: mount cgroup2 at /sys/fs/cgroup")
    return Places(2, second.place, second.place, second.is_read_only)


def _with(controller: str, mounts: list[Mount]) -> Mount | None:
    return next((mount for mount in mounts if controller in mount.controllers), None)
