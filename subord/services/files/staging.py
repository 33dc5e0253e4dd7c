"""Makes new files, directories and links under staged names, and compares what is there with what is wanted.

Inputs are entries, the target, and the bundle; outputs are files that are whole, synchronised, and have their owners
and modes. Holes stay holes. Invariant: nothing is made but under staged names, and no symlink is followed.

All functions block.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from subord.services.files.manifest import DIRECTORY, LINK, Entry, digest_of, name_of, shown
from subord.services.files.outcome import MISMATCH, NO_DIRECTORY, NO_USER, FilesError
from subord.services.files.places import Target, kind_of, status_of
from subord.services.files.plan import Found, Made, Plan
from subord.services.files.stream import Stream

READ_BYTES: Final = 1 << 20
MISSING: Final = "missing"
OTHER_KIND: Final = "other kind"
OTHER_CONTENT: Final = "other content"
OTHER_OWNER: Final = "other owner"
OTHER_MODE: Final = "other mode"
"""How a path differs from its entry."""
_ZEROS: Final = bytes(READ_BYTES)
Pause = Callable[[], None]
"""Raises if the work is to end before its time."""


class Owner(NamedTuple):
    uid: int
    gid: int


def owner_of(entry: Entry, own: Owner) -> Owner:
    """Raises FilesError: a name is not known here."""
    return Owner(_uid(entry.owner) if entry.owner else own.uid, _gid(entry.group) if entry.group else own.gid)


def _uid(name: str) -> int:
    return int(name) if name.isdigit() else _number(lambda: pwd.getpwnam(name).pw_uid, name)


def _gid(name: str) -> int:
    return int(name) if name.isdigit() else _number(lambda: grp.getgrnam(name).gr_gid, name)


def _number(look: Callable[[], int], name: str) -> int:
    try:
        return look()
    except (KeyError, ValueError):
        raise FilesError(NO_USER, name) from None


# -- what is there ----------------------------------------------------------------------------------------------


def found(target: Target, entry: Entry, owner: Owner, pause: Pause) -> Found:
    """What is at the path of an entry. Raises FilesError, OSError."""
    try:
        folder = target.above(entry.path)
    except FilesError as error:
        if error.how == NO_DIRECTORY:  # it is made, too
            return Found()
        raise
    kind = kind_of(status_of(name_of(entry.path), folder))
    return Found(kind, not differs(folder, entry, owner, pause))


def differs(folder: int, entry: Entry, owner: Owner, pause: Pause) -> str:
    """How what has the name of an entry in a directory differs from it; "": it does not. Raises OSError, and what
    `pause` raises."""
    name = name_of(entry.path)
    status = status_of(name, folder)
    if status is None:
        return MISSING
    if kind_of(status) != entry.kind:
        return OTHER_KIND
    if entry.kind == LINK:
        is_same = os.readlink(name, dir_fd=folder) == entry.target
    else:
        is_same = entry.kind == DIRECTORY or _has_content(name, folder, entry, pause)
    if not is_same:
        return OTHER_CONTENT
    if (status.st_uid, status.st_gid) != owner:
        return OTHER_OWNER
    return OTHER_MODE if entry.kind != LINK and stat.S_IMODE(status.st_mode) != entry.mode else ""


def _has_content(name: bytes, folder: int, entry: Entry, pause: Pause) -> bool:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        is_like = stat.S_ISREG(status.st_mode) and status.st_size == entry.size
        return is_like and digest_of(_content(descriptor, pause)) == entry.digest
    finally:
        os.close(descriptor)


def _content(descriptor: int, pause: Pause) -> Iterator[bytes]:
    while piece := os.read(descriptor, READ_BYTES):
        pause()
        yield piece


# -- what is made -----------------------------------------------------------------------------------------------


def stage(
    target: Target,
    entries: Iterable[Entry],
    planned: Plan,
    owners: Mapping[bytes, Owner],
    stream: Stream,
    *,
    pause: Pause,
) -> None:
    """Make everything that a plan has new, whole and synchronised with the disk. Raises FilesError, OSError, and what
    `pause` raises."""
    made = {each.entry.path: each for each in planned.made}
    for each in entries:
        pause()
        if each.path in made:
            make(target, made[each.path], owners[each.path], stream, pause)
        else:
            stream.skip(each.carried_bytes)
    for one in reversed(planned.made):
        if one.entry.kind == DIRECTORY:
            finish(target, one.path, one.entry.mode, owners[one.entry.path])
    for folder in dict.fromkeys(each.folder for each in planned.steps):
        os.fsync(target.folder(folder))


def make(target: Target, made: Made, owner: Owner, stream: Stream, pause: Pause) -> None:
    """A directory gets its mode by `finish`, after what is in it. Raises FilesError, OSError."""
    folder, name = target.above(made.path), name_of(made.path)
    match made.entry.kind:
        case "directory":
            os.mkdir(name, 0o700, dir_fd=folder)
        case "link":
            os.symlink(made.entry.target, name, dir_fd=folder)
            os.chown(name, *owner, dir_fd=folder, follow_symlinks=False)
        case "file":
            _make_file((name, folder), made.entry, owner, stream, pause)


def _make_file(place: tuple[bytes, int], entry: Entry, owner: Owner, stream: Stream, pause: Pause) -> None:
    name, folder = place
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        os.ftruncate(descriptor, entry.size)
        if digest_of(_written(descriptor, entry, stream, pause)) != entry.digest:
            raise FilesError(MISMATCH, shown(entry.path))
        _own(descriptor, entry.mode, owner)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _written(descriptor: int, entry: Entry, stream: Stream, pause: Pause) -> Iterator[bytes]:
    """Writes the pieces of a file, and yields its content with zeros for holes."""
    at = 0
    for offset, length in entry.extents:
        yield from _hole(offset - at, pause)
        at = offset
        for piece in stream.pieces(length):
            pause()
            _write(descriptor, piece, at)
            at += len(piece)
            yield piece
    yield from _hole(entry.size - at, pause)


def _hole(size: int, pause: Pause) -> Iterator[bytes]:
    while size > 0:
        pause()
        yield _ZEROS[:size]
        size -= READ_BYTES


def _write(descriptor: int, piece: bytes, at: int) -> None:
    view = memoryview(piece)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def _own(descriptor: int, mode: int, owner: Owner) -> None:
    """The owner first: a change of it takes setuid away."""
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != owner:
        os.fchown(descriptor, *owner)
    os.fchmod(descriptor, mode)


def finish(target: Target, path: bytes, mode: int, owner: Owner) -> None:
    """Give a directory its owner and mode, and make its names durable. Raises FilesError, OSError."""
    folder = target.folder(path)
    _own(folder, mode, owner)
    os.fsync(folder)
