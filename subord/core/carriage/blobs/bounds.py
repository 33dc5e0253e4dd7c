"""The bounds of blobs and their times. Times are seconds."""

from __future__ import annotations

from typing import Final

CHUNK_BYTES_MAX: Final = 262_144
PIECE_BYTES_MAX: Final = 49_152
"""Of a chunk in one frame."""
NAME_BYTES: Final = 32
CHUNKS_MAX: Final = 8_191
"""Of one blob, because its manifest is a chunk, too: 8 + 8,191 * 32 bytes. A blob has at most 2 GiB."""
CACHE_BYTES_MAX: Final = 1 << 30
WINDOW: Final = 3
"""Chunks that a node has asked of others and not got, and that it sends on one link at once."""
WANTS_MAX: Final = 1_024
"""Chunks that a node wants, for itself and for those below."""
FETCHES_MAX: Final = 64
READING_MAX: Final = 64
"""Chunks that are read from the disk at once."""
ASKED_MAX: Final = 64
"""Nodes that are counted for wrong chunks, one by one."""

SILENCE_S: Final = 5.0
"""Without a piece for so long a node is asked whether it is at it."""
DOUBT_S: Final = 10.0
"""Without an answer for so long after that, another node is asked. A dead node loses its edge earlier. This is for a
slow one, and to ask another makes the nodes above slower, too."""
LINGER_S: Final = 5.0
"""A stream of its own to another node closes so long after its last chunk."""
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 60.0
"""Until a chunk that no node has given is asked for again, as long as this node needs it; each pause is twice the
last."""
ROUNDS_MAX: Final = 2
"""In which no node could be called, until those that ask are told to look elsewhere."""
