"""What the root is asked for the page, and what it answers, in MessagePack.

Invariant: what cannot be read is None, never an error: a member may send anything. The tags are words, so they are
of no other question of the service.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.api.models.shares import ClassName
from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.core.carriage.shares import bounds
from subord.services.decoding import Reader, reader
from subord.services.shares.past.ring import SLOTS, UNKNOWN

SERVICE: Final = "shares"
CURVES_MAX: Final = 6
NAMED_MAX: Final = 256
"""Branches without part in the decisions that are named; the nodes of others are counted."""
CAUSES_MAX: Final = 8
WHY_CHARS_MAX: Final = 200

_Number = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Numbers = Annotated[tuple[_Number, ...], msgspec.Meta(max_length=SLOTS)]
_Hundredths = Annotated[int, msgspec.Meta(ge=0, le=UNKNOWN)]
_Position = Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
_Series = Annotated[bytes, msgspec.Meta(max_length=2 * SLOTS)]


class AskPast(msgspec.Struct, frozen=True, array_like=True, tag="past"):
    """What it decides, now and in the last minutes."""


class SaidClass(msgspec.Struct, frozen=True, array_like=True):
    """A class now, in hundredths of a percent, or UNKNOWN."""

    name: ClassName
    wanted: _Hundredths
    got: _Hundredths
    used: _Hundredths
    is_needy: bool


class SaidCurve(msgspec.Struct, frozen=True, array_like=True):
    """A class of those at the moments: numbers of two bytes, little-endian."""

    name: ClassName
    wanted: _Series
    got: _Series
    used: _Series


class SaidLeftOut(msgspec.Struct, frozen=True, array_like=True):
    """Branches without part in the decisions, for one cause, and the nodes of all of them."""

    cause: Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
    nodes: _Number
    branches: Annotated[tuple[_Position, ...], msgspec.Meta(max_length=NAMED_MAX)]


class SaidPast(msgspec.Struct, frozen=True, array_like=True, tag="past"):
    """`told` of `asked` nodes are in the decisions. `oldest_ms`: of the reports. Moments: the oldest first.
    `is_young`: of a root that may not know all members yet."""

    is_root: bool
    version: _Number
    round_ms: _Number
    told: _Number
    asked: _Number
    oldest_ms: _Number
    undecided: Annotated[str, msgspec.Meta(max_length=WHY_CHARS_MAX)]
    left_out: Annotated[tuple[SaidLeftOut, ...], msgspec.Meta(max_length=CAUSES_MAX)]
    classes: Annotated[tuple[SaidClass, ...], msgspec.Meta(max_length=bounds.CLASSES_MAX)]
    every_ms: _Number
    ages_ms: _Numbers
    nodes_told: _Numbers
    nodes_asked: _Numbers
    curves: Annotated[tuple[SaidCurve, ...], msgspec.Meta(max_length=CURVES_MAX)]
    is_young: bool = False

    def __post_init__(self) -> None:
        moments = len(self.ages_ms)
        if not moments == len(self.nodes_told) == len(self.nodes_asked):
            raise ValueError("not as many numbers of nodes as moments")
        series = [each for curve in self.curves for each in (curve.wanted, curve.got, curve.used)]
        if any(len(each) != 2 * moments for each in series):
            raise ValueError("not as many values as moments")


encode: Final = msgspec.msgpack.Encoder().encode
decode_ask: Reader[AskPast] = reader(AskPast)
decode_said: Reader[SaidPast] = reader(SaidPast)
