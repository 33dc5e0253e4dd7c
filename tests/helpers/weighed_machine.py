"""A booted machine whose systemd sets the weights of slices.

nspawn shows the controllers of cgroup v1 to a machine, but read-only and with the groups of the host, so its systemd
leaves them alone. Here the machine has a group of its own in each, and may change it. With cgroup v2 nspawn delegates
a group by itself. The machine is removed afterwards, with its groups.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from clean_machine import Machine, impossible, until

from subord.services.shares.actuators.faults import ActuatorError
from subord.services.shares.actuators.mounts import Places, places_of

ENTER = 'until [ "$1" = -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
ON_ONE = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
"""Endless loops are on one processor, and leave the others to other tests."""
TIMES = 8
"""The weight of the machine, in times of the usual one: other tests run meanwhile."""
USUAL = 1024


@contextmanager
def weighed(root: Path) -> Iterator[Machine]:
    """Booted from this root. Calls `impossible` if its systemd gets no controller."""
    try:
        places = places_of(Path("/proc/self/mountinfo").read_text())
    except ActuatorError as error:
        impossible(f"no machine gets a controller for processors here: {error}")
    if places.version == 1:
        with _own_groups(places) as groups:
            machine = Machine(root, [*ON_ONE, "sh", "-c", ENTER, "enter", *map(str, groups), "--"])
            try:
                _make_writable(machine)
                yield machine
            finally:
                machine.close()
        return
    machine = Machine(root, ON_ONE)
    try:
        if "cpu" not in machine.asked("cat", "/sys/fs/cgroup/cgroup.controllers").split():
            impossible("nspawn delegates no controller for processors here")
        yield machine
    finally:
        machine.close()


@contextmanager
def _own_groups(places: Places) -> Iterator[list[Path]]:
    groups = [Path(top) / f"subord-machine-{os.getpid()}" for top in dict.fromkeys((places.cpu, places.usage))]
    for group in groups:
        group.mkdir()
    (groups[0] / "cpu.shares").write_text(str(TIMES * USUAL))
    try:
        yield groups
    finally:
        for group in groups:
            until(partial(is_gone, group), f"{group} is removed")


def is_gone(group: Path) -> bool:
    """After an attempt to remove it. The kernel refuses while a process that was killed ends."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            os.rmdir(folder)
    return not group.exists()


def _inside(machine: Machine) -> Places:
    return places_of(machine.asked("cat", "/proc/self/mountinfo"))


def _make_writable(machine: Machine) -> None:
    """A weight beside the slices to come has systemd make their groups, too."""
    places = _inside(machine)
    for place in dict.fromkeys((places.cpu, places.usage)):
        machine.run("mount", "--options", "remount,bind,rw", place)
    machine.run("systemctl", "daemon-reexec")
    machine.run("systemctl", "set-property", "--runtime", "system.slice", "CPUWeight=100")


def count_usage(machine: Machine, slices: Sequence[str]) -> None:
    """Have the kernel count what the processes of slices use, where systemd does not: it takes the controller cpuacct
    of cgroup v1 to be mounted together with cpu. Each slice has a process for each processor, or soon will have."""
    places = _inside(machine)
    if places.cpu == places.usage:
        return
    for each in slices:
        group = f"{places.usage}/{each}"
        there = f"find {places.cpu}/{each} -name cgroup.procs -exec cat {{}} +"
        enter = f'for each in $({there}); do echo $each >"$0"; done; wc -l <"$0"'
        machine.run("mkdir", "--parents", group)

        def are_in(words: Sequence[str] = ("sh", "-c", enter, f"{group}/cgroup.procs")) -> bool:
            return int(machine.asked(*words)) >= int(machine.asked("nproc"))

        until(are_in, f"the processes of {each} are counted")
