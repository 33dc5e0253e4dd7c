"""Receipts: each node signs its own result, so that no node on the way can answer in its place.

Inputs are an order, results, and the key that is pinned to each address; outputs are signed results, and an answer in
which a node without a valid receipt is missing as `no receipt`. Invariant: a receipt names the cluster, the node, all
that makes the order, and the result, so it counts for no other order, also not for one with the same tag. Receipts
differ, so no two results travel as one: an answer holds at most bounds.GROUPS_MAX of them, and they are made only
where the issuer asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from hashlib import sha256
from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.acting.service_orders import digest_of
from subord.core.carriage.engine.causes import NO_RECEIPT
from subord.core.carriage.engine.frames import Order
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.carriage.orders import Cluster
from subord.core.identity.signer import KEY_BYTES, PROOF_BYTES, Signer
from subord.core.view import Position

HEAD: Final = b"subord 1 receipt\n"
_encode = msgspec.msgpack.Encoder().encode


class Receipt(msgspec.Struct, frozen=True, array_like=True):
    """A result, and the proof of its node."""

    result: bytes
    proof: Annotated[bytes, msgspec.Meta(max_length=PROOF_BYTES)]


_decoder = msgspec.msgpack.Decoder(Receipt)


def content_of(cluster: Cluster, position: Position, order: Order, result: bytes) -> bytes:
    """What the node at `position` signs."""
    return HEAD + _encode((cluster, position, digest_of(order), sha256(result).digest()))


def signed(signer: Signer, cluster: Cluster, position: Position, order: Order, result: bytes) -> bytes:
    """The result as the node gives it: with its receipt, if the order asks for one."""
    if not order.receipts:
        return result
    return _encode(Receipt(result, signer.sign(content_of(cluster, position, order, result))))


def checked(
    answer: Answer, cluster: Cluster, order: Order, key_of: Callable[[Position], bytes], verifier: Signer
) -> Answer:
    """The answer with plain results; a node whose receipt is missing or false is missing itself."""
    nodes_by_result: defaultdict[bytes, list[Position]] = defaultdict(list)
    unproven = answer.others
    for result, nodes in answer.groups:
        receipt = _decoded(result)
        position = next(iter(nodes))
        if receipt is not None and len(nodes) == 1:
            content = content_of(cluster, position, order, receipt.result)
            key = key_of(position)
            if len(key) == KEY_BYTES and verifier.verify(key, content, receipt.proof):
                nodes_by_result[receipt.result].append(position)
                continue
        unproven = unproven | nodes
    groups = tuple((result, Ranges.of(nodes)) for result, nodes in nodes_by_result.items())
    missing = (*answer.missing, (NO_RECEIPT, unproven)) if unproven else answer.missing
    return msgspec.structs.replace(answer, groups=groups, others=NONE, missing=missing)


def _decoded(result: bytes) -> Receipt | None:
    try:
        return _decoder.decode(result)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
