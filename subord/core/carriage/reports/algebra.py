"""Values of reports that can be folded with others of their kind in any order and grouping.

Inputs and outputs are values. Invariants: merging is commutative and associative, `Kind()` changes nothing, and no
value grows beyond its bound, however many are merged. Only `Nodes` that were cut depend on the grouping: they keep a
true part, and say so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite, isnan
from typing import Annotated, Any, Final

import msgspec

from subord.core.carriage.engine.ranges import NONE, POSITION_MAX, Ranges
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.core.carriage.reports.sketch import Flat, bucket_of, flat, fold, ordered, unflat
from subord.core.view import Position

WHOLE_MAX: Final = 1 << 62
PARTS: Final = 1_000_000  # of one, of a sum
TOP_MAX: Final = 16
NODES_BYTES_MAX: Final = 2_000
LABELS_MAX: Final = 128
LABEL_BYTES_MAX: Final = 48
LATEST_BYTES_MAX: Final = 256

_Number = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Position = Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]


class Count(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """How many; it stays at COUNT_MAX."""

    value: _Number = 0

    @staticmethod
    def merge(values: Iterable[Count]) -> Count:
        return Count(min(sum(each.value for each in values), COUNT_MAX))


class Sum(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A sum in millionths, so it is exact in any order. It stays at 2^62 of either sign."""

    whole: Annotated[int, msgspec.Meta(ge=-WHOLE_MAX, le=WHOLE_MAX)] = 0
    millionths: Annotated[int, msgspec.Meta(ge=0, lt=PARTS)] = 0

    @staticmethod
    def of(value: float) -> Sum:
        """Raises ValueError when it is no number."""
        if not isfinite(value):
            raise ValueError("no number")
        return Sum._of(round(max(-WHOLE_MAX, min(value, WHOLE_MAX)) * PARTS))

    @staticmethod
    def _of(parts: int) -> Sum:
        return Sum(*divmod(max(-WHOLE_MAX * PARTS, min(parts, WHOLE_MAX * PARTS)), PARTS))

    @property
    def value(self) -> float:
        return self.whole + self.millionths / PARTS

    @staticmethod
    def merge(values: Iterable[Sum]) -> Sum:
        return Sum._of(sum(each.whole * PARTS + each.millionths for each in values))


class Min(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The smallest; infinity: of none."""

    value: float = inf

    def __post_init__(self) -> None:
        _demand_number(self.value)

    @staticmethod
    def merge(values: Iterable[Min]) -> Min:
        return Min(min((each.value for each in values), default=inf))


class Max(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The largest; minus infinity: of none."""

    value: float = -inf

    def __post_init__(self) -> None:
        _demand_number(self.value)

    @staticmethod
    def merge(values: Iterable[Max]) -> Max:
        return Max(max((each.value for each in values), default=-inf))


class Quantiles(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """How values are distributed (sketch.py). `above`, `below`: buckets of positive values, and of the amounts of
    negative ones."""

    zeros: _Number = 0
    above: Flat = ()
    below: Flat = ()

    def __post_init__(self) -> None:
        unflat(self.above)
        unflat(self.below)

    @staticmethod
    def of(*values: float) -> Quantiles:
        """Of these values. Raises ValueError when one is no number."""
        zeros, above, below = 0, defaultdict[int, int](int), defaultdict[int, int](int)
        for value in values:
            _demand_number(value)
            bucket = bucket_of(abs(value))
            if bucket is None:
                zeros += 1
            else:
                (above if value > 0 else below)[bucket] += 1
        return Quantiles(zeros, flat(above), flat(below))

    @property
    def count(self) -> int:
        return self.zeros + sum(self.above[1::2]) + sum(self.below[1::2])

    def at(self, share: float) -> float | None:
        """The value that this share of all values does not exceed; None: there are none."""
        rank = share * (self.count - 1)
        for value, times in ordered(self.zeros, self.above, self.below):
            rank -= times
            if rank < 0:
                return value
        return None

    @staticmethod
    def merge(values: Sequence[Quantiles]) -> Quantiles:
        zeros = min(sum(each.zeros for each in values), COUNT_MAX)
        return Quantiles(zeros, fold(each.above for each in values), fold(each.below for each in values))


class Top(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The largest values with their nodes, the largest first; of two equal ones that of the lower position."""

    entries: Annotated[tuple[tuple[float, _Position], ...], msgspec.Meta(max_length=TOP_MAX)] = ()

    def __post_init__(self) -> None:
        for value, _ in self.entries:
            _demand_number(value)
        nodes = {position for _, position in self.entries}
        if list(self.entries) != sorted(self.entries, key=_of_top) or len(nodes) < len(self.entries):
            raise ValueError("not in order, or a node twice")

    @staticmethod
    def of(value: float, position: Position) -> Top:
        return Top(((float(value), position),))

    @staticmethod
    def merge(values: Iterable[Top]) -> Top:
        best: dict[Position, float] = {}
        for each in values:
            for value, position in each.entries:
                best[position] = max(value, best.get(position, -inf))
        entries = sorted(((value, position) for position, value in best.items()), key=_of_top)
        return Top(tuple(entries[:TOP_MAX]))


class Nodes(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A set of nodes. `is_cut`: there are more, with higher positions, than fit."""

    numbers: tuple[Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)], ...] = ()
    is_cut: bool = False

    def __post_init__(self) -> None:
        if self.ranges.wire_bytes > NODES_BYTES_MAX:
            raise ValueError("too many ranges")

    @staticmethod
    def of(positions: Iterable[Position]) -> Nodes:
        return Nodes._of(Ranges.of(positions), is_cut=False)

    @staticmethod
    def _of(ranges: Ranges, *, is_cut: bool) -> Nodes:
        kept = next(ranges.chunks(NODES_BYTES_MAX), NONE)
        return Nodes(kept.flat(), is_cut or kept != ranges)

    @property
    def ranges(self) -> Ranges:
        return Ranges.unflat(self.numbers)

    @staticmethod
    def merge(values: Sequence[Nodes]) -> Nodes:
        union = Ranges.of_pairs(pair for each in values for pair in each.ranges.pairs)
        return Nodes._of(union, is_cut=any(each.is_cut for each in values))


Scalar = Count | Sum | Min | Max
SCALARS: Final = (Count, Sum, Min, Max)


class Tally(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A value for each label. The first LABELS_MAX labels in the order of the alphabet are kept, so that every
    grouping keeps the same ones; `other` is the fold of the rest."""

    labels: dict[str, Scalar] = {}
    other: Scalar | None = None

    def __post_init__(self) -> None:
        if len(self.labels) > LABELS_MAX or any(len(each.encode()) > LABEL_BYTES_MAX for each in self.labels):
            raise ValueError("too many labels, or a long one")

    @staticmethod
    def of(labels: Mapping[str, Scalar]) -> Tally:
        """Long labels are cut."""
        found = defaultdict[str, list[Scalar]](list)
        for label, value in labels.items():
            found[label.encode()[:LABEL_BYTES_MAX].decode(errors="ignore")].append(value)
        return Tally._of(found, [])

    @staticmethod
    def _of(found: Mapping[str, list[Scalar]], others: list[Scalar]) -> Tally:
        kept = sorted(found)
        rest = others + [value for label in kept[LABELS_MAX:] for value in found[label]]
        return Tally({label: _folded(found[label]) for label in kept[:LABELS_MAX]}, _folded(rest) if rest else None)

    @staticmethod
    def merge(values: Iterable[Tally]) -> Tally:
        found, others = defaultdict[str, list[Scalar]](list), list[Scalar]()
        for each in values:
            for label, value in each.labels.items():
                found[label].append(value)
            others += [] if each.other is None else [each.other]
        return Tally._of(found, others)


class Latest(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The data with the greatest revision, of two equal ones that of the higher position. The service numbers the
    revisions; nodes do not compare their clocks."""

    revision: _Number = 0
    node: Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)] = 0
    data: Annotated[bytes, msgspec.Meta(max_length=LATEST_BYTES_MAX)] = b""

    @staticmethod
    def merge(values: Iterable[Latest]) -> Latest:
        return max(values, key=lambda each: (each.revision, each.node, each.data), default=Latest())


def _folded(values: Sequence[Any]) -> Any:
    """Scalars of one label, as one: of different kinds the first one of SCALARS stays."""
    kind: Any = min(map(type, values), key=SCALARS.index)
    return kind.merge([each for each in values if type(each) is kind])


def _of_top(entry: tuple[float, Position]) -> tuple[float, Position]:
    return -entry[0], entry[1]


def _demand_number(value: float) -> None:
    if isnan(value):
        raise ValueError("not a number")
