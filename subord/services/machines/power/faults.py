"""The sentences for what libvirt does not do: whose fault it is, what is unchanged, what to do.

Inputs are libvirt's number and words; output is Refused where the same call would fail again, Unavailable where it
may not. Pure.
"""

from __future__ import annotations

import errno
import re
from typing import Final, NamedTuple

from subord.services.machines.power.records import Fault, Refused, Unavailable

# Of libvirt/virterror.h, which never changes a number. Written here, so that this needs no binding.
INTERNAL_ERROR: Final = 1
NO_SUPPORT: Final = 3
OPERATION_FAILED: Final = 9
SYSTEM_ERROR: Final = 38
NO_DOMAIN: Final = 42
AUTH_FAILED: Final = 45
NO_STORAGE_POOL: Final = 49
NO_STORAGE_VOL: Final = 50
OPERATION_INVALID: Final = 55
CONFIG_UNSUPPORTED: Final = 67
OPERATION_TIMEOUT: Final = 68
STORAGE_VOL_EXIST: Final = 90

RIGHTS: Final = frozenset({AUTH_FAILED, 79, 80, 88})
"""Authentication failed, was cancelled, is not there; access denied."""
CONNECTION: Final = frozenset({5, 39})
"""No connection; an error of the remote protocol."""
BROKEN: Final = re.compile(
    r"client socket is closed|connection closed|keepalive|End of file|Broken pipe", re.IGNORECASE
)
FULL: Final = re.compile(r"not enough free space|no space left|insufficient free space|disk quota", re.IGNORECASE)
NEVER: Final = frozenset({NO_SUPPORT, CONFIG_UNSUPPORTED, 8, 27, 28})
"""Not supported, an invalid argument, an error of the XML."""

AGAIN: Final = "what was done before stays; call it again"


class Trouble(NamedTuple):
    """What a libvirtError says."""

    code: int
    words: str
    errno: int = 0


def unopened(uri: str, trouble: Trouble) -> Unavailable:
    """For a connection that could not be opened."""
    said = f"libvirt at {uri} cannot be reached: {trouble.words}; no machine was changed"
    if trouble.code in RIGHTS or trouble.errno in (errno.EACCES, errno.EPERM):
        return Unavailable(Fault.RIGHTS, f"{said}: the agent must be root, or in the group libvirt")
    if trouble.errno == errno.ENOENT:
        return Unavailable(Fault.MISSING, f"{said}: install and start libvirtd there, `systemctl start libvirtd`")
    return Unavailable(Fault.SILENT, f"{said}: start libvirtd there, `systemctl restart libvirtd`")


def failed(doing: str, trouble: Trouble, is_alive: bool = True) -> Refused | Unavailable:
    """`doing`: such as "starting alma-1". `is_alive`: of the connection, afterwards."""
    said = f"{doing}: libvirt says: {trouble.words}"
    if not is_alive or trouble.code in CONNECTION or BROKEN.search(trouble.words):
        return Unavailable(Fault.SILENT, f"{said}; the connection is lost, and whether it was done is not known: "
                           "list the machines, and call it again")  # fmt: skip
    if FULL.search(trouble.words) or trouble.errno == errno.ENOSPC:
        return Refused(f"{said}; the storage is full: delete images or machines there, then call it again")
    if trouble.code in RIGHTS:
        return Unavailable(Fault.RIGHTS, f"{said}; the agent lacks the right: {AGAIN}")
    if trouble.code == OPERATION_TIMEOUT:
        return Unavailable(Fault.SLOW, f"{said}; another call holds the machine: {AGAIN}")
    if trouble.code in NEVER:
        return Refused(f"{said}; this libvirt cannot do it")
    return Unavailable(Fault.FAILED, f"{said}; {AGAIN}")


def slow(doing: str, within: float) -> Unavailable:
    return Unavailable(
        Fault.SLOW,
        f"{doing}: libvirt has not answered for {within:g} s; whether it is done is not known: list the machines, "
        "and call it again",
    )


def waiting(doing: str, within: float) -> Unavailable:
    return Unavailable(
        Fault.SLOW,
        f"{doing}: an earlier call of libvirt, or the connection to it, has not ended for {within:g} s; nothing was "
        "done: call it again",
    )
