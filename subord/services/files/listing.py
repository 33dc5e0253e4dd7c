"""Reads files of this host for a push: what they are, and their contents.

Inputs are paths of files and directories; outputs are entries in the order of their paths, directories first, and the
bytes of the bundle. Links are entries as they are, and never followed. Invariant: a file that changes between its two
readings is an error, so the digests are those of what is sent.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.services.files.manifest import (
    DIGEST_BYTES,
    DIRECTORY,
    ENTRIES_MAX,
    EXTENTS_MAX,
    FILE,
    FILE_BYTES_MAX,
    LINK,
    Entry,
    digest_of,
    shown,
)

NOTHING: Final = "nothing was pushed"
READ_BYTES: Final = 1 << 20
MODE: Final = 0o777
"""Without setuid and setgid, unless owners are kept, too."""


class Listed(NamedTuple):
    """An entry, and where it is on this host."""

    entry: Entry
    source: bytes


def listed(paths: list[bytes], *, keeps_owners: bool) -> list[Listed]:
    """The files and directories at the paths, below the target by their last names. Raises CommandError."""
    found = list[Listed]()
    for path in paths:
        name = os.path.basename(os.path.abspath(path))
        if not name:
            raise CommandError(f"{shown(path)} has no name; {NOTHING}", exit_codes.USAGE)
        found += _walked(path, name, keeps_owners)
        if len(found) > ENTRIES_MAX:
            raise CommandError(f"more than {ENTRIES_MAX} files at once; {NOTHING}", exit_codes.USAGE)
    return found


def _walked(source: bytes, path: bytes, keeps_owners: bool) -> Iterator[Listed]:
    try:
        entry = _entry(source, path, keeps_owners)
        yield Listed(entry, source)
        names = sorted(os.listdir(source)) if entry.kind == DIRECTORY else []
    except OSError as error:
        raise CommandError(f"{shown(source)}: {error.strerror}; {NOTHING}", exit_codes.USAGE) from None
    for name in names:
        yield from _walked(os.path.join(source, name), path + b"/" + name, keeps_owners)


def _entry(source: bytes, path: bytes, keeps_owners: bool) -> Entry:
    """Raises OSError, CommandError."""
    status = os.lstat(source)
    owner, group = _owners(status) if keeps_owners else ("", "")
    mode = stat.S_IMODE(status.st_mode) & (0o7777 if keeps_owners else MODE)
    if stat.S_ISLNK(status.st_mode):
        return Entry(path, LINK, MODE, owner, group, target=os.readlink(source))
    if stat.S_ISDIR(status.st_mode):
        return Entry(path, DIRECTORY, mode, owner, group)
    if not stat.S_ISREG(status.st_mode):
        raise CommandError(f"{shown(source)} is a device, pipe or socket; {NOTHING}", exit_codes.USAGE)
    if status.st_size > FILE_BYTES_MAX:
        raise CommandError(f"{shown(source)} is larger than {FILE_BYTES_MAX} bytes; {NOTHING}", exit_codes.USAGE)
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        extents = tuple(_extents(descriptor, status.st_size))
        if len(extents) > EXTENTS_MAX:
            extents = ((0, status.st_size),)
        digest = digest_of(_pieces(descriptor, 0, status.st_size))
    finally:
        os.close(descriptor)
    return Entry(path, FILE, mode, owner, group, status.st_size, digest, extents)


def _owners(status: os.stat_result) -> tuple[str, str]:
    """By name, where there is one."""
    owner, group = str(status.st_uid), str(status.st_gid)
    with suppress(KeyError):
        owner = pwd.getpwuid(status.st_uid).pw_name
    with suppress(KeyError):
        group = grp.getgrgid(status.st_gid).gr_name
    return owner, group


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """What is no hole."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError:  # there is only a hole
            return
        at = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, min(at, size) - begin


def _pieces(descriptor: int, at: int, size: int) -> Iterator[bytes]:
    """Bytes of a file; fewer if it has become shorter."""
    while size and (piece := os.pread(descriptor, min(size, READ_BYTES), at)):
        at, size = at + len(piece), size - len(piece)
        yield piece


def contents(found: list[Listed]) -> Iterator[bytes]:
    """The contents of all files, in order, without holes. Raises CommandError."""
    for each in found:
        if each.entry.kind == FILE:
            yield from _content(each)


def _content(listed: Listed) -> Iterator[bytes]:
    entry, digest, at = listed.entry, blake2b(digest_size=DIGEST_BYTES), 0
    zeros = bytes(READ_BYTES)
    try:
        descriptor = os.open(listed.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise CommandError(f"{shown(listed.source)}: {error.strerror}; {NOTHING}", exit_codes.USAGE) from None
    try:
        for begin, length in (*entry.extents, (entry.size, 0)):
            while at < begin:
                hole = zeros[: begin - at]
                digest.update(hole)
                at += len(hole)
            for piece in _pieces(descriptor, begin, length):
                digest.update(piece)
                at += len(piece)
                yield piece
    finally:
        os.close(descriptor)
    if digest.digest() != entry.digest:
        raise CommandError(f"{shown(listed.source)} changed while it was read; {NOTHING}", exit_codes.TRY_AGAIN)
