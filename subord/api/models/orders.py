"""The JSON documents of orders: what an operator is to sign, what is signed, and the verdicts.

Bytes are in base 64. docs/protocol/members.md has what a signature covers.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.api.models.document import Address, Addresses, Count, Document, KeyName, Sentence, Time
from subord.core.carriage.documents import BODY_BYTES_MAX, NAME_CHARS_MAX, SIGNATURE_BYTES_MAX

ORDERS_MAX: Final = 16
"""In one request."""


class OrderDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One order. `content`: what the signature covers; `namespace`: what it is for; both are null in a request."""

    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
    version: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    at_ms: Count
    expires_ms: Count
    body: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)]
    content: bytes | None = None
    namespace: str | None = None
    signature: Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_BYTES_MAX)] = b""


class PreparedDocument(Document, frozen=True, kw_only=True):
    """Orders to be signed, and what they would do: of how many nodes they say something, and some of them; the key
    and the revision of a key ring."""

    orders: tuple[OrderDocument, ...]
    nodes: Count = 0
    addresses: Addresses = ()
    key: KeyName | None = None
    revision: Count = 0


class SignedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request: signed orders, which are taken all or not at all."""

    orders: Annotated[tuple[OrderDocument, ...], msgspec.Meta(min_length=1, max_length=ORDERS_MAX)]


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request: patterns of metrics, those that matter most first."""

    patterns: tuple[str, ...]


class SharesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request: classes with thousandths of a ticket, which sum to 100,000; none: shares are off."""

    round_ms: int
    shares: tuple[tuple[str, int], ...]


class JudgedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """`word`: why the order does not count, and `sentence`: what that means; both empty: it was accepted.

    `principal` and `fingerprint`: the operator, as the file of this node names it; empty: not known.
    """

    name: str
    power: str
    word: str
    sentence: str
    principal: str
    fingerprint: str


class JudgedDocument(Document, frozen=True, kw_only=True):
    """The verdicts. `stored`: all orders were taken; `saved`: they are on the disk of this node."""

    orders: tuple[JudgedOrder, ...]
    stored: bool
    saved: bool


class SaidDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator said about nodes, some of them by address. `principal`: the operator, as the file of the asked
    node names the key of the signature; null: not known. `said_by`: the name that the command gave.
    """

    nodes: Count
    addresses: Addresses
    reason: Sentence
    principal: Sentence | None
    said_by: Sentence | None
    time: Time


class MaintenanceDocument(SaidDocument, frozen=True, kw_only=True):
    """`nodes` are members. `absent`: some that are no members just now, because they said goodbye or are forgotten;
    they are under maintenance again when they return. `until` null: until an operator ends it.
    """

    absent_nodes: Count
    absent: Addresses
    until: Time | None


class StatementsDocument(Document, frozen=True, kw_only=True):
    """What operators said about nodes, as `asked` holds it, oldest first: maintenances that last, and the nodes that
    were forgotten within thirty days."""

    asked: Address
    maintenances: tuple[MaintenanceDocument, ...]
    forgotten: tuple[SaidDocument, ...]
