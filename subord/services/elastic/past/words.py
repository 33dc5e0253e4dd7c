"""What the queue's node is asked for the page, and what it answers, in MessagePack.

Times are ages, so clocks that differ do no harm. Invariant: what cannot be read is None, never an error: a member may
send anything. The tag is a word, so it is of no other question of the service.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.runtime.elastic.state import STAGES, TEXT_CHARS_MAX
from subord.services.decoding import Reader, reader

SERVICE: Final = "elastic"
POINTS_MAX: Final = 240
"""Of a curve."""
WHY_MAX: Final = 8
"""Sentences of the last decision."""

_Number = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Numbers = Annotated[tuple[_Number, ...], msgspec.Meta(max_length=POINTS_MAX)]
_Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]


class AskPast(msgspec.Struct, frozen=True, array_like=True, tag="past"):
    """How it manages the cluster, and what its last polls have seen."""


class SaidStage(msgspec.Struct, frozen=True, array_like=True):
    """Nodes in one stage other than serving. `longest_s`: how long one of them has been there. `fault`: of one of
    them, "": none has failed."""

    stage: _Word
    nodes: _Number
    longest_s: _Number
    fault: _Text


class SaidFigures(msgspec.Struct, frozen=True, array_like=True):
    """Of the last poll that succeeded. `blocked_s`: how long nodes have been wanted and none added; 0: that is not
    so."""

    age_s: _Number
    size: _Number
    min_nodes: _Number
    max_nodes: _Number
    needed: _Number
    queued: _Number
    running: _Number
    blocked_s: _Number


class SaidPast(msgspec.Struct, frozen=True, array_like=True, tag="past"):
    """`word`, `detail`: how the node takes part. `figures`: None: no poll has succeeded. `fault`: of the last poll.
    `why`: of the last decision. The rest are points of curves, the oldest first; of each time between two of them
    the most jobs that waited."""

    word: _Word
    detail: _Text
    version: _Number
    is_trial: bool
    figures: SaidFigures | None
    fault: _Text
    why: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=WHY_MAX)]
    stages: Annotated[tuple[SaidStage, ...], msgspec.Meta(max_length=len(STAGES))]
    ages_s: _Numbers
    num_hosts: _Numbers
    running: _Numbers
    queued: _Numbers

    def __post_init__(self) -> None:
        if not len(self.ages_s) == len(self.num_hosts) == len(self.running) == len(self.queued):
            raise ValueError("not as many numbers as times")


encode: Final = msgspec.msgpack.Encoder().encode
decode_ask: Reader[AskPast] = reader(AskPast)
decode_said: Reader[SaidPast] = reader(SaidPast)
