"""Writes the block of a table into the hosts file of this node.

Inputs are the path, a table and its version; output is notes, or a WritingError. The file is replaced whole by
another one with its mode, owner and attributes. Where that cannot be, because the file is a mount point of its own
(as in containers) or its directory cannot be written, the file is written where it is, once it has room for all of
it. Invariant: what cannot be written whole leaves the file as it was. All functions block.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final, NamedTuple

from subord.services.hosts.block import BlockError, with_table
from subord.services.hosts.table import Table

FILE_BYTES_MAX: Final = 4_194_304
TRIES_MAX: Final = 5
SUFFIX: Final = ".subord-new"
IN_PLACE: Final = frozenset((errno.EBUSY, errno.EXDEV, errno.EROFS, errno.EACCES, errno.EPERM))
"""Errors of a replacement after which the file may still be written where it is."""
NO_FALLOCATE: Final = frozenset((errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS))
ADVICE: Final = {
    errno.ENOENT: "make it, or correct elastic.hosts_file",
    errno.EROFS: "name its directory in ReadWritePaths= of subord-agent.service, or correct elastic.hosts_file",
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
}
OTHER_ADVICE: Final = "let the user of the agent write it, or correct elastic.hosts_file"


class WritingError(Exception):
    """One sentence without a full stop: what is wrong, what was left unchanged, and what to do."""


class _Held(NamedTuple):
    """A file as it was read."""

    content: bytes
    status: os.stat_result


def write(path: str, table: Table, version: int) -> tuple[str, ...]:
    """What is odd in the file, whose block is that of the table now. Raises WritingError."""
    try:
        for _ in range(TRIES_MAX):
            target = os.path.realpath(path)
            held = _read(target)
            fresh = with_table(held.content, table, version)
            if fresh.content == held.content or _replaced(target, held, fresh.content):
                return fresh.notes
    except BlockError as error:
        raise WritingError(f"{path} is unchanged: {error}") from None
    except OSError as error:
        if error.errno == errno.ENOENT and not table.entries:
            return ()
        advice = ADVICE.get(error.errno or 0, OTHER_ADVICE)
        raise WritingError(f"{path} cannot be written, and is unchanged ({error.strerror}): {advice}") from None
    raise WritingError(f"{path} is unchanged: other programs write it all the time; it is tried again")


def _read(target: str) -> _Held:
    """Raises OSError, WritingError."""
    if not stat.S_ISREG(os.stat(target).st_mode):
        raise WritingError(f"{target} is no file, and is unchanged: correct elastic.hosts_file")
    with open(target, "rb") as file:
        status = os.fstat(file.fileno())
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise WritingError(f"{target} has more than {FILE_BYTES_MAX} bytes, and is unchanged: shorten it")
    return _Held(content, status)


def _replaced(target: str, held: _Held, content: bytes) -> bool:
    """Whether the file has the content now; False: another program has changed it meanwhile. Raises OSError,
    WritingError."""
    fresh = target + SUFFIX
    try:
        with suppress(FileNotFoundError):
            os.unlink(fresh)  # of an agent that was killed
        try:
            _write_beside(fresh, held, content)
            if _is_changed(target, held):
                return False
            os.rename(fresh, target)
        finally:
            with suppress(OSError):
                os.unlink(fresh)
    except OSError as error:
        if error.errno not in IN_PLACE:
            raise
        return _written_in_place(target, held, content)
    _sync_directory(os.path.dirname(target))
    return True


def _write_beside(fresh: str, held: _Held, content: bytes) -> None:
    """A file with the mode, the owner and the attributes of the one that it is to replace. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(fresh, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        descriptor = file.fileno()
        own = os.fstat(descriptor)
        if (own.st_uid, own.st_gid) != (held.status.st_uid, held.status.st_gid):
            os.fchown(descriptor, held.status.st_uid, held.status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(held.status.st_mode))
        _copy_attributes(fresh.removesuffix(SUFFIX), descriptor)
        os.fsync(descriptor)


def _copy_attributes(target: str, descriptor: int) -> None:
    """Such as the label by which SELinux lets services read the file; where they can be read and set."""
    with suppress(OSError):
        for name in os.listxattr(target):
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(target, name))


def _is_changed(target: str, held: _Held) -> bool:
    """Raises OSError."""
    now, before = os.stat(target), held.status
    return (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns)


def _sync_directory(path: str) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# -- where it is ----------------------------------------------------------------------------------------------------


def _written_in_place(target: str, held: _Held, content: bytes) -> bool:
    """As `_replaced`. Raises OSError, WritingError."""
    with open(os.open(target, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b", buffering=0) as file:
        if _is_changed(target, held):
            return False
        descriptor = file.fileno()
        _make_room(descriptor, len(held.content), len(content))
        try:
            _fill(descriptor, content)
        except OSError as error:
            _put_back(target, descriptor, held.content, error)
            raise
    return True


def _make_room(descriptor: int, before: int, wanted: int) -> None:
    """Before a byte of the file is changed. Raises OSError."""
    if wanted <= before:
        return
    try:
        os.posix_fallocate(descriptor, before, wanted - before)
    except OSError as error:
        os.ftruncate(descriptor, before)
        if error.errno not in NO_FALLOCATE:
            raise


def _fill(descriptor: int, content: bytes) -> None:
    """Raises OSError."""
    at = 0
    while at < len(content):
        at += os.pwrite(descriptor, content[at:], at)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _put_back(target: str, descriptor: int, content: bytes, why: OSError) -> None:
    """Raises WritingError."""
    try:
        _fill(descriptor, content)
    except OSError:
        text = f"{target} may be damaged: it cannot be written ({why.strerror}), and not put back either"
        raise WritingError(f"{text}: correct it by hand") from None
