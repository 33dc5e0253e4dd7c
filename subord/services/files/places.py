"""Directories below a target, opened part by part, so that no symlink leads out of it.

Inputs are paths; outputs are descriptors of directories, and what stands at a path. Each part is opened relative to
the one above (openat(2)) and never through a symlink. Invariant: what is done with a name and the descriptor of its
directory happens in this directory, whatever other processes rename meanwhile.

All functions block.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self

from subord.services.files.manifest import DIRECTORY, FILE, LINK, parent_of, shown
from subord.services.files.outcome import NOT_A_DIRECTORY, SYMLINK, FilesError, word_for
from subord.services.files.plan import NOTHING, OTHER

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Target:
    """The target directory and those below it. The last one that was used stays open."""

    def __init__(self, to: bytes) -> None:
        """Raises FilesError: it is not there, or its path has a symlink."""
        self.to = b"/" + to.strip(b"/")
        top = os.open(b"/", _FLAGS)
        try:
            self._top = _opened(top, self.to.strip(b"/"), self.to)
        finally:
            os.close(top)
        self._last = b""
        self._descriptor = os.dup(self._top)

    @property
    def place(self) -> tuple[int, int]:
        """Device and number of the target directory. Raises OSError."""
        status = os.fstat(self._top)
        return status.st_dev, status.st_ino

    def folder(self, path: bytes) -> int:
        """The descriptor of a directory below the target, b"": of the target; it is valid until the next call.
        Raises FilesError."""
        if path != self._last:
            found = _opened(self._top, path, self.full(path))
            os.close(self._descriptor)
            self._last, self._descriptor = path, found
        return self._descriptor

    def above(self, path: bytes) -> int:
        """Of the directory in which a path stands."""
        return self.folder(parent_of(path))

    def full(self, path: bytes) -> bytes:
        """The path from the root of the file system."""
        return self.to.rstrip(b"/") + b"/" + path if path else self.to

    def close(self) -> None:
        os.close(self._descriptor)
        os.close(self._top)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def status_of(name: bytes, folder: int) -> os.stat_result | None:
    """Of the name itself, also if it is a symlink; None: nothing has the name."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def kind_of(status: os.stat_result | None) -> str:
    """As plans name it."""
    if status is None:
        return NOTHING
    for test, kind in ((stat.S_ISREG, FILE), (stat.S_ISDIR, DIRECTORY), (stat.S_ISLNK, LINK)):
        if test(status.st_mode):
            return kind
    return OTHER


def remove(name: bytes, folder: int) -> None:
    """Delete a file, a link, or a directory with all that is in it, if it is there. Raises OSError."""
    if status_of(name, folder) is None:  # a read-only file system refuses to delete also what is not there
        return
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        shutil.rmtree(name, dir_fd=folder)


@contextmanager
def named(place: bytes) -> Iterator[None]:
    """Errors of the system become words of outcome.py, with the place as detail, unless the error has a path of its
    own. Staged names are no paths: each node has others, and outcomes that differ do not travel as one."""
    try:
        yield
    except OSError as error:
        raise FilesError(word_for(error), detail_of(error, place)) from None


def detail_of(error: OSError, place: bytes) -> str:
    """`/srv: No space left on device`."""
    where = error.filename if isinstance(error.filename, str) else shown(place)
    return f"{where}: {error.strerror or error}"


def sync(folder: int) -> None:
    """Make the names of a directory durable."""
    os.fsync(folder)


def _opened(above: int, path: bytes, full: bytes) -> int:
    """The directory at a relative path. Raises FilesError."""
    found = os.dup(above)
    for part in filter(None, path.split(b"/")):
        try:
            below = os.open(part, _FLAGS, dir_fd=found)
        except OSError as error:
            raise FilesError(_word(part, found, error), shown(full)) from None
        finally:
            os.close(found)
        found = below
    return found


def _word(part: bytes, folder: int, error: OSError) -> str:
    with suppress(OSError):
        kind = kind_of(status_of(part, folder))
        if kind == LINK:
            return SYMLINK
        if kind not in (DIRECTORY, NOTHING):
            return NOT_A_DIRECTORY
    return word_for(error)
