"""What goes into the blobs of a node and what comes out: events and actions.

Chunks are on a disk and hashing takes time, so the driver does both off the event loop, and answers with events.
"""

from __future__ import annotations

from subord.core.carriage.blobs.manifests import Name
from subord.core.carriage.engine.interface import PartAction, PartEvent
from subord.core.view import Position


class Held(PartEvent, frozen=True):
    """Chunks that are on the disk of this node, with their sizes. `blob`: they are all of a blob that is used here
    until Release, answered by Fetched; empty: what an earlier life has left."""

    chunks: tuple[tuple[Name, int], ...]
    blob: Name = b""


class Fetch(PartEvent, frozen=True):
    """This node needs a blob, and uses it until Release. Answered by Fetched once."""

    blob: Name
    source: Position


class Release(PartEvent, frozen=True):
    """This node needs the blob no more; what is under way of it ends."""

    blob: Name


class Checked(PartEvent, frozen=True):
    """The answer to Check. `ok`: the name is right, and the chunk is on the disk."""

    name: Name
    ok: bool


class ReadEnded(PartEvent, frozen=True):
    """The answer to Read. None: it is not on the disk."""

    name: Name
    chunk: bytes | None


class Check(PartAction, frozen=True):
    """Hash a chunk, and write it to the disk if the name is right."""

    name: Name
    chunk: bytes


class Evict(PartAction, frozen=True):
    """Delete a chunk from the disk."""

    name: Name


class Read(PartAction, frozen=True):
    """Read a chunk."""

    name: Name


class Fetched(PartAction, frozen=True):
    """A blob is whole on the disk of this node. `reason` not empty: it will not be, and why."""

    blob: Name
    reason: str = ""


class Wrong(PartAction, frozen=True):
    """A node has sent bytes under a name that they do not have."""

    name: Name
    peer: Position
