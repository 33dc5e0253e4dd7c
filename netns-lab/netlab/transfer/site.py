"""A site: hosts of several cells on one network, each with a host name, a network and processes of its own.

Input are names; outputs are hosts that run commands. All hosts know the names and users of the site, and have the
directory of their cell at SHARED, and below it, at COMMON, one that is common to all cells. Invariants: nothing
outside of the site is changed, and all its processes end with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import subord
from netlab.common.waiting import wait_until
from netlab.errors import LabError

NETWORK: Final = "10.90.0"
SHARED: Final = "/srv"
COMMON: Final = "/srv/common"
USERS: Final = {"root": (0, 0), "ann": (6001, 6100), "bob": (6002, 6100), "nobody": (65534, 65534)}
"""ann and bob have jobs, and homes below COMMON."""
GROUPS: Final = {"root": 0, "chemists": 6100, "nogroup": 65534}
NEEDED: Final = ("unshare", "nsenter", "setpriv", "ip")
COMMAND_S_MAX: Final = 120.0
END_S_MAX: Final = 30.0
LOG: Final = "hosts.log"
_APART: Final = (
    "unshare",
    "--net",
    "--mount",
    "--uts",
    "--pid",
    "--fork",
    "--kill-child",
    "--propagation",
    "private",
)
_FURNISH: Final = """
set -eu
mount -t proc proc /proc
for name in hosts passwd group nsswitch.conf; do mount --bind "$1/etc/$name" "/etc/$name"; done
mount --bind "$2" "$1/python"
mount --bind "$3" "$1/source"
mount --bind "$4" "$1/packages"
ip link set lo up
ip link add bridge address 02:00:00:00:00:01 type bridge
ip link set bridge up
echo ready
exec cat
"""
"""Python and the source may be where only root can read, so they are also in the site."""
_HOST: Final = """
set -eu
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind "$2/cells/$3" /srv
mount --bind "$2/common" /srv/common
hostname "$1"
ip link set lo up
echo ready
cat
exit 0
"""
"""The shell stays: the first process of a host waits for those whose parents have ended."""


class Place(NamedTuple):
    """A host that runs. `first`: its first process, as this machine numbers it."""

    holder: subprocess.Popen[bytes]
    first: int


class Site:
    """`folder` is open to all users, and all hosts have it at the same path."""

    def __init__(self, folder: Path, first: int) -> None:
        self.folder = folder
        self._first = first
        self._cells: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._places: dict[str, Place] = {}

    # -- hosts ----------------------------------------------------------------------------------------------------

    def name(self, cell: str, *hosts: str) -> None:
        """Give the hosts of a cell their addresses, before any of them starts."""
        (self.folder / "cells" / cell / "common").mkdir(parents=True, exist_ok=True)
        for host in hosts:
            self._cells[host] = cell
            self._numbers[host] = len(self._numbers) + 1
        with (self.folder / "etc" / "hosts").open("a") as file:
            file.writelines(f"{self.address(host)} {host}\n" for host in hosts)

    def address(self, host: str) -> str:
        return f"{NETWORK}.{self._numbers[host]}"

    def shared(self, cell: str) -> Path:
        """What hosts of the cell have at SHARED."""
        return self.folder / "cells" / cell

    def start(self, host: str) -> None:
        """One that has a name; again after `kill`. Raises LabError."""
        words = [*self._enter(self._first), *_APART, "sh", "-c", _HOST, "sh", host, str(self.folder)]
        with (self.folder / LOG).open("ab") as log:
            holder = subprocess.Popen(
                [*words, self._cells[host]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        assert holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            holder.kill()
            holder.wait()
            raise LabError(f"The host {host} cannot be made here: {(self.folder / LOG).read_text().strip()}")
        self._places[host] = Place(holder, _first_below(holder.pid))
        self._connect(host)

    def kill(self, host: str) -> None:
        """As when its power fails."""
        holder, first = self._places.pop(host)
        with suppress(ProcessLookupError):
            os.kill(first, signal.SIGKILL)
        for stream in (holder.stdin, holder.stdout):
            assert stream is not None
            stream.close()
        holder.wait(END_S_MAX)
        if not wait_until(lambda: not Path(f"/proc/{first}").exists(), END_S_MAX, 0.02):
            raise LabError(f"The processes of the host {host} have not ended.")

    def hosts(self) -> list[str]:
        """Those that run."""
        return list(self._places)

    # -- commands -------------------------------------------------------------------------------------------------

    def enter(self, host: str) -> tuple[str, ...]:
        """The words before a command that runs there."""
        return self._enter(self._places[host].first)

    def run(
        self,
        host: str,
        *words: str,
        user: str = "root",
        given: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """A command there: its output. Raises LabError."""
        number, group = USERS[user]
        become = ["setpriv", f"--reuid={number}", f"--regid={group}", "--clear-groups", "--"] if number else []
        values = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": home(user)}
        own = [f"{key}={value}" for key, value in (values | dict(environment or {})).items()]
        with tempfile.TemporaryFile() as file:  # qconf reads what it is given twice
            file.write(given.encode())
            file.seek(0)
            done = subprocess.run(
                [*self.enter(host), *become, "env", "-i", "-C", home(user), *own, *words],
                stdin=file,
                capture_output=True,
                text=True,
                cwd="/",
                timeout=COMMAND_S_MAX,
                check=False,
            )
        if done.returncode:
            raise LabError(f"{' '.join(words)} at {host}: {done.stdout}{done.stderr}")
        return done.stdout

    def python(self) -> dict[str, str]:
        """Of all hosts: the interpreter (`PYTHON`), and the environment with which it finds the source."""
        own = Path(sys.executable).resolve().relative_to(sys.base_prefix)
        return {
            "PYTHON": f"{self.folder}/python/{own}",
            "LD_LIBRARY_PATH": f"{self.folder}/python/lib",
            "PYTHONPATH": f"{self.folder}/source:{self.folder}/packages",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    # -- parts ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _enter(first: int) -> tuple[str, ...]:
        return ("nsenter", "--target", str(first), "--net", "--mount", "--uts", "--pid", "--")

    def _connect(self, host: str) -> None:
        first = self._places[host].first
        site = ("nsenter", "--target", str(self._first), "--net", "--", "ip")
        own = ("nsenter", "--target", str(first), "--net", "--", "ip")
        wire = f"v{self._numbers[host]}"
        for words in (
            (*site, "link", "add", wire, "type", "veth", "peer", "eth0", "netns", str(first)),
            (*site, "link", "set", wire, "master", "bridge", "up"),
            (*own, "address", "add", f"{self.address(host)}/24", "dev", "eth0"),
            (*own, "link", "set", "eth0", "up"),
        ):
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=COMMAND_S_MAX)
            if done.returncode:
                raise LabError(f"The host {host} has no network: {done.stderr.strip()}")


def home(user: str) -> str:
    return f"{COMMON}/{user}" if user in ("ann", "bob") else "/"


def obstacle() -> str:
    """Why there can be no site here; "": there can."""
    missing = [each for each in NEEDED if shutil.which(each) is None]
    if missing:
        return f"a program is missing: {' '.join(missing)}"
    return "" if os.geteuid() == 0 else "only root may run jobs as other users"


@contextmanager
def opened() -> Iterator[Site]:
    """Raises LabError."""
    if reason := obstacle():
        raise LabError(f"There can be no site here: {reason}.")
    folder = Path(tempfile.mkdtemp(prefix="subord-site-"))
    folder.chmod(0o755)
    try:
        _write_files(folder)
        places = [sys.base_prefix, str(Path(subord.__file__).parents[1]), sysconfig.get_path("purelib")]
        with subprocess.Popen(
            [*_APART, "sh", "-c", _FURNISH, "sh", str(folder), *places], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout is not None
            try:
                if holder.stdout.readline() != b"ready\n":
                    raise LabError("Namespaces cannot be made on this machine.")
                first = _first_below(holder.pid)
                site = Site(folder, first)
                try:
                    yield site
                finally:
                    for host in site.hosts():
                        site.kill(host)
            finally:
                holder.kill()  # its child ends with it, and so does every other process of the site
                wait_until(lambda: not Path(f"/proc/{first}").exists(), END_S_MAX, 0.02)
    finally:
        shutil.rmtree(folder)


def _write_files(folder: Path) -> None:
    for name in ("python", "source", "packages", "etc", "cells", "common"):
        (folder / name).mkdir()
    users = "".join(f"{name}:x:{uid}:{gid}::{home(name)}:/bin/sh\n" for name, (uid, gid) in USERS.items())
    texts = {
        "hosts": "127.0.0.1 localhost\n",
        "passwd": users,
        "group": "".join(f"{name}:x:{gid}:\n" for name, gid in GROUPS.items()),
        "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
    }
    for name, text in texts.items():
        (folder / "etc" / name).write_text(text, encoding="utf-8")
        (folder / "etc" / name).chmod(0o644)
    for name in ("ann", "bob"):
        (folder / "common" / name).mkdir()
        os.chown(folder / "common" / name, *USERS[name])


def _first_below(pid: int) -> int:
    """The first process of the namespace that the process has made: it is 1 there."""
    while True:
        (child, *_) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pid = int(child)
        (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("NSpid:"))
        if line.split()[-1] == "1":
            return pid
