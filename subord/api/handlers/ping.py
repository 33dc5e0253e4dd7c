"""`/v1/ping`: which nodes answer, over the tree, and which do not and why.

Input: `?nodes=1-3,7`, positions, without it all members; `?budget=SECONDS`. Output: a document with the coverage.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

import msgspec
import trio

from subord.api.models import nodes
from subord.api.models.coverage import LevelDocument, MissingDocument, PingDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.engine.causes import sentence
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime.orders.services import PING, Pong
from subord.wire.codec import UNREADABLE

NAMED_MAX = 512
"""Addresses of one cause; `count` counts all."""


class WrongTargetsError(Exception):
    """The positions of a request cannot be read, or are not of the network."""


def targets_of(text: str | None, size: int) -> Ranges | None:
    """`1-3,7`; None: all members. Raises WrongTargetsError."""
    if text is None:
        return None
    pairs = []
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        try:
            pair = int(first), int(last if dash else first)
        except ValueError:
            raise WrongTargetsError(f"{piece[:32]!r} is no range of positions") from None
        if not 0 < pair[0] <= pair[1] <= size:
            raise WrongTargetsError(f"{piece[:32]} is outside the network")
        pairs.append(pair)
    return Ranges.of_pairs(pairs)


async def find(node: NodeApi, targets: Ranges | None, budget_s: float) -> PingDocument:
    """The answer of the targets."""
    began = trio.current_time()
    answer = await node.orders.order(PING, b"", targets, budget_s)
    levels = defaultdict[int, list[tuple[int, int]]](list)
    for result, told in answer.groups:
        try:
            pong = msgspec.msgpack.decode(result, type=Pong)
        except UNREADABLE:
            continue
        levels[pong.level].append((len(told), pong.round_trip_class))
    return PingDocument(
        asked=len(answer.targets),
        told=answer.told,
        complete=answer.is_whole,
        missing=missing(node, answer),
        oldest_ms=round((trio.current_time() - began) * 1000, 1),
        levels=tuple(_level(level, found) for level, found in sorted(levels.items())),
    )


def _level(level: int, found: list[tuple[int, int]]) -> LevelDocument:
    slowest = max(each for _, each in found)
    return LevelDocument(
        level=level,
        nodes=sum(count for count, _ in found),
        round_trip_ms_max=round((1 << slowest) / 1000, 3) if slowest else None,
    )


def missing(node: NodeApi, answer: Answer) -> tuple[MissingDocument, ...]:
    """The nodes without result, by cause."""
    return tuple(
        MissingDocument(
            cause=cause,
            text=sentence(cause),
            count=len(positions),
            addresses=nodes.addresses(node.settings, islice(positions, NAMED_MAX)),
        )
        for cause, positions in answer.missing
        if positions
    )
