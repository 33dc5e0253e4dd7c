"""The documents about blobs at the control socket."""

from __future__ import annotations

from subord.api.models.document import Document


class ChunkDocument(Document, frozen=True, kw_only=True):
    """A chunk that was given. `name`: its hash, in hexadecimal."""

    name: str


class BlobDocument(Document, frozen=True, kw_only=True):
    """A blob that is here. `source`: the position of this node."""

    blob: str
    source: int


class FetchedDocument(Document, frozen=True, kw_only=True):
    """Whether all of a blob is here. `reason`: why it will not come; empty: it comes, or is here."""

    here: bool
    reason: str


class PrunedDocument(Document, frozen=True, kw_only=True):
    """What was deleted of the cache of blobs."""

    chunks: int
    bytes: int
