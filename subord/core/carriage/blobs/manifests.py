"""Names of chunks and blobs, and the manifest that lists the chunks of a blob.

A chunk is named by its hash (BLAKE2b, 32 bytes). The manifest of a blob is a chunk as well: the size of the blob and
the names of its chunks in order. The name of the manifest is the name of the blob. Each chunk that arrives is checked
against a name that the receiver already has, so the sender need not be trusted.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX, CHUNKS_MAX, NAME_BYTES

Name = bytes
_SIZE_BYTES: Final = 8


class ManifestError(Exception):
    """Bytes that are no manifest."""


class Manifest(NamedTuple):
    """`size`: of the blob in bytes. All chunks but the last are full."""

    size: int
    chunks: tuple[Name, ...]

    def encode(self) -> bytes:
        return self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self.chunks)

    def chunk_bytes(self, index: int) -> int:
        """The size of a chunk."""
        return min(CHUNK_BYTES_MAX, self.size - index * CHUNK_BYTES_MAX)


def name_of(chunk: bytes) -> Name:
    """The name of a chunk. It takes a millisecond for a full one: not on an event loop."""
    return blake2b(chunk, digest_size=NAME_BYTES).digest()


def decode(data: bytes) -> Manifest:
    """Raises ManifestError."""
    size, names = int.from_bytes(data[:_SIZE_BYTES], "big"), data[_SIZE_BYTES:]
    count = -(-size // CHUNK_BYTES_MAX)
    if len(data) < _SIZE_BYTES or count > CHUNKS_MAX or len(names) != count * NAME_BYTES:
        raise ManifestError("the size and the chunks do not fit")
    return Manifest(size, tuple(names[at : at + NAME_BYTES] for at in range(0, len(names), NAME_BYTES)))
