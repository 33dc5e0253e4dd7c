"""Errors of files of the kernel, in words for an operator.

Input is an OSError; output is a clause that says what is wrong and what to do.
"""

from __future__ import annotations

import errno
from typing import Final

GONE: Final = frozenset((errno.ENOENT, errno.ENODEV, errno.ENOTDIR))
"""Of a file of a group that was removed; of one that is open, the second."""
_REMEDIES: Final = {
    errno.EACCES: "no permission: the agent must run as root",
    errno.EPERM: "no permission: the agent must run as root, and in a container it needs the right to set cgroups",
    errno.EROFS: "the cgroup file system is read-only here: set ProtectControlGroups=no in the unit of the agent, or "
    "mount it writable in the container",
    errno.EINVAL: "the kernel does not take this value: if the group is idle (cpu.idle is 1), write 0 to its "
    "cpu.idle",
    errno.EBUSY: "the kernel is busy with it: try again",
}


class ActuatorError(Exception):
    """One sentence without a full stop: what is wrong, what was left unchanged, and what to do."""


class NoControllerError(OSError):
    """The group is there, but its weight cannot be set."""


def words_of(error: OSError) -> str:
    """What is wrong, and what to do."""
    if isinstance(error, NoControllerError):
        return str(error)
    return _REMEDIES.get(error.errno or 0) or error.strerror or str(error)


def is_gone(error: OSError) -> bool:
    """Whether the group was removed."""
    return error.errno in GONE and not isinstance(error, NoControllerError)
