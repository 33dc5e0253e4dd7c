"""A room for a real batch system on this machine, with users, host names, directories and processes of its own.

In it, the machine is `head`, with the address ADDRESS; `ann` is a user with jobs, of the group GROUP, and a daemon
that is a sink of records runs as `subord`. Nothing outside of the room is changed, and what was started in it ends
with it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from conditions import look_until
from skips import RIGHTS

from subord.services.account.record import Job, read

REPOSITORY = Path(__file__).resolve().parents[2]
EPILOGS = REPOSITORY / "deploy" / "epilog"
ADDRESS: Final = "10.89.0.1"
GROUP: Final = "chemists"
USERS: Final = {"root": (0, 0), "ann": (6001, 6100), "subord": (6002, 6101), "nobody": (65534, 65534)}
GROUPS: Final = {"root": 0, GROUP: 6100, "subord": 6101, "nogroup": 65534}
WAIT_S_MAX = 120.0
APART = ("unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--propagation", "private")
FURNISH = """
set -eu
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
for name in hosts passwd group; do mount --bind "$1/$name" "/etc/$name"; done
mount --bind "$3" "$1/source"
mount --bind "$4" "$1/site"
mount --bind "$2" "$1/python"
mount --bind "$1/logger" /usr/bin/logger
mount -t overlay -o "lowerdir=$1/bin:/usr/local/bin" overlay /usr/local/bin
ip link set lo up
ip address add "$5/24" dev lo
hostname head
echo ready
exec cat
"""
"""The programs of the tests may be where only root can read, so Python and the source are also in the room."""


class Room:
    """`folder` is open to all users; `run` runs commands."""

    def __init__(self, folder: Path, first_process: int) -> None:
        self.folder = folder
        self.enter_network = ["nsenter", "--target", str(first_process), "--net", "--"]
        self.enter = ["nsenter", "--target", str(first_process), "--net", "--mount", "--uts", "--pid", "--"]
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/", "TZ": "UTC"}

    def words(self, *words: str | Path, user: str = "root") -> list[str]:
        """The command line that runs a command of the room as a user."""
        number, group = USERS[user]
        become = ["setpriv", f"--reuid={number}", f"--regid={group}", "--clear-groups", "--"]
        environment = [f"{name}={value}" for name, value in self.environment.items()]
        return [*self.enter, *(become if number else []), "env", "-i", *environment, *map(str, words)]

    def run(self, *words: str | Path, user: str = "root", given: str = "", check: bool = True) -> str:
        """Its standard output. With `check` it must succeed."""
        done = subprocess.run(
            self.words(*words, user=user),
            input=given,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=WAIT_S_MAX,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def make(self, name: str, owner: str = "root", mode: int = 0o755) -> Path:
        """A directory."""
        path = self.folder / name
        path.mkdir(parents=True)
        os.chown(path, *USERS[owner])
        path.chmod(mode)
        return path

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def records(self, number: int) -> list[Job]:
        """All records of jobs that the sink has stored, as soon as there are so many."""
        path = self.folder / "state" / "records.sqlite"

        def stored() -> list[Job]:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                found = [read(body) for (body,) in database.execute("select body from record where kind = 'job'")]
            return [job for job in found if job is not None]

        until(lambda: len(stored()) >= number, lambda: f"{number} records: {stored()}; logged: {self.logged()}")
        return stored()

    def logged(self) -> list[str]:
        """What epilogs have written to the system log, without that they wait."""
        lines = (self.folder / "logged").read_text(encoding="utf-8").splitlines()
        return [line for line in lines if "has not answered for" not in line]

    def epilog(self, name: str, copy: str) -> Path:
        """A copy of an epilog that waits longer than two seconds, because other tests may keep the machine busy."""
        text = (EPILOGS / name).read_text(encoding="utf-8")
        for short, long in (("--timeout=2 ", "--timeout=60 "), ("=1 2 ", "=1 60 "), ("=1 10 ", "=1 90 ")):
            assert short in text
            text = text.replace(short, long)
        return self.write(copy, text, mode=0o755)


def until(condition: Callable[[], object], what: Callable[[], str]) -> None:
    """Wait for a condition. Raises AssertionError."""
    look_until(condition, what, WAIT_S_MAX)


def need(programs: Mapping[str, str]) -> None:
    """Skips the test where a program, or the right to make a room, is missing; `programs` has their packages."""
    packages = sorted({package for program, package in programs.items() if shutil.which(program) is None})
    if packages:
        pytest.skip(f"a program is missing: apt-get install {' '.join(packages)}")
    if os.geteuid() != 0:
        pytest.skip("only root may run jobs as other users")


@contextmanager
def furnished() -> Iterator[Room]:
    """A room without a batch system. Skips the test where it cannot be made."""
    need({"ip": "iproute2"})
    tried = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False, timeout=WAIT_S_MAX)
    if tried.returncode != 0:
        pytest.skip(f"{RIGHTS}: {tried.stderr.strip()}")
    folder = Path(tempfile.mkdtemp(prefix="subord-room-"))  # those of pytest are closed to other users
    folder.chmod(0o755)
    try:
        _write_files(folder)
        places = [sys.base_prefix, str(REPOSITORY), sysconfig.get_path("purelib"), ADDRESS]
        with subprocess.Popen(
            [*APART, "sh", "-c", FURNISH, "sh", str(folder), *places], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
            (child,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
            try:
                yield Room(folder, int(child))
            finally:
                holder.kill()  # its child ends with it, and so does every other process of the room
                until(lambda: not Path(f"/proc/{child}").exists(), lambda: "the processes of the room end")
    finally:
        shutil.rmtree(folder)


def _write_files(folder: Path) -> None:
    for name in ("source", "site", "python", "bin"):
        (folder / name).mkdir()
    python = Path(sys.executable).resolve().relative_to(sys.base_prefix)
    exports = {
        "SUBORD_SOCKET": f"{folder}/state/control",
        "LD_LIBRARY_PATH": f"{folder}/python/lib",
        "PYTHONPATH": f"{folder}/source:{folder}/site",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    subord = "#!/bin/sh\n" + "".join(f"export {name}={value}\n" for name, value in exports.items())
    subord += f'exec {folder}/python/{python} -m subord "$@"\n'
    logger = f"#!/bin/sh\nexec /bin/cat >>{folder}/logged\n"
    for name, text in (("bin/subord", subord), ("logger", logger)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "logged").touch()
    (folder / "logged").chmod(0o666)
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} head\n")
    users = "".join(f"{name}:x:{user}:{group}::/:/bin/sh\n" for name, (user, group) in USERS.items())
    (folder / "passwd").write_text(users)
    (folder / "group").write_text("".join(f"{name}:x:{group}:\n" for name, group in GROUPS.items()))


@contextmanager
def sink(room: Room) -> Iterator[None]:
    """A daemon that stores records, and takes them from its own user and root."""
    state = room.make("state", owner="subord")
    settings: Sequence[str] = (
        "cluster.network=10.89.0.0/24",
        "cluster.insecure=true",
        "cluster.timing=lab",
        f"node.control_socket={state}/control",
        f"node.state_directory={state}",
        f"ledger.sink={state}/records.sqlite",
    )
    words = [word for each in settings for word in ("--set", each)]
    with (room.folder / "daemon.log").open("wb") as log:
        daemon = subprocess.Popen(room.words("/usr/local/bin/subord", "run", *words, user="subord"), stderr=log)
        try:
            until(lambda: (state / "records.sqlite").exists() or daemon.poll() is not None, lambda: "the sink starts")
            assert daemon.poll() is None, (room.folder / "daemon.log").read_text()
            room.run("/usr/local/bin/subord", "wait", "--state", "placed", "--timeout", f"{WAIT_S_MAX:g}")
            yield
        finally:
            daemon.kill()
            daemon.wait()
