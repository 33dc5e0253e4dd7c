"""One blob that a node uses: where it comes from, and which of its chunks are not here yet.

Inputs are its source, then its manifest, and chunks that come; output is what is missing, in order.
"""

from __future__ import annotations

from subord.core.carriage.blobs.manifests import Manifest, Name
from subord.core.view import Position


class Used:
    """A blob that this node uses."""

    def __init__(self, source: Position) -> None:
        self.source = source
        self.manifest: Manifest | None = None
        self.pinned: tuple[Name, ...] = ()
        self.missing: dict[Name, None] = {}
        """Chunks that are not here yet, in order."""
        self.is_over = False
