"""Orders of services with effects, signed by the operators of fake_operators.py."""

from __future__ import annotations

from typing import Any

import msgspec
from fake_operators import CLUSTER, sign

from subord.core.carriage.engine.acting import service_orders
from subord.core.carriage.engine.frames import Order, order_of
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.orders import Cluster
from subord.core.carriage.verdicts import namespace_of

TAG = b"0123456789abcdef"
NOW_MS = 1_800_000_000_000


def order(
    payload: bytes = b"{}",
    *,
    service: str = "touch",
    tag: bytes = TAG,
    targets: Ranges | None = None,
    principal: str = "ann",
    user: str = "root",
    cluster: Cluster = CLUSTER,
    namespace: str = "",
    at_ms: int = NOW_MS,
    left_s: float = 5.0,
    **changes: Any,
) -> Order:
    """A signed order; `changes` are made to its authority before it is signed."""
    authority = msgspec.structs.replace(service_orders.valid_for(user, at_ms, left_s), **changes)
    bare = order_of(tag, service, payload, targets, 1)
    content = service_orders.content_of(cluster, bare, authority)
    signature = sign(content, namespace or namespace_of(service), principal)
    signed = msgspec.structs.replace(authority, signature=signature)
    return msgspec.structs.replace(bare, authority=service_orders.encode(signed))
