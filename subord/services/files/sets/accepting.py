"""Whether a document of a set, whose signature was accepted, counts at this node, and for what.

Inputs are the document, the record of the set, and the records of all others; output is the next record, or a state
that says why there is none. Invariants: an older document never takes the place of a newer one that still counts; a
directory is that of one set at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from subord.core.carriage.documents import Document, Documents
from subord.core.carriage.published import SETS_MAX, Published
from subord.services.files.outcome import FilesError
from subord.services.files.sets.record import Placed, Record
from subord.services.files.sets.words import MOVED, TAKEN, TOO_MANY

Signer = tuple[str, str]
"""Principal and fingerprint."""
IsRevoked = Callable[[str, str], bool]


def is_older(document: Document, record: Record | None, is_revoked: IsRevoked) -> bool:
    """Whether a document that is newer counts. That of an operator that was revoked since does not."""
    if record is None or is_revoked(record.principal, record.fingerprint):
        return False
    held = record.document
    return held.order != document.order and not Documents([held]).merge([document])


def accepted(
    document: Document,
    said: Published,
    signer: Signer,
    tag: bytes,
    *,
    record: Record | None,
    others: Mapping[str, Record],
) -> Record:
    """The record of a set that the node is to look after. `others`: of the other sets. Raises FilesError: a word of
    words.py."""
    kept = {name: each for name, each in others.items() if not each.is_released}
    taken = next((name for name, each in kept.items() if each.said.overlaps(said)), "")
    if taken:
        raise FilesError(TAKEN, taken)
    if len(kept) >= SETS_MAX:
        raise FilesError(TOO_MANY)
    if record is None:
        return Record(document, *signer, tag)
    placed, previous = record.placed, record.previous
    if placed is not None and placed.to != said.to:
        if not record.is_released:
            raise FilesError(MOVED, placed.to.decode("utf-8", "backslashreplace"))
        placed = None
    return Record(document, *signer, record.tag, record.phase, record.inode, placed, _of(said, previous))


def released(document: Document, signer: Signer, record: Record) -> Record:
    """The record of a set that the node is not to look after any more. The files stay."""
    return Record(document, *signer, record.tag, record.phase, record.inode, record.placed, record.previous, True)


def _of(said: Published, previous: Placed | None) -> Placed | None:
    """What is beside another directory is of a set that was withdrawn."""
    return previous if previous is None or previous.to == said.to else None
