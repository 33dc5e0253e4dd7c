"""Gives a bundle to the daemon on this host, chunk by chunk, which keeps it as a blob for the nodes.

Input are the bytes of the bundle; output is the name of the blob, made here, and the position of the daemon.
Invariant: the name that is signed is the hash of what was read here, whatever the daemon answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from subord.client import exit_codes
from subord.client.daemon import change
from subord.client.errors import CommandError
from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX, CHUNKS_MAX
from subord.core.carriage.blobs.manifests import Manifest, Name, name_of
from subord.services.files.listing import NOTHING

CHUNK_S_MAX = 10.0


def upload(socket: str, pieces: Iterable[bytes], holder: str, keep_s: float) -> tuple[Name, int]:
    """The blob, and the position of the node that has it. Raises CommandError."""
    size, names = 0, list[Name]()
    for chunk in _chunks(pieces):
        if len(names) == CHUNKS_MAX:
            raise CommandError(f"more than {CHUNKS_MAX * CHUNK_BYTES_MAX} bytes at once; {NOTHING}", exit_codes.USAGE)
        change(socket, "/v1/blobs/chunk", CHUNK_S_MAX, body=chunk)
        size += len(chunk)
        names.append(name_of(chunk))
    listing = Manifest(size, tuple(names)).encode()
    found = change(socket, f"/v1/blobs?holder={holder}&keep={keep_s:.1f}", CHUNK_S_MAX, body=listing)
    return name_of(listing), int(found["source"])


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in full chunks; the last one may be shorter."""
    held = bytearray()
    for each in pieces:
        held += each
        while len(held) >= CHUNK_BYTES_MAX:
            yield bytes(held[:CHUNK_BYTES_MAX])
            del held[:CHUNK_BYTES_MAX]
    if held:
        yield bytes(held)
