"""Documents: small numbered orders of operators that every node comes to hold.

Inputs are documents whose signatures were accepted (runtime/security/gate.py); of two with one name the higher
version counts. Two different ones with the same version are a conflict: all nodes keep the same one of them, and show
that there was another. A document has an expiry, after which no node takes or keeps it, except those of LASTING and
of the kind FILES. Invariants: after the same documents all nodes hold the same, whichever operator signed an order
first; a document that is held is never replaced by an older version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.carriage.exchange import digest_of
from subord.core.carriage.orders import Order
from subord.core.decoding import UNREADABLE

DOCUMENTS_MAX: Final = 1024
"""Without those of LASTING."""
BODY_BYTES_MAX: Final = 8192
SIGNATURE_BYTES_MAX: Final = 8192
NAME_CHARS_MAX: Final = 64
EXPIRY_MS_MAX: Final = 400 * 86_400_000
"""From the time of the order: a document cannot ask to be kept for longer."""
NEVER_MS: Final = (1 << 53) - 1
"""The expiry of documents that stay."""
RING: Final = "ring/current"
REVOKED: Final = "revoked/list"
STRICT: Final = "strict/on"
PLAN: Final = "metrics/plan"
SHARES: Final = "shares/plan"
FILES: Final = "files"
"""Kind of the documents that never expire, one for each set of files (published.py)."""
ELASTIC: Final = "elastic/plan"
HOSTS: Final = "hosts/table"
MACHINES: Final = "machines/plan"
TRANSFER: Final = "transfer/plan"
OF_AGENTS: Final = frozenset((ELASTIC, HOSTS, MACHINES, TRANSFER))
"""Names of documents whose bodies agents alone read."""
LASTING: Final = frozenset((RING, REVOKED, STRICT, PLAN, SHARES, *OF_AGENTS))
"""Names of documents that never expire and always have room. Each is the only one of its kind."""
_LASTING_KINDS: Final = frozenset(name.partition("/")[0] for name in LASTING)

_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=NEVER_MS)]


class Document(NamedTuple):
    """An order and its signature (SSHSIG, armored). `body`: by the kind in front of the name's slash."""

    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, pattern=r"^[a-z]+/[0-9a-z]+\Z")]
    version: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    at_ms: _Milliseconds
    expires_ms: _Milliseconds
    body: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)]
    signature: Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_BYTES_MAX)] = b""

    @property
    def order(self) -> Order:
        """What the signature covers."""
        return Order(*self[:5])

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    @property
    def tag(self) -> str:
        return self.name.partition("/")[2]


_decoder = msgspec.msgpack.Decoder(tuple[Document, ...])
_encode = msgspec.msgpack.Encoder().encode


def is_within_bounds(order: Order) -> bool:
    """Whether a neighbour can decode it; of one that it cannot, it ends the edge."""
    try:
        _decoder.decode(_encode([(*order, b"")]))
    except UNREADABLE:
        return False
    return True


def is_current(order: Order, now_ms: int) -> bool:
    """Whether it is to be kept: neither expired nor, by its own date, kept for too long."""
    kind = order.name.partition("/")[0]
    if kind in _LASTING_KINDS:
        return order.name in LASTING and order.expires_ms == NEVER_MS
    if kind == FILES:
        return order.expires_ms == NEVER_MS
    return now_ms < order.expires_ms <= order.at_ms + EXPIRY_MS_MAX


class Documents:
    """The documents of one node, by name."""

    pause_s: Final = 0.0

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
        """Equal for equal orders: one order may have several signatures."""
        if self._digest is None:
            content = _encode([self.by_name[name].order for name in sorted(self.by_name)])
            self._digest = digest_of(content)
        return self._digest

    def of_kind(self, kind: str) -> list[Document]:
        """The documents of a kind, by name."""
        return [self.by_name[name] for name in sorted(self.by_name) if self.by_name[name].kind == kind]

    def has_room(self, items: Iterable[Order | Document]) -> bool:
        """Whether all of them can be taken."""
        return len((self.by_name.keys() | {each.name for each in items}) - LASTING) <= DOCUMENTS_MAX

    def matters(self, document: Document) -> bool:
        """Whether to take it would change something: it is newer, or shows a conflict."""
        old = self.by_name.get(document.name)
        if old is None:
            return self.has_room([document])
        if old.version != document.version:
            return document.version > old.version
        is_another = document.order != old.order
        return is_another and (document.order > old.order or document.name not in self.conflicts)

    def merge(self, items: Iterable[Document]) -> list[Document]:
        """Take all documents that are newer; returns them."""
        taken = [each for each in items if self._take(each)]
        if taken:
            self._digest = None
        return taken

    def _take(self, document: Document) -> bool:
        if not self.matters(document):
            return False
        old = self.by_name.get(document.name)
        if old is not None and old.version == document.version:
            self.conflicts.add(document.name)
            if document.order < old.order:
                return False
        else:
            self.conflicts.discard(document.name)
        self.by_name[document.name] = document
        return True

    def drop(self, names: Iterable[str]) -> bool:
        """Forget some documents; whether there were any."""
        found = [name for name in names if name in self.by_name]
        for name in found:
            del self.by_name[name]
            self.conflicts.discard(name)
        if found:
            self._digest = None
        return bool(found)

    def drop_expired(self, now_ms: int) -> None:
        """Forget documents whose expiry has passed."""
        self.drop([name for name, each in self.by_name.items() if each.expires_ms <= now_ms])

    # -- as a replica (exchange.py) -------------------------------------------------------------------------

    def items(self) -> list[Document]:
        return list(self.by_name.values())

    def take(self, count: int) -> list[Document]:
        """Remove and return some documents: as many as surely fit a frame."""
        taken = [self.by_name[name] for name in list(self.by_name)[: min(count, 3)]]
        self.drop([each.name for each in taken])
        return taken

    def differing(self, _: bytes) -> list[Document]:
        """All of them: the digest does not tell."""
        return self.items()

    def empty(self) -> Documents:
        return Documents()

    def encode(self, items: Iterable[Document]) -> bytes:
        """Documents in MessagePack."""
        return _encode(list(items))

    def decode(self, data: bytes, now_ms: int) -> list[Document]:
        """Without those that are not current. Raises msgspec.DecodeError, ValueError."""
        return [each for each in _decoder.decode(data) if is_current(each.order, now_ms)]
