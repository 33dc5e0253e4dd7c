"""A roster (rows that name their leaders) arranged as a tree in drawing order.

The result is flat: rows in depth-first order with their depth, each row of the roster exactly once. The owner heads
the first tree. Rows that it does not reach head trees of their own and say why. Leaders may form circles. Nothing
recurses, so chains of any length are possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import asdict

from subord.api.models.document import Address
from subord.api.models.members import MemberDocument, RosterDocument, TreeDocument, TreeRow
from subord.api.models.nesting import nested
from subord.core.view import Place


def tree(
    roster: RosterDocument,
    note: str | None = None,
    gone: tuple[MemberDocument, ...] = (),
    reasons: Mapping[Address, str] = {},
) -> TreeDocument:
    """Arrange a roster and the nodes that are gone from it. Every one occurs exactly once in the result.

    `note`: why it is not the whole tree. `reasons`: of nodes under maintenance.
    """
    present = {row.address for row in roster.rows}
    away = [each for each in gone if each.address not in present]
    rows = tuple(_with_reason(row, reasons) for row in arranged((*roster.rows, *away)))
    live = [row for row in rows if row.standing in {"live", "held"}]
    standings = Counter(row.standing for row in rows)
    return TreeDocument(
        nodes=len(live),
        at_home=sum(row.place is not Place.GUEST for row in live),
        depth=max((row.real_level for row in live), default=0),
        stale=standings["stale"],
        missing=standings["missing"],
        held=standings["held"],
        gone=standings["gone"],
        down=standings["missing"] + standings["gone"],
        maintained=sum(row.maintenance is not None for row in rows),
        asked=roster.owner,
        complete=note is None,
        note=note,
        quiet_s=roster.quiet_s,
        rows=rows,
        refused=roster.refused,
    )


def _with_reason(row: TreeRow, reasons: Mapping[Address, str]) -> TreeRow:
    reason = reasons.get(row.address)
    return row if reason is None else msgspec.structs.replace(row, maintenance=reason)


def _tree_row(row: MemberDocument, real_level: int, apart: str | None) -> TreeRow:
    known = {"incarnation": None, "offset": 0, **asdict(row)}
    return TreeRow(**known, real_level=real_level, apart=apart)


def arranged(rows: Sequence[MemberDocument]) -> Iterator[TreeRow]:
    """The rows depth first, subordinates by position; the first row heads the first tree."""
    subordinates: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        if row.leader is not None:
            subordinates.setdefault(row.leader, []).append(index)
    for branch in subordinates.values():
        branch.sort(key=lambda index: rows[index].position, reverse=True)
    seen: set[int] = set()
    known: set[str] = set()
    for top, apart in _tops(rows, seen):
        stack = [(top, 0)]
        while stack:
            index, depth = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            row = rows[index]
            yield _tree_row(row, depth, apart if index == top else None)
            # Of two rows with one address the first one gets the subordinates.
            if row.address not in known:
                known.add(row.address)
                stack += [(below, depth + 1) for below in subordinates.get(row.address, ())]


def _tops(rows: Sequence[MemberDocument], seen: set[int]) -> Iterator[tuple[int, str | None]]:
    """Which rows head a tree, and why, except the first. Evaluated lazily: `seen` grows between the results."""
    if rows:
        yield 0, None
    present = {row.address for row in rows}
    by_position = sorted(range(len(rows)), key=lambda index: rows[index].position)
    for index in by_position:
        leader = rows[index].leader
        if index not in seen and leader not in present:
            yield index, _apart(rows[index])
    for index in by_position:
        if index not in seen:
            yield index, "is led in a circle"


def _apart(row: MemberDocument) -> str:
    """Why a row without its leader heads a tree."""
    if row.standing == "gone":
        return "was the root, or its last leader is not known" if row.leader is None else f"last below {row.leader}"
    return "has no leader" if row.leader is None else f"its leader {row.leader} is not in this roster"


def encoded(document: TreeDocument) -> bytes:
    """The nested form: `{..., "roots": [{..., "subordinates": [...]}]}`."""
    head = msgspec.to_builtins(document)
    del head["rows"]
    encode = msgspec.json.encode
    rows = ((row.real_level, encode(row).decode()) for row in document.rows)
    return "".join(nested(encode(head).decode(), rows)).encode()
