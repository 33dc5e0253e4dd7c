"""A roster (rows that name their leaders) arranged as a tree in drawing order.

The result is flat: rows in depth-first order with their depth, each row of the roster exactly once. The owner heads
the first tree. Rows that it does not reach head trees of their own and say why. Leaders may form circles. Nothing
recurses, so chains of any length are possible.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from subord.api.models.fields import RosterDocument, RowDocument, TreeDocument, TreeRow
from subord.api.models.nesting import nested


def tree(roster: RosterDocument, complete: bool, note: str | None) -> TreeDocument:
    """Arrange a roster. Every row occurs exactly once in the result."""
    rows = tuple(arranged(roster.rows))
    live = [row for row in rows if row.standing in {"live", "held"}]
    return TreeDocument(
        nodes=len(live),
        at_home=sum(row.place != "guest" for row in live),
        depth=max((row.real_level for row in live), default=0),
        stale=sum(row.standing == "stale" for row in rows),
        missing=sum(row.standing == "missing" for row in rows),
        held=sum(row.standing == "held" for row in rows),
        asked=roster.owner,
        complete=complete,
        note=note,
        quiet_s=roster.quiet_s,
        rows=rows,
    )


def arranged(rows: tuple[RowDocument, ...]) -> Iterator[TreeRow]:
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
            yield _placed(row, depth, apart if index == top else None)
            # Of two rows with one address the first one gets the subordinates.
            if row.address not in known:
                known.add(row.address)
                stack += [(below, depth + 1) for below in subordinates.get(row.address, ())]


def _tops(rows: tuple[RowDocument, ...], seen: set[int]) -> Iterator[tuple[int, str | None]]:
    """Which rows head a tree, and why, except the first. Evaluated lazily: `seen` grows between the results."""
    if rows:
        yield 0, None
    present = {row.address for row in rows}
    by_position = sorted(range(len(rows)), key=lambda index: rows[index].position)
    for index in by_position:
        leader = rows[index].leader
        if index not in seen and leader not in present:
            yield index, "has no leader" if leader is None else f"its leader {leader} is not in this roster"
    for index in by_position:
        if index not in seen:
            yield index, "is led in a circle"


def _placed(row: RowDocument, depth: int, apart: str | None) -> TreeRow:
    return TreeRow(
        address=row.address,
        position=row.position,
        level=row.level,
        offset=row.offset,
        place=row.place,
        standing=row.standing,
        since_s=row.since_s,
        incarnation=row.incarnation,
        real_level=depth,
        leader=row.leader,
        apart=apart,
        performance=row.performance,
        round_trip_s=row.round_trip_s,
    )


def encoded(document: TreeDocument) -> bytes:
    """The nested form: `{..., "roots": [{..., "subordinates": [...]}]}`."""
    head = msgspec.to_builtins(document)
    del head["rows"]
    encode = msgspec.json.encode
    rows = ((row.real_level, encode(row).decode()) for row in document.rows)
    return "".join(nested(encode(head).decode(), rows)).encode()
