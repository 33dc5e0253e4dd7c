"""What is in an archive (tar, POSIX), before anything of it is unpacked. Blocks.

Input is a file; outputs are the directories into which it is unpacked, or FilesError. Invariants: an archive that is
taken has nothing but files, directories and symbolic links, with paths below the directory where it is unpacked, none
of them through a link of the archive, and within the limits; what tar could read in another way is refused; at most
HEADER_BYTES_MAX of it, and DIRECTORIES_BYTES_MAX of paths, are in memory.
"""

from __future__ import annotations

import re
from typing import BinaryIO, Final

from subord.services.transfer.data.listing import LARGE, WRONG, FilesError, shown, tidy

BLOCK: Final = 512
HEADER_BYTES_MAX: Final = 64 << 10
PATH_BYTES_MAX: Final = 4096
"""PATH_MAX of Linux."""
DIRECTORIES_BYTES_MAX: Final = 64 << 20
_OVERHEAD_BYTES: Final = 100
"""Of each directory in memory."""
_END_BLOCKS: Final = 20
"""tar fills up its last record with zeros."""
_MAGIC: Final = b"ustar\0"
_FILES: Final = frozenset((b"0", b"\0"))
_LINK, _DIRECTORY, _EXTENDED = b"2", b"5", b"x"
_RIGHTS: Final = 0o6000
_TOP: Final = 1 << 63
_NUMBER: Final = re.compile(rb" *([0-7]*)[ \0]*")


def demand_tame(file: BinaryIO, bytes_max: int, files_max: int) -> frozenset[bytes]:
    """The directories of its members, with those above them, each beginning with `./`; some may be members, too.
    Raises FilesError, OSError."""
    members = total = 0
    extended: dict[bytes, bytes] = {}
    found = _Directories()
    while block := file.read(BLOCK):
        if not block.strip(b"\0"):
            if extended or file.read(_END_BLOCKS * BLOCK).strip(b"\0"):
                raise FilesError("the archive has something behind its end", WRONG)
            return found.checked()
        if len(block) != BLOCK or block[257:263] != _MAGIC:
            raise FilesError("the archive is none", WRONG)
        kind, size = block[156:157], _number(extended.get(b"size"), block[124:136])
        if kind == _EXTENDED and not extended:
            extended = _extended(file, size)
            continue
        path = extended.get(b"path") or _path(block)
        extended = {}
        members += 1
        total += size
        _demand_member(path, kind, _octal(block[100:108]), size)
        if members > files_max or total > bytes_max:
            raise FilesError(f"the archive has more than {files_max} files or {bytes_max} bytes", LARGE)
        found.add(tidy(path), is_link=kind == _LINK)
        file.seek(-(-size // BLOCK) * BLOCK, 1)
    raise FilesError("the archive ends early", WRONG)


class _Directories:
    """Those above members, and the links of the archive."""

    def __init__(self) -> None:
        self._above = set[bytes]()
        self._links = set[bytes]()
        self._bytes = 0

    def add(self, path: bytes, *, is_link: bool) -> None:
        """Raises FilesError."""
        if is_link:
            self._links.add(path)
        above = path.rpartition(b"/")[0]
        while above != b"." and above not in self._above:
            self._above.add(above)
            self._bytes += len(above) + _OVERHEAD_BYTES
            if self._bytes > DIRECTORIES_BYTES_MAX:
                raise FilesError("the archive has too many directories", LARGE)
            above = above.rpartition(b"/")[0]

    def checked(self) -> frozenset[bytes]:
        """Raises FilesError."""
        if through := self._above & self._links:
            raise FilesError(f"{shown(min(through))} in the archive is a link, and has files in it", WRONG)
        return frozenset(self._above)


def _demand_member(path: bytes, kind: bytes, mode: int, size: int) -> None:
    if kind not in _FILES and kind not in (_LINK, _DIRECTORY):
        raise FilesError(f"{shown(path)} in the archive is no file or directory", WRONG)
    if kind in _FILES and mode & _RIGHTS:
        raise FilesError(f"{shown(path)} in the archive gives its rights to others", WRONG)
    if kind not in _FILES and size:
        raise FilesError(f"{shown(path)} in the archive has content, and is no file", WRONG)
    if kind != _DIRECTORY and path.endswith(b"/"):
        raise FilesError(f"{shown(path)} in the archive has the name of a directory, and is none", WRONG)
    if path.startswith(b"/") or b".." in path.split(b"/"):
        raise FilesError(f"{shown(path)} in the archive is outside of the working directory", WRONG)
    if b"\0" in path or len(path) > PATH_BYTES_MAX or tidy(path) == b"./":
        raise FilesError(f"{shown(path)!r} in the archive is no path of a file", WRONG)


def _path(block: bytes) -> bytes:
    prefix, name = block[345:500].partition(b"\0")[0], block[:100].partition(b"\0")[0]
    return prefix + b"/" + name if prefix else name


def _octal(field: bytes) -> int:
    match = _NUMBER.fullmatch(field)
    if match is None:
        raise FilesError("the archive has a number that is none", WRONG)
    return int(match[1] or b"0", 8)


def _number(extended: bytes | None, field: bytes) -> int:
    if extended is None:
        return _octal(field)
    if not extended.isdigit() or int(extended) >= _TOP:
        raise FilesError("the archive has a number that is none", WRONG)
    return int(extended)


def _extended(file: BinaryIO, size: int) -> dict[bytes, bytes]:
    """What the header before a member says of it: lines of a length, a name and a value."""
    if size > HEADER_BYTES_MAX:
        raise FilesError("the archive has a path that is too long", WRONG)
    data = file.read(-(-size // BLOCK) * BLOCK)[:size]
    found = dict[bytes, bytes]()
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or len(length) > 6 or not len(length) + 2 < int(length) <= len(data):
            raise FilesError("the archive has a header that is none", WRONG)
        line = rest[: int(length) - len(length) - 1]
        name, equals, value = line[:-1].partition(b"=")
        if not equals or not line.endswith(b"\n"):
            raise FilesError("the archive has a header that is none", WRONG)
        found[name] = value
        data = data[int(length) :]
    if any(each.startswith(b"GNU.sparse") for each in found):
        raise FilesError("the archive has a file with holes", WRONG)
    if not found:
        raise FilesError("the archive has a header that is none", WRONG)
    return found
