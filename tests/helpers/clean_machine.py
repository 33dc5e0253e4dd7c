"""A clean Debian machine: a new root, booted by systemd-nspawn, without access to other networks.

It contains only Debian, so a package that works there does not depend on this machine. It is removed afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from conditions import look_until

WAIT_S_MAX = 120.0
STEP_S_MAX = 300.0
"""For a boot, and for one command inside: on a busy machine an installation takes minutes."""
PROGRAMS = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "ssh-keygen": "openssh-client"}
"""What makes and boots machines, and the Debian package of each."""
PLAIN = ("env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
INSIDE = "python3 systemd systemd-sysv dbus iproute2 python3-apt sudo openssh-server openssh-client curl prometheus"
"""What the root has beside a minimal Debian: ways in, a wire, and what is installed beside us; it has no way out."""


def until(condition: Callable[[], object], what: str, wait_s_max: float = WAIT_S_MAX) -> None:
    """Wait for a condition. Raises AssertionError."""
    look_until(condition, lambda: what, wait_s_max)


def obstacle() -> str | None:
    """Why this host cannot run a machine; None: it can."""
    if os.geteuid() != 0:
        return "a machine is booted by root only"
    missing = {program: package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    return f"no {' and '.join(missing)} here: apt-get install {' '.join(missing.values())}" if missing else None


def impossible(reason: str) -> NoReturn:
    """Skip the test because no machine can be made; fail where CI is set."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def release_here() -> str:
    """The Debian release of this machine: "bookworm"."""
    (found,) = re.findall(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    return str(found)


def make_root(root: Path, packages: Sequence[str], release: str) -> None:
    """Make a minimal Debian with these packages below `root`; calls `impossible` if that fails."""
    options = ("--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={','.join(packages)}")
    command = ["mmdebstrap", *options, release, str(root)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if made.returncode != 0:
        impossible(f"mmdebstrap makes no root here: {made.stderr.strip()[-300:]}")


def told(*words: str | Path) -> None:
    """Run a command on this host."""
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)


@contextmanager
def overlaid(base: Path, folder: Path) -> Iterator[Path]:
    """A root that starts as a copy of `base`, which stays unchanged."""
    upper, work, root = folder / "upper", folder / "work", folder / "root"
    for each in (upper, work, root):
        each.mkdir(parents=True)
    told("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={base},upperdir={upper},workdir={work}", str(root))
    try:
        yield root
    finally:
        told("umount", str(root))


class Machine:
    """A booted machine, whose first process is systemd. `root` is its file system."""

    def __init__(self, root: Path, within: Sequence[str] = (), options: Sequence[str] = ()) -> None:
        """Calls `impossible` if nspawn cannot boot the root, which contains only Debian. `within`: words of a command
        that executes nspawn, and stays the same process. `options`: further ones of nspawn."""
        self.root = root
        self._log = root.parent / "console"
        nspawn = ["systemd-nspawn", "--quiet", "--directory", str(root), "--private-network", "--register=no"]
        command = [*within, *nspawn, *options]
        with self._log.open("w") as log:
            self._nspawn = subprocess.Popen(
                [*command, "--keep-unit", "--boot"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            until(self._is_up, "the machine is up", STEP_S_MAX)
        except AssertionError:
            self.close()
            impossible(f"systemd-nspawn boots no machine here: {self._log.read_text().strip()[-300:]}")

    def _first_process(self) -> str | None:
        tasks = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children")
        found = tasks.read_text().split() if tasks.exists() else []
        return found[0] if found else None

    @property
    def first_process(self) -> str:
        """Its process id on this host."""
        first = self._first_process()
        assert first is not None, "the machine is down"
        return first

    def _is_up(self) -> bool:
        assert self._nspawn.poll() is None, "nspawn has ended"
        if self._first_process() is None:
            return False
        state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    @property
    def door(self) -> list[str]:
        """The prefix of a command that runs inside as root."""
        return ["nsenter", "--target", self.first_process, "--all", "--", *PLAIN]

    def run(self, *words: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command inside. With `check` it must succeed."""
        ran = subprocess.run(
            [*self.door, *words], input=stdin, capture_output=True, text=True, check=False, timeout=STEP_S_MAX
        )
        assert ran.returncode == 0 or not check, f"{words}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran

    def asked(self, *words: str) -> str:
        """The output of a command inside."""
        return self.run(*words).stdout.strip()

    def shown(self, key: str, unit: str = "subord") -> str:
        """One property of a unit."""
        return self.asked("systemctl", "show", unit, "--property", key, "--value")

    def journal(self, unit: str = "subord") -> str:
        """The output of a unit so far, and systemd's messages about it."""
        self.run("journalctl", "--sync")  # what was said just now may not have come to the journal yet
        return self.asked("journalctl", "--no-pager", "--output", "cat", "--unit", unit)

    def close(self) -> None:
        """Kill the machine."""
        first = self._first_process()
        if first is None:
            self._nspawn.kill()
        else:
            os.kill(int(first), signal.SIGKILL)  # with it goes everything inside
        self._nspawn.wait(WAIT_S_MAX)
