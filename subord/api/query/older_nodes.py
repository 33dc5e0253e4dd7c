"""Questions to nodes of releases before orders, over streams.

Each tells its version and its key ring, one by one: every release answers for its status. At most NODES_MAX are
asked, ASKED_AT_ONCE_MAX at a time, because a cluster has such nodes only while it is upgraded. If the root is one of
them, it asks all nodes in the way of its release, and this release answers it (handlers/peer_answers.py). Release 0.4
drops this module, and asks no such node.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final, NamedTuple

import msgspec
import trio

from subord.api.models import nodes
from subord.api.models.fields import SealDocument
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query.peer import ask
from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Position
from subord.runtime.net.peer_query import Topic, Words

WHOLE_TREE: Final[Words] = ("everybody",)
"""The words of a question to the root: include nodes that are away."""
ASKED_AT_ONCE_MAX: Final = 32
NODES_MAX: Final = 256


class OlderNode(msgspec.Struct, frozen=True):
    """What is read of its status. `seal` None: it seals nothing."""

    version: Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9A-Za-z.+-]+\Z")]
    seal: SealDocument | None


class OlderQuestion(NamedTuple):
    """The question for a report of the whole tree, in the releases before orders."""

    topic: Topic
    form: type[msgspec.Struct]


async def report_of_root(node: NodeApi, question: OlderQuestion, left_s: float) -> msgspec.Struct | None:
    """What a root of an older release finds out; None: it does not answer, or does not know the question."""
    root = nodes.address(node.settings, node.snapshot().root)
    if root is None or root == node.address:
        return None
    told = await ask(node, root, question.topic, question.form, max(0.0, left_s), words=WHOLE_TREE)
    return None if isinstance(told, AskFailure) else told


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
