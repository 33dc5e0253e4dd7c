"""The document of the orders at one node: those under way and the last ones that ended, with their coverage so far.

Input is what the engine of orders holds (core/carriage/engine/interface.py); no other node is asked.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from subord.api.models.document import Address, Count, Document
from subord.api.node_api import NodeApi
from subord.core.carriage.engine.bounds import ENDED_MAX, ORDERS_MAX, SERVICE_CHARS_MAX
from subord.core.carriage.engine.interface import Overview

PREFIX: Final = "order_"
"""Of the tables and of the words of dropped input that are those of the engine."""


class OrderUnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """An order at this node. `issuer`: the node at which a command gave it, null: no such address; `own`: this one.

    `asked`: targets of this node's part, 0 while they are not known; `told`: those with a result; `missing`: those
    with a cause so far. `since_s`: since the order came; `left_s`: until it ends.
    """

    service: Annotated[str, msgspec.Meta(max_length=SERVICE_CHARS_MAX)]
    issuer: Address | None
    own: bool
    asked: Count
    told: Count
    missing: Count
    since_s: float
    left_s: float


class EndedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An order that has ended. `took_s`: while this node held it; `since_s`: since it ended."""

    service: Annotated[str, msgspec.Meta(max_length=SERVICE_CHARS_MAX)]
    issuer: Address | None
    own: bool
    asked: Count
    told: Count
    missing: Count
    took_s: float
    since_s: float


class OrdersDocument(Document, frozen=True, kw_only=True):
    """`orders`: oldest first; `ended`: newest first. `dropped`: input of the engine since the start that did not
    count, by word. `tables`: entries by table."""

    address: Address
    orders: Annotated[tuple[OrderUnderWay, ...], msgspec.Meta(max_length=ORDERS_MAX)]
    ended: Annotated[tuple[EndedOrder, ...], msgspec.Meta(max_length=ENDED_MAX)]
    dropped: dict[str, Count]
    tables: dict[str, Count]


def orders(node: NodeApi) -> OrdersDocument:
    """The orders at this node."""
    return OrdersDocument(
        address=node.address,
        orders=tuple(
            OrderUnderWay(**_order(node, each), since_s=round(each.age_s, 3), left_s=round(each.left_s, 3))
            for each in node.orders.under_way()
        ),
        ended=tuple(
            EndedOrder(**_order(node, each), took_s=round(each.age_s, 3), since_s=round(ago_s, 3))
            for each, ago_s in node.orders.ended()
        ),
        dropped=_own_words(node.counters.dropped),
        tables=_own_words(node.orders.sizes()),
    )


def _order(node: NodeApi, each: Overview) -> dict[str, Any]:
    network = node.settings.network
    issuer = network.address_text_of(each.issuer) if 1 <= each.issuer <= network.size else None
    counts = {"asked": each.asked, "told": each.told, "missing": each.missing}
    return {"service": each.service, "issuer": issuer, "own": each.is_own, **counts}


def _own_words(counted: dict[str, int]) -> dict[str, int]:
    return {word.removeprefix(PREFIX): n for word, n in sorted(counted.items()) if word.startswith(PREFIX)}
