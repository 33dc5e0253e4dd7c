"""Output that a node keeps on its disk for a while, because it does not fit a result: one file for each stream.

Inputs are the tag of an order, the user that it ran as, and bytes; outputs are pieces of what is kept. Files are in
`output` below the directory of the agent, and only root may read them. Invariants: one stream takes at most
STREAM_BYTES_MAX, all together at most ALL_BYTES_MAX; the file of a command that runs is not deleted, and counts as
STREAM_BYTES_MAX from its begin. What is older than KEEP_S goes when other output comes. A disk that is full, or other
commands that run, lose output, and end no command.

All functions block; the agent calls them in threads, beside each other.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from contextlib import suppress
from typing import Final, NamedTuple

logger = logging.getLogger("subord")

FOLDER: Final = "output"
KEEP_S: Final = 86_400.0
STREAM_BYTES_MAX: Final = 16 << 20
ALL_BYTES_MAX: Final = 512 << 20
FILES_MAX: Final = 4_096
FILE_MODE: Final = 0o600
_open: Final = set[str]()
"""The paths of sinks that may still write."""
_opening: Final = threading.Lock()
"""Two sinks do not take the same room."""


class _File(NamedTuple):
    written_at: float
    path: str
    size: int


class Sink:
    """The file of one stream, while the command runs. `is_whole`: nothing is lost so far."""

    def __init__(self, directory: str, tag: bytes, uid: int, stream: int) -> None:
        self.is_whole = True
        self._path = path_of(directory, tag, uid, stream)
        self._left = STREAM_BYTES_MAX
        self._descriptor = -1

    def write(self, data: bytes) -> None:
        """Append; what has no room is lost. The file of a stream without output is empty."""
        if not self.is_whole:
            return
        try:
            if self._descriptor < 0:
                self._descriptor = _opened(self._path)
            while data and self._left:
                written = os.write(self._descriptor, data[: self._left])
                data, self._left = data[written:], self._left - written
        except OSError:
            self._left = 0
            self._drop()
        self.is_whole = not data

    def _drop(self) -> None:
        """What is not whole does not take the room of others on a full disk."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.unlink(self._path)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _open.discard(self._path)


def path_of(directory: str, tag: bytes, uid: int, stream: int) -> str:
    """Of the file of a stream. The user is part of the name, so no other user's order finds it."""
    return os.path.join(directory, FOLDER, f"{tag.hex()}-{uid}.{stream}")


def piece(path: str, offset: int, bytes_max: int) -> tuple[int, bytes] | None:
    """The size of what a file of `path_of` keeps, and a piece of it; None: nothing is kept."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.fstat(descriptor).st_size, os.pread(descriptor, bytes_max, offset)
    finally:
        os.close(descriptor)


def make_room(folder: str, now: float) -> bool:
    """Delete what is too old, and the oldest files until one more stream has room; False: those of commands that run,
    or that cannot be deleted, leave none."""
    running = {each for each in tuple(_open) if os.path.dirname(each) == folder}
    files = sorted(each for each in _files(folder) if each.path not in running)
    size = sum(each.size for each in files) + len(running) * STREAM_BYTES_MAX
    count = len(files) + len(running)
    failed: list[OSError] = []
    for each in files:
        if _has_room(size, count) and each.written_at + KEEP_S > now:
            break
        try:
            with suppress(FileNotFoundError):
                os.unlink(each.path)
        except OSError as error:
            failed.append(error)
        else:
            size, count = size - each.size, count - 1
    if failed:
        logger.error("%d files of kept output cannot be deleted; the first: %s", len(failed), failed[0])
    return _has_room(size, count)


def _has_room(size: int, count: int) -> bool:
    return size + STREAM_BYTES_MAX <= ALL_BYTES_MAX and count < FILES_MAX


def _opened(path: str) -> int:
    """A new file, in a directory that only this user can read. Raises OSError."""
    folder = os.path.dirname(path)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    with _opening:
        if not make_room(folder, time.time()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, FILE_MODE)
        _open.add(path)
    return descriptor


def _files(folder: str) -> list[_File]:
    """All files; one that is gone meanwhile is left out."""
    found: list[_File] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for each in entries:
            with suppress(FileNotFoundError):
                status = each.stat(follow_symlinks=False)
                found.append(_File(status.st_mtime, each.path, status.st_size))
    return found
