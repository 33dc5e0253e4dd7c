"""Orders of services with effects: what an operator signs, and why an order does not count whatever its signature.

Inputs are an order of the engine, its authority, a position and the time; outputs are the signed content, and a cause
of carriage/engine/causes.py. Invariant: the content names the cluster, the service, the tag, the targets, the
payload, the user and all times, so nothing of an order can be changed, or used elsewhere, later or again.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import MALFORMED, NOT_YET_VALID, ORDER_EXPIRED, OTHER_TARGETS, UNSIGNED
from subord.core.carriage.engine.frames import Order
from subord.core.carriage.orders import Cluster
from subord.core.decoding import UNREADABLE
from subord.core.view import Position

HEAD: Final = b"subord 1 service order\n"
USER_CHARS_MAX: Final = 32
SIGNATURE_BYTES_MAX: Final = 8000
MS_MAX: Final = (1 << 53) - 1
LIFE_MS_MAX: Final = 2 * 86_400_000
"""From `not_before_ms` to `expires_ms`: tags are kept until then, so their number has a bound."""
SKEW_MS: Final = 300_000
"""How far the clock of a node may be from that of the operator: an order counts so much earlier and later."""

_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=MS_MAX)]


class Authority(msgspec.Struct, frozen=True, array_like=True):
    """The field `authority` of an order. `user`: the user as which the service acts. Times: ms since 1970. `run_ms`:
    for how long it may act; a member on the way cannot shorten it."""

    user: Annotated[str, msgspec.Meta(max_length=USER_CHARS_MAX)]
    not_before_ms: _Milliseconds
    expires_ms: _Milliseconds
    run_ms: Annotated[int, msgspec.Meta(ge=0, le=bounds.LEFT_MS_MAX)]
    signature: Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_BYTES_MAX)] = b""


_decoder = msgspec.msgpack.Decoder(Authority)
_encode = msgspec.msgpack.Encoder().encode


def content_of(cluster: Cluster, order: Order, authority: Authority) -> bytes:
    """What the signature of an order covers."""
    return HEAD + _encode((cluster, *_said(order), *_permitted(authority)))


def digest_of(order: Order) -> bytes:
    """Equal for what counts as one order: without the issuer and the signature, which a member on the way may write
    in another form that is valid, too."""
    authority = decode(order.authority)
    permitted = (order.authority,) if authority is None else _permitted(authority)
    return sha256(_encode((*_said(order), *permitted))).digest()


def _said(order: Order) -> tuple[object, ...]:
    return order.service, order.tag, order.flat_targets, sha256(order.payload).digest()


def _permitted(authority: Authority) -> tuple[object, ...]:
    return authority.user, authority.not_before_ms, authority.expires_ms, authority.run_ms


def valid_for(user: str, now_ms: int, left_s: float) -> Authority:
    """An authority, not signed yet, of an order that is given now and answered within `left_s`."""
    left_ms = min(int(left_s * 1000), bounds.LEFT_MS_MAX)
    return Authority(user, max(0, now_ms - SKEW_MS), now_ms + left_ms + SKEW_MS, left_ms)


def run_s(order: Order) -> float:
    """For how long a service may act on the order, as it says itself; 0: it does not say so."""
    authority = decode(order.authority)
    return 0.0 if authority is None else authority.run_ms / 1000


def encode(authority: Authority) -> bytes:
    """The field of an order."""
    return _encode(authority)


def decode(data: bytes) -> Authority | None:
    """None: it cannot be read."""
    try:
        return _decoder.decode(data)
    except UNREADABLE:
        return None


def refusal(order: Order, position: Position, now_ms: int) -> str:
    """Why the order does not count at `position`, whatever its signature; "": the signature decides."""
    if not order.authority:
        return UNSIGNED
    authority = decode(order.authority)
    if authority is None or authority.expires_ms - authority.not_before_ms > LIFE_MS_MAX:
        return MALFORMED
    if not authority.signature:
        return UNSIGNED
    if now_ms < authority.not_before_ms:
        return NOT_YET_VALID
    if now_ms >= authority.expires_ms:
        return ORDER_EXPIRED
    targets = order.targets
    return "" if targets is None or position in targets else OTHER_TARGETS
