"""Archives on the disk of the transfer host, and what it knows of working directories that it has made. Blocks.

Each job has at most one archive of each kind; the list of its chunks is in a file beside it, which is there only when
the archive is whole. Inputs are keys and files; outputs are chunks. Invariants: nothing here is of another user than
that of the agent; what an earlier process has left is found again, or removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.core.carriage.blobs.manifests import Manifest, ManifestError, decode, name_of
from subord.runtime.state.whole import for_the_owner, write_whole
from subord.services.transfer.data.listing import DISK, WRONG, FilesError
from subord.services.transfer.jobs import Key, key_of

FOLDER: Final = "transfer/files"
PACKED, FETCHED = "packed", "fetched"
"""Kinds of archives: made here, and got from the other cluster."""
LIST: Final = ".chunks"
NEW: Final = ".new"
RESERVE_BYTES: Final = 16 << 20
"""Room on the disk that archives leave for the records."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A working directory that was made for a job of the other cluster. `user`: of this one. `is_ready`: the files of
    the job are there. `ended_at`: since when nothing is known of the job, in seconds since 1970; 0: it is.
    `is_over`: nobody needs the directory any more."""

    key: Key
    user: str
    directory: str
    is_ready: bool = False
    ended_at: float = 0.0
    is_over: bool = False


class DiskUse(NamedTuple):
    """In bytes. `free`: for which there is room."""

    used: int
    free: int


class Spool:
    """The files below a directory of the agent. Raises OSError, as each call."""

    def __init__(self, state: Path) -> None:
        self.folder = state / FOLDER
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in self.folder.iterdir():
            if each.suffix == NEW:
                each.unlink()

    def path(self, key: Key, kind: str) -> Path:
        return self.folder / f"{key.mark}.{kind}"

    def keys(self, kind: str) -> Iterator[Key]:
        """Of the jobs that have such a file, whole or not."""
        for each in self.folder.glob(f"*.{kind}"):
            if (key := key_of(each.name.removesuffix(f".{kind}"))) is not None:
                yield key

    def disk_use(self) -> DiskUse:
        """Of all archives."""
        sizes = (each.stat().st_size for kind in (PACKED, FETCHED) for each in self.folder.glob(f"*.{kind}"))
        return DiskUse(sum(sizes), self._free())

    def _free(self) -> int:
        found = os.statvfs(self.folder)
        return max(0, found.f_bavail * found.f_frsize - RESERVE_BYTES)

    def demand_room(self, size: int) -> None:
        """For so many more bytes, and for the records. Raises FilesError."""
        free = self._free()
        if size > free:
            raise FilesError(f"the transfer host has room for {free} bytes of files, and {size} are needed", DISK)

    @contextmanager
    def opened(self, key: Key, kind: str, size: int) -> Iterator[BinaryIO]:
        """To be written anew, with about so many bytes; it is removed if that fails. Raises FilesError."""
        self.remove(key, kind)
        self.demand_room(size)
        try:
            with open(self.path(key, kind), "w+b", opener=for_the_owner) as file:
                yield file
        except BaseException:
            with suppress(OSError):
                self.remove(key, kind)
            raise

    def remove(self, key: Key, *kinds: str) -> None:
        for kind in kinds:
            path = self.path(key, kind)
            path.unlink(missing_ok=True)
            path.with_name(path.name + LIST).unlink(missing_ok=True)

    # -- chunks -----------------------------------------------------------------------------------------------------

    def seal(self, key: Key, kind: str) -> bytes:
        """The archive is whole: the list of its chunks. Raises FilesError."""
        names, size = [], 0
        with self.path(key, kind).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES_MAX):
                names.append(name_of(chunk))
                size += len(chunk)
            os.fsync(file.fileno())
        listed = Manifest(size, tuple(names)).encode()
        self.keep_list(key, kind, listed)
        return listed

    def keep_list(self, key: Key, kind: str, listed: bytes) -> None:
        path = self.path(key, kind)
        write_whole(path.with_name(path.name + LIST), listed, NEW)

    def listed(self, key: Key, kind: str) -> bytes | None:
        """None: there is no whole archive."""
        path = self.path(key, kind)
        try:
            return path.with_name(path.name + LIST).read_bytes()
        except FileNotFoundError:
            return None

    def chunks(self, key: Key, kind: str, first: int, count: int) -> bytes:
        """One after the other; those beyond the end are left out."""
        with self.path(key, kind).open("rb") as file:
            file.seek(first * CHUNK_BYTES_MAX)
            return file.read(count * CHUNK_BYTES_MAX)

    def good(self, key: Key, kind: str, listed: Manifest) -> int:
        """How many chunks of a part of an archive are as they should be; what is behind them is cut off."""
        count = 0
        with open(self.path(key, kind), "a+b", opener=for_the_owner) as file:
            file.seek(0)
            for name in listed.chunks:
                if name_of(file.read(listed.chunk_bytes(count))) != name:
                    break
                count += 1
            file.truncate(min(count * CHUNK_BYTES_MAX, listed.size))
        return count

    def add(self, key: Key, kind: str, listed: Manifest, first: int, content: bytes) -> int:
        """Chunks behind those that are there: how many were added. Raises FilesError: they are others, or have no
        room."""
        self.demand_room(len(content))
        count = 0
        with open(self.path(key, kind), "r+b") as file:
            file.seek(first * CHUNK_BYTES_MAX)
            for begin in range(0, len(content), CHUNK_BYTES_MAX):
                chunk = content[begin : begin + CHUNK_BYTES_MAX]
                if first + count >= len(listed.chunks) or name_of(chunk) != listed.chunks[first + count]:
                    raise FilesError("the other cluster has sent other content than it has named", WRONG)
                file.write(chunk)
                count += 1
            file.flush()
            os.fsync(file.fileno())
        return count

    # -- working directories ----------------------------------------------------------------------------------------

    def keep_place(self, place: Place) -> None:
        write_whole(self.path(place.key, "place"), msgspec.json.encode(place), NEW)

    def places(self) -> list[Place]:
        """What is damaged is left out, and removed."""
        found = []
        for key in list(self.keys("place")):
            path = self.path(key, "place")
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Place))
            except msgspec.MsgspecError:
                path.unlink()
        return found

    def drop_place(self, key: Key) -> None:
        """And all archives of the job that came."""
        self.path(key, "before").unlink(missing_ok=True)
        self.remove(key, PACKED, FETCHED)
        self.path(key, "place").unlink(missing_ok=True)

    def keep_before(self, key: Key, printed: bytes) -> None:
        write_whole(self.path(key, "before"), printed, NEW)

    def before(self, key: Key) -> bytes:
        with suppress(FileNotFoundError):
            return self.path(key, "before").read_bytes()
        return b""


def manifest_in(listed: bytes, bytes_max: int) -> Manifest:
    """Raises FilesError."""
    try:
        found = decode(listed)
    except ManifestError:
        raise FilesError("the other cluster has sent no list of chunks", WRONG) from None
    if found.size > bytes_max:
        raise FilesError(f"the archive has {found.size} of at most {bytes_max} bytes", WRONG)
    return found


def disk_fault(error: OSError) -> FilesError:
    """Of the directory of the agent."""
    return FilesError(f"the transfer host cannot keep the files: {error.strerror or error}", DISK)
