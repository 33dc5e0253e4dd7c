"""The bounds of the ledger and its times. Times are seconds."""

from __future__ import annotations

from typing import Final

RECORD_BYTES_MAX: Final = 16_384
"""The body of one record."""
KIND_CHARS_MAX: Final = 32
KIND_PATTERN: Final = r"\A[^\x00-\x1f\x7f-\x9f]*\Z"
"""No control characters: PostgreSQL takes no NUL in a text, so one such record would stop a sink."""
BATCH_BYTES_MAX: Final = 48_000
"""Records of one frame, each counted with RECORD_COST_BYTES; one record always fits."""
BATCH_RECORDS_MAX: Final = 1_024
RECORD_COST_BYTES: Final = 64
"""What a record counts besides its kind and body: what disk and frame need for it."""
SPOOL_BYTES_MAX: Final = 64 << 20
"""Of a node, unless it is configured."""
SINKS_MAX: Final = 8
"""Sinks that a node hears of through one link; the lowest positions count."""
HOPS_MAX: Final = 255
"""A batch or an acknowledgement that has passed so many links is dropped: links may form a circle for a moment."""
STORING_MAX: Final = 256
STORING_BYTES_MAX: Final = 8 << 20
"""Batches that a sink holds until they are on its disk; more are dropped, and come again."""

DISK_RETRY_S: Final = 5.0
"""After the disk of the spool has failed."""
LOOK_S: Final = 1.0
"""While an edge is open to a node that is no neighbour: until the tree is looked at again."""
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 60.0
RETRY_ACKS: Final = 4
"""A batch is sent again after RETRY_S, or after so many times the last time to an acknowledgement, whichever is
later; each further pause is twice the last, up to RETRY_S_MAX."""
