"""The frames of orders on the wire: what nodes say to each other along an edge, or over a stream of its own.

A frame is an array of three in MessagePack: the incarnations of sender and receiver (0: of any life), and the body,
an array whose first element is its number. The bodies here are those of orders; parts.py has the numbers of others.
Frames of the exchange are arrays of two, so one stream carries both. `decode` checks every bound. Invariant: no frame
is longer than FRAME_BYTES_MAX, and none names a time of day: what is left of an order's time is a duration.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.core.carriage.engine.ranges import POSITION_MAX, Ranges
from subord.core.decoding import UNREADABLE
from subord.core.view import Incarnation, Position

Tag = bytes
T = TypeVar("T")
_Position = Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
_Flat = tuple[Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)], ...]
_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
_Tag = Annotated[bytes, msgspec.Meta(min_length=bounds.TAG_BYTES, max_length=bounds.TAG_BYTES)]
_Result = Annotated[bytes, msgspec.Meta(max_length=bounds.RESULT_BYTES_MAX)]
_Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]


class Order(msgspec.Struct, frozen=True, array_like=True):
    """What an issuer asks of its targets. It is the same at every node; `authority` may cover all of it."""

    tag: _Tag
    service: Annotated[str, msgspec.Meta(min_length=1, max_length=bounds.SERVICE_CHARS_MAX)]
    payload: Annotated[bytes, msgspec.Meta(max_length=bounds.PAYLOAD_BYTES_MAX)]
    flat_targets: _Flat | None
    """None: every member of the tree."""
    issuer: Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
    authority: Annotated[bytes, msgspec.Meta(max_length=bounds.AUTHORITY_BYTES_MAX)] = b""
    receipts: bool = False
    """Whether each result is to be signed by its node (core/identity/receipts.py). Older nodes read over it."""

    @property
    def targets(self) -> Ranges | None:
        """None: every member of the tree."""
        return None if self.flat_targets is None else Ranges.unflat(self.flat_targets)


_Lease = Annotated[int, msgspec.Meta(ge=0, le=bounds.LEASE_MS_MAX)]
LEASE_MS: Final = int(bounds.LEASE_S * 1000)


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Asks for an order's results of some targets. The sender numbers its questions; answers name the number.

    `climbs`: the receiver finds the coordinator, else it acts, and asks its branch. `part`: the targets that are
    meant; empty for all members.
    """

    number: _Number
    climbs: bool
    attempt: Annotated[int, msgspec.Meta(ge=0, le=255)]
    left_ms: Annotated[int, msgspec.Meta(ge=0, le=bounds.LEFT_MS_MAX)]
    part: _Flat
    order: Order
    passed: Annotated[tuple[_Position, ...], msgspec.Meta(max_length=bounds.PASSED_MAX)] = ()
    """Nodes that it has climbed through."""
    lease_ms: _Lease = LEASE_MS
    """For how long the receiver holds the question without a renewal. Earlier builds do not say so."""


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The sender has the question and works at it."""

    number: _Number


class Check(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Does the receiver still work at the question? The answer is Ack or Lost. It renews the lease of the question:
    `lease_ms` is what the sender has left of its own."""

    number: _Number
    lease_ms: _Lease = LEASE_MS


class Lost(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The sender has no such question."""

    number: _Number


class Resolved(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The targets of an order for all members, as a coordinator knows them; several frames add up. `lacks`: they are
    those of a node that stands in for the coordinator, and why; so there may be others."""

    number: _Number
    targets: _Flat
    lacks: _Word = ""


class Told(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Results, folded. `others`: nodes whose results were left out for their size or number. `missing`: nodes without
    result, with the cause. Only the last frame of an answer has `is_last`. `lacks`: no coordinator was found that
    knows all members, and why; the answer is what the highest node that was reached knows."""

    number: _Number
    groups: tuple[tuple[_Result, _Flat], ...] = ()
    others: _Flat = ()
    missing: tuple[tuple[_Word, _Flat], ...] = ()
    is_last: bool = False
    lacks: _Word = ""


class End(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The sender waits no longer for the question. `stops`: nor does the issuer, so what runs for it is to end. There
    is no answer; earlier builds count the body as unreadable."""

    number: _Number
    stops: bool = False


Body = Ask | Ack | Check | Lost | Resolved | Told | End


class Frame(NamedTuple):
    """`sender`, `receiver`: incarnations; receiver 0: whichever life the receiver has."""

    sender: _Number
    receiver: _Number
    body: Body


class Envelope(NamedTuple):
    """A frame whose body is not read yet."""

    sender: _Number
    receiver: _Number
    body: msgspec.Raw


class Unreadable(Exception):  # noqa: N818 - a verdict, not a fault of ours
    """A frame does not fit this release."""


FIRST_BYTE: Final = 0x93
ARRAY_BYTES: Final = range(0x90, 0xA0)  # of at most 15 elements
_decoder: msgspec.msgpack.Decoder[Body] = msgspec.msgpack.Decoder(Body)
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)
_encode = msgspec.msgpack.Encoder().encode


def encode(sender: Incarnation, receiver: Incarnation, body: msgspec.Struct) -> bytes:
    """A frame in MessagePack."""
    return _encode((sender, receiver, body))


def open_envelope(data: bytes) -> Envelope:
    """A frame of any part, as long as a frame may be. Raises Unreadable."""
    if len(data) > bounds.FRAME_BYTES_MAX:
        raise Unreadable("longer than a frame")
    try:
        return _envelope_decoder.decode(data)
    except UNREADABLE as reason:
        raise Unreadable(str(reason)) from None


def number_of(body: msgspec.Raw) -> int:
    """Which body it is. Raises Unreadable."""
    head = bytes(memoryview(body)[:2])
    if len(head) < 2 or head[0] not in ARRAY_BYTES:
        raise Unreadable("no body")
    return head[1]


def decode_with(decoder: msgspec.msgpack.Decoder[T], body: msgspec.Raw) -> T:
    """A body of the types of the decoder, whatever the bytes are. Raises Unreadable."""
    try:
        return decoder.decode(body)
    except UNREADABLE as reason:
        raise Unreadable(str(reason)) from None


def decode_body(body: msgspec.Raw) -> Body:
    """A body of orders within all bounds. Raises Unreadable."""
    found = decode_with(_decoder, body)
    try:
        for each in _flats(found):
            Ranges.unflat(each)
        if isinstance(found, Ask) and not _fits(found):
            raise Unreadable("more targets than a frame may name")
    except UNREADABLE as reason:
        raise Unreadable(str(reason)) from None
    return found


def order_fits(order: Order) -> bool:
    """Whether frames can carry it."""
    targets = order.targets
    return (
        len(order.tag) == bounds.TAG_BYTES
        and len(order.payload) <= bounds.PAYLOAD_BYTES_MAX
        and len(order.authority) <= bounds.AUTHORITY_BYTES_MAX
        and 0 < len(order.service) <= bounds.SERVICE_CHARS_MAX
        and (targets is None or targets.wire_bytes <= bounds.TARGETS_BYTES_MAX)
    )


def _fits(ask: Ask) -> bool:
    """Whether the next node can pass it on: with a node more in `passed` it is still a frame."""
    targets = ask.order.targets
    return (targets is None or targets.wire_bytes <= bounds.TARGETS_BYTES_MAX) and (
        Ranges.unflat(ask.part).wire_bytes <= bounds.PART_BYTES_MAX
    )


def decode(data: bytes) -> Frame:
    """A frame of orders within all bounds. Raises Unreadable."""
    envelope = open_envelope(data)
    return Frame(envelope.sender, envelope.receiver, decode_body(envelope.body))


def is_frame(data: bytes) -> bool:
    """Whether it is one of these frames, and not one of the exchange or a key ring."""
    return data[:1] == bytes([FIRST_BYTE])


def _flats(body: Body) -> list[_Flat]:
    match body:
        case Ask():
            targets = body.order.flat_targets
            return [body.part] if targets is None else [body.part, targets]
        case Resolved():
            return [body.targets]
        case Told():
            groups, missing = body.groups, body.missing
            return [body.others, *(flat for _, flat in groups), *(flat for _, flat in missing)]
    return []


def order_of(
    tag: Tag,
    service: str,
    payload: bytes,
    targets: Ranges | None,
    issuer: Position,
    *,
    authority: bytes = b"",
    receipts: bool = False,
) -> Order:
    """An order as its issuer writes it."""
    flat = None if targets is None else targets.flat()
    return Order(tag, service, payload, flat, issuer, authority, receipts)
