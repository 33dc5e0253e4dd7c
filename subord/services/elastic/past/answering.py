"""What the queue's node answers for the page.

Inputs are the state and the polls of the node, and questions; output is the answer. Invariant: it is bounded, however
many nodes and polls there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final

import msgspec
import trio

from subord.api.node_api import NodeApi
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.runtime.elastic.state import SERVING, STAGES, UNKNOWN, NodeState, Poll, State
from subord.services.elastic.past.words import (
    POINTS_MAX,
    WHY_MAX,
    SaidFigures,
    SaidPast,
    SaidStage,
    decode_ask,
    encode,
)

SPAN_S: Final = 3 * 3600.0
"""Of the curves."""
WHY_CHARS_MAX: Final = 1_500
"""Of all sentences together."""
FAULT_CHARS_MAX: Final = 160
"""Of a stage."""


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The result of a node; nothing for another question."""
    await trio.lowlevel.checkpoint()
    if decode_ask(payload) is None:
        return b""
    return encode(said(node.elastic.state, node.elastic.polls, node.tracker.wall_ms / 1000))


def said(found: State, polls: Sequence[Poll], now: float) -> SaidPast:
    """`now`: seconds since 1970."""
    points = list(_points([each for each in polls if now - SPAN_S <= each.time <= now]))
    return SaidPast(
        word=found.word,
        detail=found.detail,
        version=found.version,
        is_trial=found.is_trial,
        figures=_figures(found, now) if found.at else None,
        fault=found.fault,
        why=tuple(_why(found)),
        stages=tuple(_stages(found, now)),
        ages_s=tuple(_number(now - each.time) for each in points),
        num_hosts=tuple(_number(each.num_hosts) for each in points),
        running=tuple(_number(each.running) for each in points),
        queued=tuple(_number(each.queued) for each in points),
    )


def _figures(found: State, now: float) -> SaidFigures:
    return SaidFigures(
        age_s=_number(now - found.at),
        size=_number(found.size),
        min_nodes=_number(found.min_nodes),
        max_nodes=_number(found.max_nodes),
        needed=_number(found.needed),
        queued=_number(found.queued),
        running=_number(found.running),
        blocked_s=_number(now - found.blocked_since) if found.blocked_since else 0,
    )


def _why(found: State) -> Iterator[str]:
    """The first sentences, as many as have room."""
    room = WHY_CHARS_MAX
    for each in found.why[:WHY_MAX]:
        room -= len(each)
        if room < 0:
            return
        yield each


def _stages(found: State, now: float) -> Iterator[SaidStage]:
    """In their order."""
    for stage in (*(each for each in STAGES if each != SERVING), UNKNOWN):
        there = [each for each in found.nodes if each.stage == stage]
        if there:
            longest = max(now - each.since if each.since else 0.0 for each in there)
            yield SaidStage(stage, len(there), _number(longest), _fault(there))


def _fault(nodes: Sequence[NodeState]) -> str:
    """Of the node whose work has failed most often."""
    return max(nodes, key=lambda each: (each.fault != "", each.tries)).fault[:FAULT_CHARS_MAX]


def _points(polls: Sequence[Poll]) -> Iterator[Poll]:
    """At most POINTS_MAX: of some polls in a row the last one, with the most jobs that waited."""
    size = max(1, -(-len(polls) // POINTS_MAX))
    for first in range(0, len(polls), size):
        row = polls[first : first + size]
        yield msgspec.structs.replace(row[-1], queued=max(each.queued for each in row))


def _number(found: float) -> int:
    """0 for what is no count or age, such as the age of what is to come."""
    return int(min(max(0.0, found), COUNT_MAX)) if isfinite(found) else 0
