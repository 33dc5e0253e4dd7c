"""Opens the operators file, and refuses one that others could have written.

Input is a path; output is an open file, or the word of core/carriage/verdicts.py for why there is none. Invariant:
what was checked is what is read: readers get the open file, not the path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

DEFAULT: Final = "/etc/subord/allowed_signers"
FILE_BYTES_MAX: Final = 1 << 20
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class OperatorsFile(NamedTuple):
    """`word`: why it does not count; "": it does, and `descriptor` is open. `detail`: what differs."""

    word: str
    descriptor: int = -1
    identity: tuple[int, ...] = ()
    """Changes whenever the content does."""
    detail: str = ""

    @property
    def path(self) -> str:
        """For programs that inherit the descriptor."""
        return f"/proc/self/fd/{self.descriptor}"


@contextmanager
def opened(path: str, owner: int | None = None) -> Iterator[OperatorsFile]:
    """The file while it is open. `owner`: the user of the daemon, by default of this process."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # the path may be a pipe
    except FileNotFoundError:
        yield OperatorsFile("no_operators", detail="there is no such file")
        return
    except OSError as error:
        yield OperatorsFile("unreadable", detail=error.strerror or str(error))
        return
    try:
        yield _checked(descriptor, os.geteuid() if owner is None else owner)
    finally:
        os.close(descriptor)


def read(file: OperatorsFile) -> str:
    """The text of an open file."""
    data = os.pread(file.descriptor, FILE_BYTES_MAX, 0)
    return data.decode("utf-8", "replace")


def _checked(descriptor: int, owner: int) -> OperatorsFile:
    status = os.fstat(descriptor)
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        return OperatorsFile("unreadable", detail="it is not a regular file")
    if status.st_size > FILE_BYTES_MAX:
        return OperatorsFile("unreadable", detail=f"it is larger than {FILE_BYTES_MAX} bytes")
    if mode & WRITABLE_BY_OTHERS:
        return OperatorsFile("bad_mode", detail=f"its mode is {mode:04o}; chmod 644")
    if status.st_uid not in (0, owner):
        return OperatorsFile("bad_mode", detail=f"it belongs to user {status.st_uid}; chown root")
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return OperatorsFile("", descriptor, identity)
