"""What is in an archive (tar, POSIX), before anything of it is unpacked. Blocks.

Input is a file; outputs are the number of its members, or FilesError. Invariants: an archive that is taken has
nothing but files, directories and symbolic links, with paths below the directory where it is unpacked, and within the
limits; at most HEADER_BYTES_MAX of it are in memory.
"""

from __future__ import annotations

from typing import BinaryIO, Final

from subord.services.transfer.data.listing import LARGE, WRONG, FilesError, shown

BLOCK: Final = 512
HEADER_BYTES_MAX: Final = 64 << 10
_FILES: Final = frozenset((b"0", b"\0"))
_LINK, _DIRECTORY, _EXTENDED = b"2", b"5", b"x"
_RIGHTS: Final = 0o6000
_TOP: Final = 1 << 63


def demand_tame(file: BinaryIO, bytes_max: int, files_max: int) -> int:
    """How many members it has. Raises FilesError, OSError."""
    members = total = 0
    extended: dict[bytes, bytes] = {}
    while block := file.read(BLOCK):
        if not block.strip(b"\0"):
            return members
        if len(block) != BLOCK or block[257:262] != b"ustar":
            raise FilesError("the archive is none", WRONG)
        kind, size = block[156:157], _number(extended.get(b"size"), block[124:136])
        if kind == _EXTENDED:
            extended = _extended(file, size)
            continue
        path = extended.get(b"path") or _path(block)
        extended = {}
        members += 1
        total += size
        _demand_member(path, kind, int(_octal(block[100:108])), size)
        if members > files_max or total > bytes_max:
            raise FilesError(f"the archive has more than {files_max} files or {bytes_max} bytes", LARGE)
        file.seek(-(-size // BLOCK) * BLOCK, 1)
    raise FilesError("the archive ends early", WRONG)


def _demand_member(path: bytes, kind: bytes, mode: int, size: int) -> None:
    if kind not in _FILES and kind not in (_LINK, _DIRECTORY):
        raise FilesError(f"{shown(path)} in the archive is no file or directory", WRONG)
    if kind in _FILES and mode & _RIGHTS:
        raise FilesError(f"{shown(path)} in the archive gives its rights to others", WRONG)
    if kind not in _FILES and size:
        raise FilesError(f"{shown(path)} in the archive has content, and is no file", WRONG)
    if path.startswith(b"/") or b".." in path.split(b"/"):
        raise FilesError(f"{shown(path)} in the archive is outside of the working directory", WRONG)


def _path(block: bytes) -> bytes:
    prefix, name = block[345:500].rstrip(b"\0"), block[:100].rstrip(b"\0")
    return prefix + b"/" + name if prefix else name


def _octal(field: bytes) -> int:
    text = field.strip(b"\0 ")
    try:
        return int(text or b"0", 8)
    except ValueError:
        raise FilesError("the archive has a number that is none", WRONG) from None


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
    found = {}
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or len(length) > 6 or not len(length) + 2 < int(length) <= len(data):
            raise FilesError("the archive has a header that is none", WRONG)
        name, _, value = rest[: int(length) - len(length) - 2].partition(b"=")
        found[name] = value
        data = data[int(length) :]
    if any(each.startswith(b"GNU.sparse") for each in found):
        raise FilesError("the archive has a file with holes", WRONG)
    return found
