"""Chunks on the disk: one file each, named by its hash. Every call blocks.

Inputs are chunks and files; outputs are chunks, or files made of them. A chunk is written whole or not at all, and
what is read is checked against its name, so a damaged disk spreads nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX, CHUNKS_MAX, NAME_BYTES
from subord.core.carriage.blobs.manifests import Manifest, ManifestError, Name, decode, name_of
from subord.runtime.blobs.parts import PART_CHUNKS_MAX
from subord.runtime.state.whole import for_the_owner, write_whole

PART: Final = ".part"
CANNOT_WRITE: Final = "the cache of blobs cannot be written"


class BlobError(Exception):
    """A blob cannot be put, fetched or copied. The words say why."""


def reason_of(error: OSError) -> str:
    """Why a chunk is not kept. Without its path, because equal reasons of many nodes travel as one."""
    return f"{CANNOT_WRITE}: {error.strerror or error}"


class Put(NamedTuple):
    """A blob that is on the disk: its name, and its chunks with their sizes."""

    blob: Name
    chunks: tuple[tuple[Name, int], ...]


class ChunkStore:
    """The files of one directory, which is made when it is not there. Raises OSError."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, exist_ok=True)

    def held(self) -> tuple[tuple[Name, int], ...]:
        """The chunks that an earlier process has left, the oldest first. Parts of chunks are deleted."""
        found = []
        for entry in os.scandir(self._directory):
            if entry.name.endswith(PART):
                os.unlink(entry.path)
            elif len(entry.name) == 2 * NAME_BYTES and entry.is_file(follow_symlinks=False):
                status = entry.stat()
                found.append((status.st_mtime, bytes.fromhex(entry.name), status.st_size))
        return tuple((name, size) for _, name, size in sorted(found))

    def _path(self, name: Name) -> Path:
        return self._directory / name.hex()

    def write(self, name: Name, chunk: bytes) -> bool:
        """Keep a chunk; False: it has another name, and is not kept."""
        if name_of(chunk) != name:
            return False
        self._keep(name, chunk)
        return True

    def _keep(self, name: Name, chunk: bytes) -> None:
        write_whole(self._path(name), chunk, PART)

    def read(self, name: Name) -> bytes | None:
        """A chunk; None: it is not there, or damaged."""
        chunk = self._unchecked(name)
        return chunk if chunk is not None and name_of(chunk) == name else None

    def _unchecked(self, name: Name) -> bytes | None:
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return os.read(descriptor, CHUNK_BYTES_MAX + 1)
        finally:
            os.close(descriptor)

    def part(self, blob: Name, first: int) -> list[bytes]:
        """The chunks of a blob from a number on, as many as PART_CHUNKS_MAX; before the first ones its manifest. They
        are not checked; one that is not there is empty. Raises BlobError and OSError."""
        manifest = self._unchecked(blob) or b""
        found = [] if first else [manifest]
        try:
            names = decode(manifest).chunks[first : first + PART_CHUNKS_MAX]
        except ManifestError:
            return found
        return found + [self._unchecked(name) or b"" for name in names]

    def delete(self, name: Name) -> None:
        self._path(name).unlink(missing_ok=True)

    def put(self, path: Path, bytes_max: int) -> Put:
        """Keep the chunks of a file, all or none. Raises BlobError and OSError."""
        new = list[Name]()
        try:
            return self._put(path, bytes_max, new)
        except (BlobError, OSError):
            for name in new:
                self.delete(name)
            raise

    def _put(self, path: Path, bytes_max: int, new: list[Name]) -> Put:
        """`new`: gets the chunks that were not here before."""
        size, chunks = 0, list[tuple[Name, int]]()
        for chunk in _chunks(path):
            size += len(chunk)
            if size > bytes_max or len(chunks) == CHUNKS_MAX:
                raise BlobError(f"{path} is larger than the cache of blobs: raise blobs.cache_bytes_max")
            chunks.append((name_of(chunk), len(chunk)))
            if not self._path(chunks[-1][0]).exists():
                new.append(chunks[-1][0])
            self._keep(chunks[-1][0], chunk)
        manifest = Manifest(size, tuple(name for name, _ in chunks)).encode()
        blob = name_of(manifest)
        self._keep(blob, manifest)
        return Put(blob, (*dict.fromkeys(chunks), (blob, len(manifest))))

    def join(self, data: bytes) -> Put:
        """Make a blob of chunks that are here, by its manifest. Raises BlobError and OSError."""
        try:
            manifest = decode(data)
        except ManifestError as error:
            raise BlobError(f"this is no manifest: {error}") from None
        sizes = [(name, manifest.chunk_bytes(index)) for index, name in enumerate(manifest.chunks)]
        for name, size in sizes:
            if not self._path(name).exists() or self._path(name).stat().st_size != size:
                raise BlobError("a chunk is not here any more: the cache of blobs is too small for it")
        blob = name_of(data)
        self._keep(blob, data)
        return Put(blob, (*dict.fromkeys(sizes), (blob, len(data))))

    def copy(self, blob: Name, path: Path) -> None:
        """Write a blob as a file, whole or not at all. Raises BlobError and OSError."""
        part = path.with_name(path.name + PART)
        try:
            with open(part, "wb", opener=for_the_owner) as file:
                for name in self._manifest(blob).chunks:
                    chunk = self.read(name)
                    if chunk is None:
                        raise BlobError(f"a chunk of {blob.hex()} is not on this node: fetch it again")
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _manifest(self, blob: Name) -> Manifest:
        data = self.read(blob)
        if data is None:
            raise BlobError(f"{blob.hex()} is not on this node: fetch it")
        try:
            return decode(data)
        except ManifestError as error:
            raise BlobError(f"{blob.hex()} is no blob: {error}") from None


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES_MAX):
            yield chunk
