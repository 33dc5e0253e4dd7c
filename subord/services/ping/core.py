"""What a node answers to a ping, and what the issuer makes of it.

Inputs are the place of the node and the round trip that the kernel measures on its edge; output is a PingDocument.
Round trips are told in classes of a factor of two, so that many nodes answer alike.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Final

import msgspec
import trio

from subord.api.models.coverage import CoverageDocument, LevelDocument, PingDocument
from subord.api.node_api import NodeApi
from subord.core.decoding import UNREADABLE
from subord.core.vacancies.branch_index import LEVEL_MAX
from subord.services.contract import Answered, Service
from subord.services.serving import of_coverage

CLASS_MAX: Final = 40
"""Of round trips of days."""


class Pong(msgspec.Struct, frozen=True, array_like=True):
    """`level`: leaders above the node; `round_trip_class`: of the edge to its leader. Both come from other nodes, so
    they have bounds."""

    level: Annotated[int, msgspec.Meta(ge=0, le=LEVEL_MAX)]
    round_trip_class: Annotated[int, msgspec.Meta(ge=0, le=CLASS_MAX)]


def class_of(round_trip_s: float) -> int:
    """Round trips of less than 2^class microseconds; 0: unknown."""
    return min(max(0, int(round_trip_s * 1e6)).bit_length(), CLASS_MAX)


async def answer(node: NodeApi, _: bytes) -> bytes:
    """The result of this node. The payload is not read: a request may have one to measure larger orders."""
    await trio.lowlevel.checkpoint()
    return msgspec.msgpack.encode(Pong(len(node.snapshot().path), class_of(node.orders.leader_round_trip_s)))


def document(answered: Answered) -> CoverageDocument:
    """The coverage, and the nodes of each level."""
    levels = defaultdict[int, list[tuple[int, int]]](list)
    for result, told in answered.answer.groups:
        try:
            pong = msgspec.msgpack.decode(result, type=Pong)
        except UNREADABLE:
            continue
        levels[pong.level].append((len(told), pong.round_trip_class))
    shown = tuple(_level(level, found) for level, found in sorted(levels.items()))
    return of_coverage(PingDocument, answered, levels=shown)


def _level(level: int, found: list[tuple[int, int]]) -> LevelDocument:
    slowest = max(each for _, each in found)
    return LevelDocument(
        level=level,
        nodes=sum(count for count, _ in found),
        round_trip_ms_max=round((1 << slowest) / 1000, 3) if slowest else None,
    )


SERVICE = Service(answer, document, payload=str.encode)
