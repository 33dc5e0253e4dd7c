"""The few kernel calls that Python 3.11 does not offer: unshare, setns, prctl, mount.

Intuition: a namespace is a room; `unshare` builds an empty one around the caller, `setns` walks into another.
Sources: unshare(2), setns(2), prctl(2), user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(kinds: int) -> None:
    """Move the calling process into new namespaces. Raises OSError."""
    _check(_libc.unshare(ctypes.c_int(kinds)), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Move the calling process into the namespace behind `descriptor`. Raises OSError."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def enter_private(*, rootless: bool) -> None:
    """Enter new network and mount namespaces; in a user namespace of our own when `rootless`.

    Inside the user namespace the caller is uid 0; outside it stays who it was. Raises OSError.
    """
    uid, gid = os.geteuid(), os.getegid()
    unshare((CLONE_NEWUSER if rootless else 0) | CLONE_NEWNET | CLONE_NEWNS)
    if rootless:
        Path("/proc/self/setgroups").write_text("deny")  # or the kernel refuses a gid_map from a plain user
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    # What is mounted in the lab stays in the lab.
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None), "mount")


def die_with(starter: int, number: signal.Signals) -> None:
    """Have the kernel send us `number` when `starter`, the process that forked us, ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0), "prctl")
    if os.getppid() != starter:  # it ended before we could ask
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Whoever loses its starter below us becomes ours to wait for, instead of the machine's init's."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def set_name(name: str) -> None:
    """Name of this process in ps and top; at most 15 bytes are kept."""
    _check(_libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0), "prctl")


def close_all_but(keep: tuple[int, ...]) -> None:
    """Descriptors of the starter are none of a copy's business: locks, sockets, namespaces."""
    last = -1
    for descriptor in sorted(keep):
        if last + 1 < descriptor:  # closerange(0, 0) closes everything (CPython 3.11)
            os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def end_all_below() -> None:
    """Kill and reap every process below us until none is left. Call `adopt_orphans` at the start.

    Only processes that we, or those we started, have started can be found here.
    """
    while True:
        for pid in processes_below():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def processes_below() -> list[int]:
    """Those that have us as direct starter. Zombies count: they are not reaped behind our back."""
    me, found = os.getpid(), []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:  # ended just now
                continue
            if int(fields[1]) == me:
                found.append(int(entry))
    return found


def started_at(pid: int) -> int | None:
    """Kernel clock ticks at the start of `pid`: with it a pid names one process for ever. None: no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None
