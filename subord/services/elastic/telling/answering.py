"""What a node answers to a question about elastic growth.

Input is the state of the node; output is a result within its bounds. Invariants: nodes that do not have the queue and
take part in the same way say the same; of nodes and reasons that have no room the number is told.
"""

from __future__ import annotations

from math import isfinite
from typing import Final

import msgspec
import trio

from subord.api.node_api import NodeApi
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.runtime.elastic.state import MANAGES, NodeState, State
from subord.services.decoding import fitting
from subord.services.elastic.telling.words import COUNT_MAX, Managing, Told, ToldNode, encode

WHY_BYTES_MAX: Final = RESULT_BYTES_MAX // 4
SPARE_BYTES: Final = 32
"""For the lengths of lists, and the number of nodes that are left out."""
SECONDS_MAX: Final = float(1 << 53)


async def answer(node: NodeApi, _: bytes) -> bytes:
    """The result of a node."""
    await trio.lowlevel.checkpoint()
    return encode(told(node))


def told(node: NodeApi) -> Told:
    """How the node takes part; the queue's node tells what it sees."""
    state, own = node.elastic.state, node.elastic
    said = Told(state.word, state.detail, state.version, state.batch or own.batch, own.kinds)
    if not (state.word == MANAGES or state.at or state.nodes):
        return said
    room = RESULT_BYTES_MAX - len(encode(said)) - SPARE_BYTES
    return msgspec.structs.replace(said, managing=_managing(state, node.tracker.wall_ms / 1000, room))


def _managing(state: State, now: float, room: int) -> Managing:
    """In at most `room` bytes."""
    why = fitting(state.why, WHY_BYTES_MAX)
    found = Managing(
        now=now,
        is_trial=state.is_trial,
        queue=state.queue,
        master=state.master,
        at=_seconds(state.at),
        next_at=_seconds(state.next_at),
        fault=state.fault,
        why=why,
        needed=_count(state.needed),
        queued=_count(state.queued),
        running=_count(state.running),
        slots=_count(state.slots),
        free=_count(state.free),
        oldest_s=_seconds(state.oldest_s),
        size=_count(state.size),
        min_nodes=_count(state.min_nodes),
        max_nodes=_count(state.max_nodes),
        changed_at=_seconds(state.changed_at),
        blocked_since=_seconds(state.blocked_since),
        added=_count(state.added),
        removed=_count(state.removed),
        undone=_count(state.undone),
        why_left_out=len(state.why) - len(why),
    )
    nodes = fitting([_node(each) for each in state.nodes], room - len(encode(found)))
    left_out = _count(state.left_out) + len(state.nodes) - len(nodes)
    return msgspec.structs.replace(found, nodes=nodes, left_out=left_out)


def _node(found: NodeState) -> ToldNode:
    return ToldNode(
        name=found.name,
        address=found.address,
        stage=found.stage,
        since=int(_seconds(found.since)),
        tries=_count(found.tries),
        fault=found.fault,
        slots=_count(found.slots),
        used=_count(found.used),
        jobs=_count(found.jobs),
        paid_since=None if found.paid_since is None else int(_seconds(found.paid_since)),
        idle_since=None if found.idle_since is None else int(_seconds(found.idle_since)),
        kind=found.kind,
        is_master=found.is_master,
    )


def _seconds(found: float) -> float:
    """0 for what is no time, such as minus infinity of jobs of which none waits."""
    return min(max(found, 0.0), SECONDS_MAX) if isfinite(found) else 0.0


def _count(found: int) -> int:
    return min(max(found, 0), COUNT_MAX)
