"""The list of revoked operators and nodes: one numbered document that all nodes hold.

Inputs are the documents of a node; outputs are the entries, whether an operator is among them, and the next versions
of the list. The list never expires. It stays when the operator that signed it is revoked: only a later one replaces
it. Invariant: a version of the list holds at most what fits one document.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from subord.core.carriage.documents import NEVER_MS, REVOKED, Document, Documents, is_within_bounds
from subord.core.carriage.orders import Order
from subord.core.messages import KEY_BYTES
from subord.core.view import Position

ENTRIES_MAX: Final = 256
WHAT_CHARS_MAX: Final = 128
REASON_CHARS_MAX: Final = 200
AUTHOR_CHARS_MAX: Final = 64
VERSION_MAX: Final = 1 << 31

Kind = Literal["operator", "node"]


class Entry(NamedTuple):
    """`what`: of an operator the principal or the fingerprint of a key (SHA256:...), of a node its address; then
    `position` is its position, else 0, and `key` the public key that counts nowhere any more."""

    kind: Kind
    what: Annotated[str, msgspec.Meta(min_length=1, max_length=WHAT_CHARS_MAX)]
    position: Annotated[Position, msgspec.Meta(ge=0)]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_CHARS_MAX)]
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=NEVER_MS)]
    by: Annotated[str, msgspec.Meta(max_length=AUTHOR_CHARS_MAX)]
    key: Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES)] = b""


Entries = tuple[Entry, ...]
_decoder = msgspec.msgpack.Decoder(Annotated[Entries, msgspec.Meta(max_length=ENTRIES_MAX)])
_encode = msgspec.msgpack.Encoder().encode


class Revocations:
    """The list as the documents of one node have it."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._read: tuple[Document | None, Entries] = None, ()

    @property
    def entries(self) -> Entries:
        """Empty, too, if the list is of a later release."""
        document = self._documents.by_name.get(REVOKED)
        if document is not self._read[0]:
            self._read = document, () if document is None else (entries_of(document.order) or ())
        return self._read[1]

    @property
    def operators(self) -> frozenset[str]:
        """Principals and fingerprints."""
        return frozenset(each.what for each in self.entries if each.kind == "operator")

    @property
    def node_keys(self) -> frozenset[bytes]:
        """The public keys of nodes."""
        return frozenset(each.key for each in self.entries if each.kind == "node" and each.key)

    def has_operator(self, *names: str) -> bool:
        """Whether an operator with one of these names or fingerprints is revoked."""
        return any(each.kind == "operator" and each.what in names for each in self.entries)

    def with_entry(self, entry: Entry, at_ms: int) -> Order | None:
        """The next version of the list; None: it has no room."""
        others = (each for each in self.entries if (each[:2], each.key) != (entry[:2], entry.key))
        return self._next((*others, entry), at_ms)

    def without(self, kind: Kind, what: str, at_ms: int) -> Order | None:
        """The next version of the list; None: there is no such entry."""
        kept = tuple(each for each in self.entries if each[:2] != (kind, what))
        return None if kept == self.entries else self._next(kept, at_ms)

    def _next(self, entries: Iterable[Entry], at_ms: int) -> Order | None:
        before = self._documents.by_name.get(REVOKED)
        version = 1 if before is None else before.version + 1
        order = Order(REVOKED, version, at_ms, NEVER_MS, _encode(tuple(entries)))
        return order if is_within_bounds(order) and entries_of(order) is not None else None


def entries_of(order: Order) -> Entries | None:
    """The entries of a list; None: it cannot be read."""
    try:
        entries: Entries = _decoder.decode(order.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return entries
