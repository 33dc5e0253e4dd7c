"""Which chunks a node has sent last on each of its streams.

Inputs are chunks that are sent, and questions that came before on the same stream; output is whether to send a chunk
once more. The frames of a stream come in order, so a peer that still waits gets the chunk. Invariant: a chunk
counts as sent for one such question, because a lane that is full may have dropped a frame of it.
"""

from __future__ import annotations

from collections import deque

from subord.core.carriage.blobs.bounds import WINDOW
from subord.core.carriage.blobs.manifests import Name
from subord.core.carriage.engine.links import LinkState


class Given:
    """The last chunks by stream."""

    def __init__(self) -> None:
        self._sent: dict[LinkState, deque[Name]] = {}

    def add(self, link: LinkState, name: Name) -> None:
        self._sent.setdefault(link, deque(maxlen=WINDOW)).append(name)

    def take(self, link: LinkState, name: Name) -> bool:
        """Whether the chunk was sent lately; from now on it was not."""
        is_given = name in self._sent.get(link, ())
        if is_given:
            self._sent[link].remove(name)
        return is_given

    def close(self, link: LinkState) -> None:
        self._sent.pop(link, None)
