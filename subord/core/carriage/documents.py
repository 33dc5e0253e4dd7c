"""Documents: small numbered statements that every node comes to hold.

Inputs are documents of operators and of neighbours; of two with one name the higher version counts. Two different
ones with the same version are a conflict: all nodes keep the same one of them, and show that there was another. A
document has an expiry, after which no node takes or keeps it. Invariant: after the same documents all nodes hold the
same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.carriage.exchange import digest_of

DOCUMENTS_MAX: Final = 1024
BODY_BYTES_MAX: Final = 8192
NAME_CHARS_MAX: Final = 64
EXPIRY_MS_MAX: Final = 400 * 86_400_000
"""From now: a document cannot ask to be kept for longer."""


class Document(NamedTuple):
    """`body`: MessagePack, by the kind in front of the name's slash. `signature`: none are asked for yet."""

    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, pattern=r"^[a-z]+/[0-9a-z]+\Z")]
    version: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    expires_ms: Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
    body: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)]
    signature: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)] = b""

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    @property
    def tag(self) -> str:
        return self.name.partition("/")[2]


_decoder = msgspec.msgpack.Decoder(tuple[Document, ...])
_encode = msgspec.msgpack.Encoder().encode


def is_within_bounds(document: Document) -> bool:
    """Whether a neighbour can decode it; of one that it cannot, it ends the edge."""
    try:
        _decoder.decode(_encode([document]))
    except (msgspec.MsgspecError, ValueError):
        return False
    return True


class Documents:
    """The documents of one node, by name."""

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self.by_name: dict[str, Document] = {}
        self.conflicts: set[str] = set()
        """Names of documents that were written twice with one version."""
        self._digest: bytes | None = None
        self.merge(documents)

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def digest(self) -> bytes:
        """Equal for equal documents."""
        if self._digest is None:
            content = self.encode(self.by_name[name] for name in sorted(self.by_name))
            self._digest = digest_of(content)
        return self._digest

    def of_kind(self, kind: str) -> list[Document]:
        """The documents of a kind, by name."""
        return [self.by_name[name] for name in sorted(self.by_name) if self.by_name[name].kind == kind]

    def has_room(self, items: Iterable[Document]) -> bool:
        """Whether all of them can be taken."""
        return len(self.by_name.keys() | {each.name for each in items}) <= DOCUMENTS_MAX

    def merge(self, items: Iterable[Document]) -> list[Document]:
        """Take all documents that are newer; returns them."""
        taken = [each for each in items if self._take(each)]
        if taken:
            self._digest = None
        return taken

    def _take(self, document: Document) -> bool:
        old = self.by_name.get(document.name)
        if old == document:
            return False
        if old is None:
            if len(self.by_name) >= DOCUMENTS_MAX:
                return False
        elif old.version == document.version:
            self.conflicts.add(document.name)
        if old is not None and old[1:] > document[1:]:
            return False
        if old is not None and old.version < document.version:
            self.conflicts.discard(document.name)
        self.by_name[document.name] = document
        return True

    def drop_expired(self, now_ms: int) -> None:
        """Forget documents whose expiry has passed."""
        for name in [name for name, each in self.by_name.items() if each.expires_ms <= now_ms]:
            del self.by_name[name]
            self.conflicts.discard(name)
            self._digest = None

    # -- as a replica (exchange.py) -------------------------------------------------------------------------

    def items(self) -> list[Document]:
        return list(self.by_name.values())

    def take(self, count: int) -> list[Document]:
        """Remove and return some documents: as many as surely fit a frame."""
        taken = [self.by_name[name] for name in list(self.by_name)[: min(count, 3)]]
        for each in taken:
            del self.by_name[each.name]
            self.conflicts.discard(each.name)
        self._digest = None
        return taken

    def empty(self) -> Documents:
        return Documents()

    def encode(self, items: Iterable[Document]) -> bytes:
        """Documents in MessagePack."""
        return _encode(list(items))

    def decode(self, data: bytes, now_ms: int) -> list[Document]:
        """Without those that have expired, or expire in the far future. Raises msgspec.DecodeError, ValueError."""
        return [each for each in _decoder.decode(data) if now_ms < each.expires_ms <= now_ms + EXPIRY_MS_MAX]
