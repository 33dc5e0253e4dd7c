"""Which files of a job go along, and which are results. Pure.

Inputs are the words of the user, and what find(1) prints of a directory; outputs are paths and sentences. A result is
a file that was not there before, or whose inode, size or times are others; times are compared for equality only, so
clocks of file servers do not matter. Invariants: a path is below the working directory; nothing but files,
directories and symbolic links crosses, and no file that gives rights (setuid, setgid).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

VARIABLE: Final = "SUBORD_FILES"
"""In the environment of a job: paths below the working directory, with colons between them; "": none. Without it, the
whole working directory goes along."""
PATHS_MAX: Final = 256
FORMAT: Final = r"%y %m %s %i %T@ %C@ %p\0"
"""Of find."""
_LINE: Final = re.compile(rb"(\w) ([0-7]+) (\d+) (\d+ \S+ \S+) (\./.+)", re.DOTALL)
_PLAIN: Final = frozenset(b"fdl")
_RIGHTS: Final = 0o6000


class Entry(NamedTuple):
    """`kind`: as find has it. `stamp`: changes whenever the file does."""

    kind: bytes
    mode: int
    size: int
    stamp: bytes

    @property
    def is_plain(self) -> bool:
        """It may cross."""
        return self.kind[0] in _PLAIN and not (self.kind == b"f" and self.mode & _RIGHTS)


Entries = Mapping[bytes, Entry]
"""By path, which begins with `./`."""


class FilesError(Exception):
    """Why files do not cross. A clause without a full stop. `cause`: one of CAUSES."""

    def __init__(self, text: str, cause: str) -> None:
        super().__init__(text)
        self.cause = cause


LARGE: Final = "large"
CHANGED: Final = "changed"
DENIED: Final = "denied"
"""The user has no right to read or write."""
DISK: Final = "disk"
KIND: Final = "kind"
"""A device, a socket, a pipe, or a file that gives rights."""
WRONG: Final = "wrong"
"""What the other cluster has sent is no such archive."""
LOST: Final = "lost"
"""The archive is not there any more, or never came."""
OTHER: Final = "other"
CAUSES: Final = (LARGE, CHANGED, DENIED, DISK, KIND, WRONG, LOST, OTHER)


def paths_in(environment: Iterable[tuple[str, str]]) -> tuple[str, ...] | None:
    """What the user wants to go along, each beginning with `./`. None: all. Raises FilesError."""
    text = dict(environment).get(VARIABLE)
    if text is None:
        return None
    found = [each for each in text.split(":") if each]
    if len(found) > PATHS_MAX:
        raise FilesError(f"{VARIABLE} has {len(found)} paths, and may have {PATHS_MAX}", LARGE)
    for each in found:
        if each.startswith("/") or ".." in each.split("/"):
            raise FilesError(f"{each[:100]} of {VARIABLE} is not below the working directory", OTHER)
    return tuple(f"./{each}" for each in found)


def entries_in(output: bytes) -> dict[bytes, Entry]:
    """What find has printed. The working directory itself is left out. Raises FilesError."""
    found = {}
    for line in output.split(b"\0")[:-1]:
        match = _LINE.fullmatch(line)
        if match is None:
            if line.endswith((b" .", b" ./")):
                continue
            raise FilesError(f"find has printed what is no line: {line[:60]!r}", OTHER)
        kind, mode, size, stamp, path = match.groups()
        found[tidy(path)] = Entry(kind, int(mode, 8), int(size), stamp)
    return found


def tidy(path: bytes) -> bytes:
    """With `./` before it, and without empty parts."""
    parts = [each for each in path.split(b"/") if each not in (b"", b".")]
    return b"./" + b"/".join(parts)


def size_of(entries: Entries) -> int:
    """What the files have together, in bytes."""
    return sum(each.size for each in entries.values() if each.kind == b"f")


def demand_sendable(entries: Entries, bytes_max: int, files_max: int) -> int:
    """The sum of their sizes. Raises FilesError: they do not cross."""
    total = size_of(entries)
    if len(entries) > files_max:
        raise FilesError(f"there are {len(entries)} files, and at most {files_max} may cross", LARGE)
    if total > bytes_max:
        raise FilesError(f"the files have {total} bytes, and at most {bytes_max} may cross", LARGE)
    for path, each in entries.items():
        if not each.is_plain:
            what = "gives its rights to others (setuid or setgid)" if each.kind == b"f" else "is no file or directory"
            raise FilesError(f"{shown(path)} {what}", KIND)
    return total


def results(before: Entries, now: Entries) -> dict[bytes, Entry]:
    """What is new or has changed, and may cross."""
    return {path: each for path, each in now.items() if each.is_plain and _is_new(before.get(path), each)}


def left_out(before: Entries, now: Entries) -> int:
    """How many are new or have changed, and may not cross."""
    return sum(not each.is_plain and _is_new(before.get(path), each) for path, each in now.items())


def _is_new(before: Entry | None, now: Entry) -> bool:
    if before is None or before.kind != now.kind:
        return True
    return now.kind != b"d" and before != now


def shown(path: bytes) -> str:
    """Of a message."""
    return path[:100].decode("utf-8", "replace").removeprefix("./")
