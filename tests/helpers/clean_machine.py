"""A clean Debian machine of our own: a fresh root, booted by systemd-nspawn, without a way out.

Intuition: a rented room. It has what every room of the house has and nothing of ours, so whatever works there works
at the customer's; afterwards it is torn down.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

WAIT_S_MAX = 60.0
STEP_S_MAX = 300.0
"""For a boot, and for one command inside: on a busy machine an installation takes minutes."""
PROGRAMS = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "ssh-keygen": "openssh-client"}
"""What makes and boots machines, and the Debian package of each."""
PLAIN = ("env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
INSIDE = "python3 systemd systemd-sysv dbus iproute2 python3-apt sudo openssh-server openssh-client curl prometheus"
"""What the root has beside a minimal Debian: ways in, a wire, and what is installed beside us; it has no way out."""


def until(condition: Callable[[], object], what: str, wait_s_max: float = WAIT_S_MAX) -> None:
    """Wait for what has to happen. Raises AssertionError."""
    deadline = time.monotonic() + wait_s_max
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.05)


def obstacle() -> str | None:
    """Why there can be no machine here; None: there can."""
    if os.geteuid() != 0:
        return "a machine is booted by root only"
    missing = {program: package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    return f"no {' and '.join(missing)} here: apt-get install {' '.join(missing.values())}" if missing else None


def impossible(reason: str) -> NoReturn:
    """There should be a machine, and it cannot be made. Where CI is set that is a failure, elsewhere a skip."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def release_here() -> str:
    """The Debian release of this machine: "bookworm"."""
    (found,) = re.findall(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    return str(found)


def make_root(root: Path, packages: Sequence[str], release: str) -> None:
    """A minimal Debian with these packages below `root`; `impossible` if there is no Debian to be had."""
    options = ("--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={','.join(packages)}")
    command = ["mmdebstrap", *options, release, str(root)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if made.returncode != 0:
        impossible(f"mmdebstrap makes no root here: {made.stderr.strip()[-300:]}")


def told(*words: str | Path) -> None:
    """Run a command outside of all machines."""
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)


@contextmanager
def overlaid(base: Path, folder: Path) -> Iterator[Path]:
    """A root of our own that begins as a copy of `base`, which stays as it is."""
    upper, work, root = folder / "upper", folder / "work", folder / "root"
    for each in (upper, work, root):
        each.mkdir(parents=True)
    told("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={base},upperdir={upper},workdir={work}", str(root))
    try:
        yield root
    finally:
        told("umount", str(root))


class Machine:
    """Booted; systemd is its first process. `root` is its file system."""

    def __init__(self, root: Path) -> None:
        """`impossible` where nspawn cannot boot: the root is Debian's own, nothing of ours is in it yet."""
        self.root = root
        self._log = root.parent / "console"
        command = ["systemd-nspawn", "--quiet", "--directory", str(root), "--private-network", "--register=no"]
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
        """Its number outside."""
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
        """The words before a command that make it run inside, as root."""
        return ["nsenter", "--target", self.first_process, "--all", "--", *PLAIN]

    def run(self, *words: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command inside. With `check` it must succeed."""
        ran = subprocess.run(
            [*self.door, *words], input=stdin, capture_output=True, text=True, check=False, timeout=STEP_S_MAX
        )
        assert ran.returncode == 0 or not check, f"{words}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran

    def asked(self, *words: str) -> str:
        """What a command inside prints."""
        return self.run(*words).stdout.strip()

    def shown(self, key: str, unit: str = "subord") -> str:
        """One property of a unit."""
        return self.asked("systemctl", "show", unit, "--property", key, "--value")

    def journal(self, unit: str = "subord") -> str:
        """All that a unit has said, and that systemd has said of it."""
        return self.asked("journalctl", "--no-pager", "--output", "cat", "--unit", unit)

    def close(self) -> None:
        """Pull the plug: nothing in it will be wanted again."""
        first = self._first_process()
        if first is None:
            self._nspawn.kill()
        else:
            os.kill(int(first), signal.SIGKILL)  # with it goes everything inside
        self._nspawn.wait(WAIT_S_MAX)
