"""Files that are replaced whole: a reader finds the old or the new content, whatever ends on the way."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes, suffix: str = ".new") -> None:
    """With mode 0600, by way of a file with this suffix. Raises OSError: the old content stays, and nothing beside
    it. Blocks."""
    fresh = path.with_suffix(suffix)
    try:
        with open(fresh, "wb", opener=for_the_owner) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise


def for_the_owner(path: str, flags: int) -> int:
    """An opener that sets mode 0600, also on an existing regular file."""
    descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return descriptor
