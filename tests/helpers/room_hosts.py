"""More hosts for a room of batch_room.py: each has a network, a host name and processes of its own.

Their addresses are in the hosts file of the room. A host that is removed ends with all its processes, as a machine
does whose power fails. Nothing leads out of the network.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from batch_room import ADDRESS, Room, until

NETWORK: Final = "10.89.1"
APART: Final = ("unshare", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
WAIT: Final = 'hostname "$1"; ip link set lo up; echo ready; cat; exit 0'
"""The shell stays, because the first process of a host has to wait for those whose parents have ended."""


class Hosts:
    def __init__(self, room: Room) -> None:
        self.room = room
        self._holders: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self._numbers = iter(range(2, 255))
        # A bridge without an address of its own takes that of a host, and another one when the next host comes.
        room.run("ip", "link", "add", "bridge", "address", "02:00:00:00:00:01", "type", "bridge")
        room.run("ip", "address", "add", f"{NETWORK}.1/24", "dev", "bridge")
        room.run("ip", "link", "set", "bridge", "up")
        # What `head` sends comes from the only address that its name has.
        room.run("ip", "route", "change", f"{NETWORK}.0/24", "dev", "bridge", "src", ADDRESS)

    def start(self, name: str) -> str:
        """The address of a new host."""
        address = f"{NETWORK}.{next(self._numbers)}"
        words = self.room.words(*APART, "sh", "-c", WAIT, "sh", name)
        holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        first = _first_process(holder.pid)
        self._holders[name] = holder, first
        with (self.room.folder / "hosts").open("a") as file:
            file.write(f"{address} {name}\n")
        self._connect(name, first, address)
        return address

    def names(self) -> list[str]:
        return list(self._holders)

    def _connect(self, name: str, first: int, address: str) -> None:
        own = ["nsenter", "--target", str(first), "--net", "--"]
        for words in (
            [
                *self.room.enter_network,
                "ip",
                "link",
                "add",
                name,
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                str(first),
            ],
            [*self.room.enter_network, "ip", "link", "set", name, "master", "bridge", "up"],
            [*own, "ip", "address", "add", f"{address}/24", "dev", "eth0"],
            [*own, "ip", "link", "set", "eth0", "up"],
            [*own, "ip", "route", "add", "default", "via", f"{NETWORK}.1"],
        ):
            subprocess.run(words, check=True, capture_output=True, timeout=60)

    def enter(self, name: str) -> list[str]:
        """Words before those of a command that is to run there."""
        return ["nsenter", "--target", str(self._holders[name][1]), "--net", "--mount", "--uts", "--pid", "--"]

    def run(self, name: str, *words: str | Path, environment: Mapping[str, str] | None = None) -> None:
        """Start a daemon there, which goes into the background."""
        values = [f"{key}={value}" for key, value in (self.room.environment | dict(environment or {})).items()]
        done = subprocess.run(
            [*self.enter(name), "env", "-i", *values, *map(str, words)],
            capture_output=True,
            timeout=60,
            check=False,
            cwd="/",
        )
        assert done.returncode == 0, f"{words}: {done.stdout!r}{done.stderr!r}"

    def kill(self, name: str) -> None:
        """Its name stays in the hosts file."""
        holder, first = self._holders.pop(name)
        os.kill(first, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{first}").exists(), lambda: f"the processes of {name} end")
        holder.communicate()


@contextmanager
def hosts_of(room: Room) -> Iterator[Hosts]:
    """Those that are left end with the room."""
    hosts = Hosts(room)
    try:
        yield hosts
    finally:
        for name in hosts.names():
            hosts.kill(name)


def _first_process(pid: int) -> int:
    """That of the host: the first one, below the nsenter and the unshare that have started it, which is 1 there."""
    while True:
        (child, *_) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pid = int(child)
        (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("NSpid:"))
        if line.split()[-1] == "1":
            return pid
