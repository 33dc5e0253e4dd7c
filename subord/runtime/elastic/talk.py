"""What the agent of a node and its daemon say to each other about elastic growth, once the agent has the plan.

The agent tells states; the daemon asks for a poll, and otherwise listens. The connection ends with the Done of a
document (runtime/orders/agent.py). Invariants: what is encoded is within the bounds of a State, whatever a batch
system or a supplier has said; what is decoded is, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from subord.core.decoding import UNREADABLE
from subord.runtime.elastic.state import NODES_MAX, POLLS_MAX, TEXT_CHARS_MAX, WHY_MAX, NodeState, State

FRAME_BYTES_MAX: Final = 4 << 20
"""Of a State in which each text has its full length, in four bytes a character."""


class Said(msgspec.Struct, frozen=True, array_like=True, tag="elastic"):
    """How the node takes part now."""

    state: State


class PollSoon(msgspec.Struct, frozen=True, array_like=True, tag="poll"):
    """The queue may be another one: look at it now."""


_said: Final = msgspec.msgpack.Decoder(Said)
_asked: Final = msgspec.msgpack.Decoder(PollSoon)


def decode_said(data: bytes) -> Said | None:
    """None: it is the end, or cannot be read."""
    try:
        return _said.decode(data)
    except UNREADABLE:
        return None


def encode_poll_soon() -> bytes:
    """Without its length."""
    return msgspec.msgpack.encode(PollSoon())


def is_poll_soon(data: bytes) -> bool:
    """Whether the daemon says this; what it cannot say in this release is passed over."""
    try:
        _asked.decode(data)
    except UNREADABLE:
        return False
    return True


def encode_said(state: State) -> bytes:
    """Without its length."""
    return msgspec.msgpack.encode(Said(fitted(state)))


def fitted(state: State) -> State:
    """Within its bounds: longer texts are cut, the last nodes are counted in `left_out`, and the last polls stay."""
    return msgspec.structs.replace(
        state,
        detail=_cut(state.detail),
        batch=_cut(state.batch),
        queue=_cut(state.queue),
        master=_cut(state.master),
        fault=_cut(state.fault),
        why=_cut_all(state.why[:WHY_MAX]),
        nodes=tuple(map(_fitted_node, state.nodes[:NODES_MAX])),
        left_out=state.left_out + max(0, len(state.nodes) - NODES_MAX),
        polls=state.polls[-POLLS_MAX:],
    )


def _fitted_node(node: NodeState) -> NodeState:
    texts = ("name", "address", "stage", "fault", "kind")
    if all(len(getattr(node, each)) <= TEXT_CHARS_MAX for each in texts):
        return node
    return msgspec.structs.replace(node, **{each: _cut(getattr(node, each)) for each in texts})


def _cut_all(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_cut, texts))


def _cut(text: str) -> str:
    return text[:TEXT_CHARS_MAX]
