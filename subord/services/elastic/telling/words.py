"""What a node says of elastic growth, on the wire.

Times are seconds since 1970 by the clock of the node; whole ones of nodes, so that a State of many nodes has room in
one result. Invariant: what is decoded is within its bounds, so it can be shown.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.config.schema import ELASTIC_ENTRIES_MAX
from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.runtime.elastic.state import NODES_MAX, TEXT_CHARS_MAX, WHY_MAX
from subord.services.decoding import Reader, reader

SERVICE: Final = "elastic"
COUNT_MAX: Final = 1 << 40

_Version = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]


class ToldNode(msgspec.Struct, frozen=True, array_like=True):
    """A node of the cluster, as in NodeState (runtime/elastic/state.py)."""

    name: _Text
    address: _Text
    stage: _Text
    since: int
    tries: _Count
    fault: _Text
    slots: _Count
    used: _Count
    jobs: _Count
    paid_since: int | None
    idle_since: int | None
    kind: _Text
    is_master: bool


class Managing(msgspec.Struct, frozen=True, array_like=True):
    """What a node that has the queue sees and decides, as in State. `now`: its clock. The last two numbers count
    nodes and sentences that had no room."""

    now: float
    is_trial: bool
    queue: _Text
    master: _Text
    at: float
    next_at: float
    fault: _Text
    why: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=WHY_MAX)]
    needed: _Count
    queued: _Count
    running: _Count
    slots: _Count
    free: _Count
    oldest_s: float
    size: _Count
    min_nodes: _Count
    max_nodes: _Count
    changed_at: float
    blocked_since: float
    added: _Count
    removed: _Count
    undone: _Count
    nodes: Annotated[tuple[ToldNode, ...], msgspec.Meta(max_length=NODES_MAX)] = ()
    left_out: _Count = 0
    why_left_out: _Count = 0


class Told(msgspec.Struct, frozen=True, array_like=True):
    """The answer of a node. `word`: of runtime/elastic/state.py. `version`: of the plan. `batch`, `kinds`: of its
    configuration. `managing`: only of a node that has the queue."""

    word: _Word
    detail: _Text = ""
    version: _Version = 0
    batch: _Text = ""
    kinds: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    managing: Managing | None = None


encode: Final = msgspec.msgpack.Encoder().encode
decode_told: Reader[Told] = reader(Told)
