"""The sets of files that a node knows, each as its document says.

Input are the documents of the kind FILES; output is a document, with the operators of the signatures as this node
names them. Nothing is asked of other nodes.
"""

from __future__ import annotations

import msgspec

from subord.api.models.document import Count, Document
from subord.api.node_api import NodeApi
from subord.core.carriage.documents import FILES


class SetDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it was signed. `body`: MessagePack in Base64 (core/carriage/published.py). `conflict`: another
    document had the same version; this one counts."""

    name: str
    version: Count
    at_ms: Count
    expires_ms: Count
    body: bytes
    principal: str
    conflict: bool


class SetsDocument(Document, frozen=True, kw_only=True):
    """All sets."""

    sets: tuple[SetDocument, ...]


def sets(node: NodeApi) -> SetsDocument:
    """The sets, by name."""
    membership = node.tracker.membership
    found = [
        SetDocument(
            name=each.tag,
            version=each.version,
            at_ms=each.at_ms,
            expires_ms=each.expires_ms,
            body=each.body,
            principal=membership.signers.get(each.name, ("", ""))[0],
            conflict=each.name in membership.documents.conflicts,
        )
        for each in membership.documents.of_kind(FILES)
    ]
    return SetsDocument(sets=tuple(found))
