"""What a push has begun on this node, on the disk of the agent, so that a later process undoes or finishes it.

Input are the steps of a push and how far it is; output is a file for each push, in `files` below the directory of
the agent. STAGING: staged names may be there, nothing is visible. ACTIVATING: all is staged, and renames have begun.
AFTER: all is visible, and the command after it may have begun. Invariant: a record is on the disk before what it says
is done.

All functions block.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Final

import msgspec

from subord.core.decoding import UNREADABLE

logger = logging.getLogger("subord")

FOLDER: Final = "files"
STAGING: Final = "staging"
ACTIVATING: Final = "activating"
AFTER: Final = "after"
RECORD_BYTES_MAX: Final = 64 << 20
ANY_PLACE: Final = (0, 0)
_PART: Final = ".part"


class Adjusted(msgspec.Struct, frozen=True, array_like=True):
    """A directory that is there and gets this mode and owner."""

    path: bytes
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
    uid: int
    gid: int


class Record(msgspec.Struct, frozen=True, array_like=True):
    """`steps`: folder, staged name and final name of each rename. `environment`: of the command `after`. `place`:
    device and number of the target directory; ANY_PLACE: of a release that did not note it."""

    state: str
    to: bytes
    steps: tuple[tuple[bytes, bytes, bytes], ...]
    adjusted: tuple[Adjusted, ...]
    after: str
    environment: tuple[tuple[bytes, bytes], ...]
    place: tuple[int, int] = ANY_PLACE


_decoder = msgspec.msgpack.Decoder(Record)
_encode = msgspec.msgpack.Encoder().encode


class Records:
    """The records of one agent. Raises OSError."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, FOLDER)

    def write(self, tag: bytes, record: Record) -> None:
        """Whole or not at all."""
        with suppress(FileExistsError):
            os.mkdir(self._directory, 0o700)
        write_whole(self._path(tag), _encode(record))

    def drop(self, tag: bytes) -> None:
        """It is over, also after a power failure."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(tag))
            _sync(self._directory)

    def age_s(self, tag: bytes) -> float | None:
        """Since it was written; None: it is not there, or cannot be looked at."""
        try:
            return time.time() - os.stat(self._path(tag)).st_mtime
        except OSError:
            return None

    def count(self) -> int:
        """How many there are, with those that cannot be read."""
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            return sum(each.is_file(follow_symlinks=False) for each in entries)
        return 0

    def left(self) -> Iterator[tuple[bytes, Record]]:
        """Those of earlier processes. One that cannot be read is logged and left."""
        try:
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return
        except OSError as error:
            logger.error("the records of pushes cannot be read: %s", error)
            return
        for name in names:
            path = os.path.join(self._directory, name)
            if os.path.isdir(path):  # of sets
                continue
            if name.endswith(_PART):
                with suppress(OSError):
                    os.unlink(path)
                continue
            try:
                with open(path, "rb") as file:
                    found = bytes.fromhex(name), _decoder.decode(file.read(RECORD_BYTES_MAX))
            except (OSError, *UNREADABLE) as error:
                logger.error("%s cannot be read, and is left: %s", path, error)
                continue
            yield found

    def _path(self, tag: bytes) -> str:
        return os.path.join(self._directory, tag.hex())


def write_whole(path: str, data: bytes) -> None:
    """Write a file that is on the disk when this returns, whole or not at all. Raises OSError, which names the
    directory."""
    folder = os.path.dirname(path)
    try:
        _write_part(path + _PART, data)
        os.replace(path + _PART, path)
        _sync(folder)
    except OSError as error:
        with suppress(OSError):
            os.unlink(path + _PART)
        raise OSError(error.errno, error.strerror, folder) from None


def _write_part(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync(folder: str) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
