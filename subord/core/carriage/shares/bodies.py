"""The bodies of shares on the wire: 64, the report of a branch to its leader, and 65, the row of a leader for it.

The content of a report has 9 + 8 * classes bytes, as in the paper: the mark of the plan, the round, the number of
nodes; and for each class allocation and usage in thousandths of a ticket, with the backlog in the top bit of usage,
and below it, in 14 bits, the part of the nodes that have one. That of a row has 5 + 4 * classes bytes. Both are in
the lane of control: they are small and one in a round, and there older releases, which count them as unreadable, owe
no credit for them. Invariants: none names a time of day; a row that is read sums to 100 percent.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.carriage.engine.frames import Unreadable, decode_with
from subord.core.carriage.shares import bounds
from subord.core.carriage.shares.interface import Branch, Row
from subord.core.carriage.shares.plan import Plan

NUMBERS: Final = range(64, 80)
_HEAD: Final = struct.Struct("!BII")
_CLASS: Final = struct.Struct("!II")
_ROW_HEAD: Final = struct.Struct("!BI")
_SHARE: Final = struct.Struct("!I")
_USAGE_BITS: Final = 17
_USAGE_MAX: Final = (1 << _USAGE_BITS) - 1
"""131 percent; arithmetic refuses what is above 100."""
_PARTS: Final = (1 << 14) - 1
"""All nodes of a branch, in the bits between usage and the top bit."""
_NEEDY: Final = 1 << 31
REPORT_BYTES_MAX: Final = _HEAD.size + bounds.CLASSES_MAX * _CLASS.size
ROW_BYTES_MAX: Final = _ROW_HEAD.size + bounds.CLASSES_MAX * _SHARE.size

_Version = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class ReportFrame(msgspec.Struct, frozen=True, array_like=True, tag=64):
    """`plan`: the version of the sender's plan."""

    plan: _Version
    content: Annotated[bytes, msgspec.Meta(min_length=_HEAD.size, max_length=REPORT_BYTES_MAX)]


class RowFrame(msgspec.Struct, frozen=True, array_like=True, tag=65):
    """`plan`: the version of the sender's plan."""

    plan: _Version
    content: Annotated[bytes, msgspec.Meta(min_length=_ROW_HEAD.size, max_length=ROW_BYTES_MAX)]


class Told(NamedTuple):
    """What a subordinate says of its branch."""

    plan: int
    mark: int
    round: int
    branch: Branch


class Given(NamedTuple):
    """What a leader wants over all nodes of a branch, in percent."""

    plan: int
    mark: int
    round: int
    row: tuple[float, ...]


Body = Told | Given
_decoder: msgspec.msgpack.Decoder[ReportFrame | RowFrame] = msgspec.msgpack.Decoder(ReportFrame | RowFrame)


def report_frame(plan: Plan, number: int, branch: Branch) -> ReportFrame:
    """As a report is sent."""
    nodes = min(max(round(branch.nodes), 0), bounds.NODES_MAX)
    content = bytearray(_HEAD.pack(plan.mark, number, nodes))
    for allocation, usage, part in zip(branch.allocation, branch.usage, branch.needy, strict=True):
        content += _CLASS.pack(_counted(allocation), _counted(usage) | _backlog(part))
    return ReportFrame(plan.version, bytes(content))


def row_frame(plan: Plan, number: int, row: Row) -> RowFrame:
    """As a row is sent."""
    content = bytearray(_ROW_HEAD.pack(plan.mark, number))
    for each in thousandths(row):
        content += _SHARE.pack(each)
    return RowFrame(plan.version, bytes(content))


def decode(body: msgspec.Raw) -> Body:
    """A body within all bounds. Raises Unreadable."""
    found = decode_with(_decoder, body)
    return _told(found) if isinstance(found, ReportFrame) else _given(found)


def thousandths(row: Row) -> list[int]:
    """A row that sums to exactly 100 percent: the largest remainders are rounded up."""
    total = sum(row)
    exact = [each * bounds.THOUSANDTHS / total for each in row]
    found = [int(each) for each in exact]
    missing = bounds.THOUSANDTHS - sum(found)
    for place in sorted(range(len(row)), key=lambda place: found[place] - exact[place])[: max(0, missing)]:
        found[place] += 1
    return found


def percents(row: Sequence[int]) -> tuple[float, ...]:
    """Of thousandths."""
    return tuple(each / 1000 for each in row)


def _counted(percent: float) -> int:
    return min(max(round(percent * 1000), 0), _USAGE_MAX)


def _backlog(part: float) -> int:
    """The bits above usage. One needy node is told, however large its branch."""
    if not part > 0:
        return 0
    return _NEEDY | min(max(round(part * _PARTS), 1), _PARTS) << _USAGE_BITS


def _part(usage: int) -> float:
    """The part of the nodes that have a backlog. Raises Unreadable: the top bit says otherwise."""
    part = usage >> _USAGE_BITS & _PARTS
    if (usage >= _NEEDY) != (part > 0):
        raise Unreadable("a backlog on no node, or no backlog on some")
    return part / _PARTS


def _told(frame: ReportFrame) -> Told:
    mark, number, nodes = _HEAD.unpack_from(frame.content)
    classes = list(_CLASS.iter_unpack(_whole(frame.content[_HEAD.size :], _CLASS)))
    branch = Branch(
        percents([allocation for allocation, _ in classes]),
        percents([usage & _USAGE_MAX for _, usage in classes]),
        tuple(_part(usage) for _, usage in classes),
        nodes,
    )
    return Told(frame.plan, mark, number, branch)


def _given(frame: RowFrame) -> Given:
    mark, number = _ROW_HEAD.unpack_from(frame.content)
    row = [share for (share,) in _SHARE.iter_unpack(_whole(frame.content[_ROW_HEAD.size :], _SHARE))]
    if sum(row) != bounds.THOUSANDTHS or not all(row):
        raise Unreadable("no row of shares")
    return Given(frame.plan, mark, number, percents(row))


def _whole(data: bytes, form: struct.Struct) -> bytes:
    """Whole entries. Raises Unreadable."""
    if not data or len(data) % form.size:
        raise Unreadable("a part of a class")
    return data
