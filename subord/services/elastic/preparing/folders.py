"""Directories that are made for homes and mounts, whatever the mask of the agent's unit. All functions block."""

from __future__ import annotations

import os
from contextlib import suppress


def make_folders(path: str) -> None:
    """A directory with those above it that are missing; all users may enter. Raises OSError."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above != path:
        make_folders(above)
    os.mkdir(path)
    os.chmod(path, 0o755)  # noqa: S103 - users have to reach what is below; the mask of the unit is 0077


def make_home(path: str, uid: int, gid: int) -> bool:
    """Whether there was none. It has its owner from the moment on at which it is there, so after a death on the way
    it is not taken for one that is done. What is in /etc/skel is not copied. Raises OSError."""
    if os.path.lexists(path):
        return False
    above, name = os.path.split(path)
    make_folders(above)
    fresh = os.path.join(above, f".{name}.subord-new")
    with suppress(FileExistsError):
        os.mkdir(fresh, 0o700)
    place = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(place, uid, gid)
        os.fchmod(place, 0o700)
        os.fsync(place)
    finally:
        os.close(place)
    os.rename(fresh, path)
    return True
