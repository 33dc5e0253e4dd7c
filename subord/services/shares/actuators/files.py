"""Files of cgroups, read and written by way of the open directory of their group.

A group that is removed and made anew under its name is another group: what is written through the directory of the
first one does not reach the second. All functions raise OSError, with the errno of a group that is gone if it is.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from subord.services.shares.actuators.faults import ActuatorError, is_gone, words_of

READ_BYTES_MAX: Final = 1 << 20
GROUPS_MAX: Final = 1024
"""Of one pattern."""
OnDirectory = Callable[[int], str]
"""What is done in an open directory."""


@contextmanager
def opened(path: str, identity: int = 0) -> Iterator[int]:
    """The directory of a group. With `identity` only the group that has it: another one of this name is not it."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if identity and os.fstat(descriptor).st_ino != identity:
            raise FileNotFoundError(errno.ENOENT, "the group was made anew")
        yield descriptor
    finally:
        os.close(descriptor)


def identity_of(path: str) -> int:
    """Of the group that is there now."""
    return os.stat(path, follow_symlinks=False).st_ino


def read_at(directory: int | None, name: str, bytes_max: int = READ_BYTES_MAX) -> str:
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    with open(descriptor, "rb", buffering=0) as file:
        found = bytearray()
        while len(found) < bytes_max and (part := file.read(bytes_max - len(found))):
            found += part
    return found.decode(errors="replace")


def write_at(directory: int, name: str, text: str) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def number_in(text: str) -> int:
    """Raises OSError: it is none."""
    try:
        return int(text)
    except ValueError:
        raise OSError(errno.EIO, f"{text.strip()[:40]!r} is no number") from None


def matching(top: str, pattern: str) -> list[str]:
    """The paths of groups below the mounted hierarchy, in the order of the alphabet. Raises ActuatorError: too
    many."""
    found = [""]
    for part in pattern.removeprefix("/").split("/"):
        found = [f"{path}/{name}" for path in found for name in _entries(top + path, part)]
        if len(found) > GROUPS_MAX:
            raise ActuatorError(f"more than {GROUPS_MAX} groups match {pattern}: give the group that holds them all")
    return found


def _entries(directory: str, part: str) -> list[str]:
    """The groups directly in one whose names match; names that cannot be printed do not. A group that vanishes
    meanwhile has none. Raises ActuatorError."""
    if not {"*", "?"}.intersection(part):
        return [part] if os.path.isdir(f"{directory}/{part}") else []
    rule = re.compile(fnmatch.translate(part.replace("[", "[[]")))
    try:
        with os.scandir(directory) as entries:
            groups = (each.name for each in entries if each.is_dir(follow_symlinks=False))
            return sorted(name for name in groups if name.isprintable() and rule.match(name))
    except OSError as error:
        if is_gone(error):
            return []
        raise ActuatorError(f"the groups in {directory} cannot be listed: {words_of(error)}") from None
