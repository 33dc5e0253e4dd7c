"""What the agent of a node says to its daemon about transfer queues, once the agent has the plan.

The daemon listens. The connection ends with the Done of a document (runtime/orders/agent.py). Invariant: what is
encoded is within the bounds of a State, whatever a batch system or the other cluster has said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from subord.core.decoding import UNREADABLE
from subord.runtime.transfer.state import (
    JOBS_MAX,
    SHORT_CHARS_MAX,
    TEXT_CHARS_MAX,
    WORDS_MAX,
    JobState,
    State,
)

FRAME_BYTES_MAX: Final = 4 << 20
"""Of a State in which each text has its full length, in four bytes a character."""
_TEXTS: Final = (
    "detail",
    "batch",
    "fault",
    "link_fault",
    "listening_fault",
    "key_fault",
    "sensor_fault",
    "unit_fault",
    "refused_last",
    "file_fault",
)
_SHORTS: Final = ("cluster", "peer")
_NUMBERS: Final = (
    "leaving",
    "coming",
    "left",
    "taken",
    "messages",
    "bytes",
    "refusals",
    "failures",
    "files",
    "file_failures",
    "waiting",
    "spool",
)


class Said(msgspec.Struct, frozen=True, array_like=True, tag="transfer"):
    """How the node takes part now."""

    state: State


_said: Final = msgspec.msgpack.Decoder(Said)


def decode_said(data: bytes) -> Said | None:
    """None: it is the end, or cannot be read."""
    try:
        return _said.decode(data)
    except UNREADABLE:
        return None


def encode_said(state: State) -> bytes:
    """Without its length."""
    return msgspec.msgpack.encode(Said(fitted(state)))


def fitted(state: State) -> State:
    """Within its bounds: longer texts are cut, and the last jobs are counted in `left_out`."""
    return msgspec.structs.replace(
        state,
        **{each: getattr(state, each)[:TEXT_CHARS_MAX] for each in _TEXTS},
        **{each: getattr(state, each)[:SHORT_CHARS_MAX] for each in _SHORTS},
        **{each: _few(getattr(state, each)) for each in _NUMBERS},
        jobs=tuple(map(_fitted_job, state.jobs[:JOBS_MAX])),
        left_out=state.left_out + max(0, len(state.jobs) - JOBS_MAX),
    )


def _few(numbers: Mapping[str, int]) -> dict[str, int]:
    return {name[:SHORT_CHARS_MAX]: number for name, number in list(numbers.items())[:WORDS_MAX]}


def _fitted_job(job: JobState) -> JobState:
    shorts = ("way", "job", "user", "state", "id", "being", "wanted", "end", "host")
    if all(len(getattr(job, each)) <= SHORT_CHARS_MAX for each in shorts) and len(job.reason) <= TEXT_CHARS_MAX:
        return job
    cut = {each: getattr(job, each)[:SHORT_CHARS_MAX] for each in shorts}
    return msgspec.structs.replace(job, **cut, reason=job.reason[:TEXT_CHARS_MAX])
