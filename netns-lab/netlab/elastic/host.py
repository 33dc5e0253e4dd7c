"""A host of a node: a host name, files in /etc and processes of its own, beside the network that the lab gives it.

Input is where the node is in the lab; the first process makes the host, and then runs the agent of the node, again
whenever it has ended. What an agent or a command starts in the background stays a process of the host. Invariant:
with the first process all of them end.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from netlab.common import linux
from netlab.errors import LabError
from netlab.processes.copies import leave_with

AGENT_AGAIN_S: Final = 0.2
NO_AGENT: Final = "no-agent"
"""A file in the directory of the node: its agent is not started again."""
ETC: Final = "etc"
SHARED: Final = "/srv"
"""Where each host has the directory that all of them share, without a network file system."""
HOSTS: Final = "127.0.0.1 localhost\n"
NAME_SERVICE: Final = "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"

Main = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Place:
    """Where a host is. `files`: the directory of the node. `namespace`: of its network. `shared`: see SHARED."""

    name: str
    position: int
    files: Path
    namespace: str
    shared: Path
    config: Path
    """Of the agent."""


def start(place: Place, main: Main) -> int:
    """The first process of a host that is there now, and whose agent runs `main`. Raises LabError."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    told, tell = os.pipe()
    linux.unshare(linux.CLONE_NEWPID)
    try:
        pid = os.fork()
        if pid == 0:
            leave_with(lambda: _run(place, main, tell))
    finally:
        linux.setns(own, linux.CLONE_NEWPID)
        os.close(own)
        os.close(tell)
    with open(told, "rb") as made:
        if not made.read():
            os.waitpid(pid, 0)
            raise LabError(f"The host {place.name} could not be made; host.log of its node may say why.")
    return pid


def end(pid: int) -> None:
    """The host, as when its power fails; on return it has no process."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def install(name: str, files: Path, etc: Mapping[str, str]) -> None:
    """A new disk for a host. `etc`: files in /etc that differ from those of this machine."""
    for folder in ("upper", "work"):
        shutil.rmtree(files / ETC / folder, ignore_errors=True)
        (files / ETC / folder).mkdir(parents=True)
    own = {"hosts": HOSTS, "nsswitch.conf": NAME_SERVICE, "hostname": f"{name}\n", **etc}
    for file, text in own.items():
        (files / ETC / "upper" / file).write_text(text)
        (files / ETC / "upper" / file).chmod(0o644)
    (files / ETC / "upper").chmod(0o755)


def _run(place: Place, main: Main, tell: int) -> NoReturn:
    """The first process. `tell`: where it says that the host is there."""
    linux.die_with(0, signal.SIGKILL)  # of another process namespace, so its number is 0 here
    for number in (*linux.ENDING_SIGNALS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    linux.write_to(place.files / "host.log", 1, 2)
    linux.setns(os.open(place.namespace, os.O_RDONLY), linux.CLONE_NEWNET)
    linux.close_all_but(keep=(0, 1, 2, tell))
    _furnish(place)
    os.write(tell, b"made")
    os.close(tell)
    linux.set_name(f"host-{place.position}")
    while True:
        while (place.files / NO_AGENT).exists():
            time.sleep(AGENT_AGAIN_S)
        agent = os.fork()
        if agent == 0:
            leave_with(lambda: _run_agent(place, main))
        while os.waitpid(-1, 0)[0] != agent:  # others have lost the process that started them
            pass
        time.sleep(AGENT_AGAIN_S)


def _furnish(place: Place) -> None:
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWUTS)
    linux.keep_mounts()
    socket.sethostname(place.name)
    own = place.files / ETC
    linux.mount("proc", "/proc", "proc")
    linux.mount("overlay", "/etc", "overlay", f"lowerdir=/etc,upperdir={own}/upper,workdir={own}/work")
    linux.mount("tmpfs", "/run", "tmpfs", "mode=755")
    linux.show_at(place.shared, SHARED)


def _run_agent(place: Place, main: Main) -> int:
    os.setsid()
    linux.write_to(place.files / "agent.log", 1, 2)
    os.chdir(place.files)
    linux.set_name(f"agent-{place.position}")
    sys.argv = ["subord-agent"]
    gc.enable()
    return main(["--config", str(place.config), "--socket"])
