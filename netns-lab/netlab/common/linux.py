"""Kernel calls that Python 3.11 lacks: unshare, setns, prctl, mount; and what the lab knows of processes.

Each call acts on the calling process and raises OSError when the kernel refuses it.
Sources: unshare(2), setns(2), prctl(2), user_namespaces(7), proc(5).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
NAME_OF_NO_NODE = "localhost"
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_MS_RDONLY = 1
_MS_REMOUNT = 1 << 5
_MS_REC = 0x4000
_MS_BIND = 1 << 12
_MS_PRIVATE = 1 << 18
_LEADER_FIELD, _STARTED_FIELD = 1, 19  # of /proc/PID/stat, counted behind the command's closing bracket

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(kinds: int) -> None:
    _check(_libc.unshare(ctypes.c_int(kinds)), "unshare")


def setns(descriptor: int, kind: int) -> None:
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def enter_private(*, rootless: bool) -> None:
    """Enter new network, mount and host name namespaces; with `rootless` also a new user namespace, as its uid 0.

    All nodes share the host name, so it is one that names no node.
    """
    uid, gid = os.geteuid(), os.getegid()
    unshare((CLONE_NEWUSER if rootless else 0) | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS)
    socket.sethostname(NAME_OF_NO_NODE)
    if rootless:
        Path("/proc/self/setgroups").write_text("deny")  # or the kernel refuses a gid_map from a plain user
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    keep_mounts()


def keep_mounts() -> None:
    """What is mounted in this mount namespace from now on is not seen in others."""
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None), "mount")


def mount(source: str, place: str, kind: str, options: str = "") -> None:
    """A file system of this kind, in this mount namespace."""
    given = (source.encode(), place.encode(), kind.encode(), ctypes.c_ulong(0), options.encode())
    _check(_libc.mount(*given), f"mount {place}")


def show_at(path: Path, place: str) -> None:
    """Show the directory at `path` at `place`, in this mount namespace."""
    _check(_libc.mount(os.fsencode(path), place.encode(), None, ctypes.c_ulong(_MS_BIND), None), "mount")


def own_folder(path: Path, place: str) -> None:
    """Show the directory at `path` at `place`, to this process and those that it starts."""
    path.mkdir(exist_ok=True)
    unshare(CLONE_NEWNS)
    show_at(path, place)


def forbid_writing(*places: str) -> None:
    """Show what is mounted at these places read-only, to this process and those that it starts."""
    unshare(CLONE_NEWNS)
    flags = ctypes.c_ulong(_MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    for place in places:
        _check(_libc.mount(b"none", place.encode(), None, flags, None), "mount")


def die_with(starter: int, number: signal.Signals) -> None:
    """Have the kernel send this process `number` when `starter`, the process that forked it, ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0), "prctl")
    if os.getppid() != starter:  # it ended before the call
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Make this process, instead of init, wait for descendants that lose their starter."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def set_name(name: str) -> None:
    """Name this process in ps and top; the kernel keeps 15 bytes."""
    _check(_libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0), "prctl")


def favour(nice: int) -> None:
    """Give this process, and the autogroup of its session (sched(7)), the weight of a nice value. Without the right
    to do so it stays as it is."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")


def close_all_but(keep: tuple[int, ...]) -> None:
    """Close the descriptors that a forked copy has inherited: locks, sockets, namespaces."""
    last = -1
    for descriptor in sorted(keep):
        if last + 1 < descriptor:  # closerange(0, 0) closes everything (CPython 3.11)
            os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def write_to(file: os.PathLike[str], *descriptors: int) -> None:
    """Let these descriptors of this process, such as standard error, lead to the end of that file."""
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for descriptor in descriptors:
        os.dup2(out, descriptor)
    os.close(out)


def end_all_below() -> None:
    """Kill and reap every descendant until none is left. Needs `adopt_orphans` at the start."""
    while True:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if (fields := _stat(int(pid))) and fields[_LEADER_FIELD] == str(os.getpid()):
                os.kill(int(pid), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def started_at(pid: int) -> int | None:
    """Kernel clock ticks at the start of `pid`, with which the pid names one process for ever. None: no process."""
    fields = _stat(pid)
    return int(fields[_STARTED_FIELD]) if fields else None


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat behind the command; [] when the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
