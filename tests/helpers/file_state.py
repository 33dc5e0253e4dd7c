"""What of a file changes when it is written or replaced, and not when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class FileState(NamedTuple):
    """Times in nanoseconds since 1970. The kernel moves the time of access with a read, so it is left out."""

    inode: int
    mode: int
    size: int
    modified: int
    changed: int


def state_of(path: Path) -> FileState:
    """Of a link itself."""
    found = path.lstat()
    return FileState(found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
