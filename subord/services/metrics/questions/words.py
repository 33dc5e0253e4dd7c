"""What nodes are asked for beside the fold of their branch, and what they answer, in MessagePack.

Inputs are questions and answers, or their bytes; outputs are the bytes, or what they say. Invariant: what cannot be
read is None, never an error: a member may send anything.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec

from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.core.carriage.reports.bounds import COUNT_MAX, NAME_CHARS_MAX
from subord.core.decoding import UNREADABLE
from subord.services.decoding import Reader, reader

SERVICE: Final = "metrics"
SLOTS: Final = 180
"""Moments that a history has."""
HISTORY_S_MAX: Final = 1800
HISTORY_S_MIN: Final = 30
BELOW_MAX: Final = 1024
FIGURES: Final = ("mean", "least", "median", "greatest")
Figure = Literal["mean", "least", "median", "greatest"]

_Pattern = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Numbers = Annotated[tuple[_Number, ...], msgspec.Meta(max_length=SLOTS)]
_Position = Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
_Positions = Annotated[tuple[_Position, ...], msgspec.Meta(max_length=BELOW_MAX)]


class AskBranch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Of the metrics that fit `pattern`; "": all."""

    pattern: _Pattern


class AskPast(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """One figure of the same metrics, over the last seconds."""

    pattern: _Pattern
    seconds: Annotated[int, msgspec.Meta(ge=1, le=HISTORY_S_MAX)]
    figure: Figure


class SaidBranch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """`fold`: of the branch; `own`: of the node alone; both as a node answers for its branch. `below`: the
    subordinates."""

    fold: bytes
    own: bytes
    below: _Positions


class SaidPast(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Moments, the oldest first: how long ago, of how many nodes, and of how many they should be. `known_ms`: for how
    long the node knows. `series`: by name, a number of four bytes for each moment; NaN: none. `left_out`: further
    metrics. `is_young`: of a root that may not know all members yet."""

    below: _Positions
    is_root: bool
    known_ms: _Number
    ages_ms: _Numbers
    told: _Numbers
    asked: _Numbers
    series: Annotated[dict[_Pattern, bytes], msgspec.Meta(max_length=256)]
    left_out: _Number = 0
    is_young: bool = False

    def __post_init__(self) -> None:
        if not len(self.ages_ms) == len(self.told) == len(self.asked):
            raise ValueError("not as many numbers of nodes as moments")
        if any(len(each) != 4 * len(self.ages_ms) for each in self.series.values()):
            raise ValueError("not as many values as moments")


Ask = AskBranch | AskPast
Said = SaidBranch | SaidPast
SaidKind = TypeVar("SaidKind", SaidBranch, SaidPast)
decode_ask: Reader[Ask] = reader(Ask)
encode: Final = msgspec.msgpack.Encoder().encode


def decode_said(data: bytes, kind: type[SaidKind]) -> SaidKind | None:
    """The answer of a node."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except UNREADABLE:
        return None
