"""A bundle as it comes, chunk by chunk: its manifest first, then the contents of its files in order.

Input are chunks that were checked against their names; outputs are the manifest, and pieces of contents. Nothing is
held but one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator

from subord.services.files.manifest import HEAD, LENGTH_BYTES, Manifest, ManifestError, decode, length_in
from subord.services.files.outcome import MALFORMED, FilesError


class Stream:
    """One bundle."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = b""

    def manifest(self) -> Manifest:
        """Call it first. Raises FilesError."""
        try:
            return decode(self._read(length_in(self._read(len(HEAD) + LENGTH_BYTES))))
        except ManifestError as error:
            raise FilesError(MALFORMED, str(error)) from None

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next bytes. Raises FilesError: the bundle ends before."""
        while size:
            if not self._held:
                self._held = next(self._chunks, b"")
                if not self._held:
                    raise FilesError(MALFORMED, "the content ends early")
            piece, self._held = self._held[:size], self._held[size:]
            size -= len(piece)
            yield piece

    def skip(self, size: int) -> None:
        """Pass over the next bytes. Raises FilesError."""
        for _ in self.pieces(size):
            pass

    def _read(self, size: int) -> bytes:
        return b"".join(self.pieces(size))
