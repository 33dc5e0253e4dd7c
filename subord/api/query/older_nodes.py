"""Questions to nodes of releases before orders, one by one: the version and the key ring of each.

Every release answers a question for its status over a stream. A cluster has such nodes only while it is upgraded, so
at most NODES_MAX are asked, ASKED_AT_ONCE_MAX at a time. Release 0.4 drops this module, and asks no such node.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import msgspec
import trio

from subord.api.models.fields import SealDocument
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query.peer import ask
from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Position

ASKED_AT_ONCE_MAX: Final = 32
NODES_MAX: Final = 256


class OlderNode(msgspec.Struct, frozen=True):
    """What is read of its status. `seal` None: it seals nothing."""

    version: Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9A-Za-z.+-]+\Z")]
    seal: SealDocument | None


async def statuses(node: NodeApi, positions: Ranges, left_s: float) -> dict[Position, OlderNode]:
    """Of those that answer within `left_s`."""
    found: dict[Position, OlderNode] = {}
    slots = trio.Semaphore(ASKED_AT_ONCE_MAX)
    until = trio.current_time() + left_s

    async def ask_one(position: Position) -> None:
        address = node.settings.network.address_text_of(position)
        async with slots:
            told = await ask(node, address, "status", OlderNode, max(0.0, until - trio.current_time()))
        if not isinstance(told, AskFailure):
            found[position] = told

    with trio.move_on_at(until):
        async with trio.open_nursery() as nursery:
            for each in islice(positions, NODES_MAX):
                nursery.start_soon(ask_one, each)
    return found
