"""What a node records in the journal of the cluster (journal.py).

Inputs are what the root is about to write into the register, its roster and its history, goodbyes, and orders that
are given at this node; outputs are items to merge and to spread. Invariants: an event that repeats what the journal
says is not recorded; an event of a node is dated later than the last one that the journal has of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from subord.core.carriage.documents import Document, Documents
from subord.core.members import statements
from subord.core.members.history import FRESH_S, TreeChange
from subord.core.members.journal import Event, Item, Journal, Kind, Known, after
from subord.core.members.register import Register, Run, State
from subord.core.members.statements import Forget, Maintain, Ranges
from subord.core.view import Liveness, Place, Position, RosterRow, RosterView

RECORDED_MAX: Final = 256
"""Nodes of one order that get an event of their own; the last one tells how many more there are."""

_ENDS: Final[dict[State, Kind]] = {State.DOWN: "missing", State.LEFT: "left", State.FORGOTTEN: "forgotten"}
STATUS: Final[dict[State, str]] = {State.UP: "present", **_ENDS}
"""What the last event of a node says (Known.status), by its record."""


class Recorder:
    """Makes the events that one node records."""

    def __init__(self, register: Register, journal: Journal, owner: Position) -> None:
        """`owner`: this node."""
        self._register = register
        self._journal = journal
        self._owner = owner
        self._number = 0

    def looked(
        self, runs: Iterable[Run], view: RosterView, changes: Iterable[TreeChange], wall_ms: int
    ) -> list[Item]:
        """What the root is about to write into the register, and moves."""
        known = self._journal.known()
        mended = self._mended(known, view, wall_ms)
        moved = self._moved(known, view, wall_ms) + self._restarted(view, changes)
        return self._news(self._written(runs, view, wall_ms) + mended + moved)

    def left(self, position: Position, wall_ms: int) -> list[Item]:
        """A goodbye that this node says or hears."""
        leader = self._owner if position != self._owner else 0
        return self._news([self._event(wall_ms, "left", position, old=leader)])

    def _written(self, runs: Iterable[Run], view: RosterView, wall_ms: int) -> list[Event]:
        rows = {row.position: row for row in view.rows}
        found = []
        for first, last, record in runs:
            for position in range(first, last + 1):
                if record.state is State.UP:
                    found.append(self._came(rows[position], min(record.stamp_ms, wall_ms), wall_ms))
                else:
                    at_ms = record.since_ms or wall_ms
                    found.append(self._event(at_ms, _ENDS[record.state], position, old=record.leader))
        return found

    def _came(self, row: RosterRow, seen_ms: int, wall_ms: int) -> Event:
        """A return counts from when it was noticed: a frozen node keeps the age of its place."""
        old, began_ms = self._register.at(row.position), wall_ms - int(row.since_s * 1000)
        at_ms = max(seen_ms, began_ms)
        if old is not None and old.state is State.DOWN:
            return self._event(at_ms, "returned", row.position, row, old=old.leader)
        kind: Kind = "joined" if seen_ms - began_ms <= FRESH_S * 1000 else "found"
        return self._event(at_ms, kind, row.position, row)

    def _mended(self, known: Mapping[Position, Known], view: RosterView, wall_ms: int) -> list[Event]:
        """Where events of two roots, each with its part of the cluster, end with what the register does not say."""
        rows = {row.position: row for row in view.rows if row.liveness is not Liveness.MISSING}
        found = []
        for position, before in known.items():
            record, row = self._register.at(position), rows.get(position)
            if record is None or not before.status or before.status == STATUS[record.state]:
                continue
            if row is not None and record.state is State.UP:
                found.append(self._event(wall_ms, "returned", position, row))
            elif row is None and record.state is not State.UP:
                kind: Kind = _ENDS[record.state]
                found.append(self._event(record.since_ms or wall_ms, kind, position, old=record.leader))
        return found

    def _moved(self, known: Mapping[Position, Known], view: RosterView, wall_ms: int) -> list[Event]:
        """Nodes that are up, and have another leader or place than the journal says.

        A new root compares all nodes, so no move between two roots is lost, and no known node is news.
        """
        found = []
        for row in view.rows:
            record, before = self._register.at(row.position), known.get(row.position)
            if row.liveness is Liveness.MISSING or record is None or record.state is not State.UP or before is None:
                continue
            is_placed = before.status == "present" and before.place is not None
            if is_placed and (before.leader, before.place) != (row.leader or 0, row.place):
                is_root = row.place is Place.ROOT and before.place is not Place.ROOT
                at_ms = wall_ms - int(row.since_s * 1000)
                found.append(self._event(at_ms, "root" if is_root else "moved", row.position, row, old=before.leader))
        return found

    def _restarted(self, view: RosterView, changes: Iterable[TreeChange]) -> list[Event]:
        """Restarts that were no loss."""
        at_ms = {each.position: int(each.wall * 1000) for each in changes if each.kind == "restarted"}
        rows = [row for row in view.rows if row.position in at_ms]
        return [self._event(at_ms[row.position], "restarted", row.position, row) for row in rows]

    def ordered(self, document: Document, by: str, documents: Documents) -> list[Item]:
        """An order that is given at this node, and is not among `documents` yet."""
        said, old = statements.read(document.order), documents.by_name.get(document.name)
        before = None if old is None else statements.read(old.order)
        if isinstance(said, Forget):
            return self._news(self._about(document, said, by, "forgotten", said.nodes))
        if not isinstance(said, Maintain):
            return []
        was = before.nodes if isinstance(before, Maintain) and not before.ended else ()
        now = () if said.ended else said.nodes
        began = self._about(document, said, by, "maintained", now, was)
        return self._news([*began, *self._about(document, said, by, "resumed", was, now)])

    def _about(  # noqa: PLR0917 - what an event says
        self, document: Document, said: Forget | Maintain, by: str, kind: Kind, ranges: Ranges, less: Ranges = ()
    ) -> list[Event]:
        """One event for each node of `ranges` that is not in `less`."""
        states = (State.DOWN,) if isinstance(said, Forget) else (State.UP, State.DOWN)
        nodes = [
            p
            for p in self._register.positions(*states)
            if statements.in_ranges(ranges, p) and not statements.in_ranges(less, p)
        ]
        events = [self._event(document.at_ms, kind, p, reason=said.reason, by=by) for p in nodes[:RECORDED_MAX]]
        if more := len(nodes) - len(events):
            events[-1] = events[-1]._replace(reason=f"{said.reason} (and {more} more nodes)")
        return events

    def _event(
        self,
        wall_ms: int,
        kind: Kind,
        position: Position,
        row: RosterRow | None = None,
        *,
        old: Position = 0,
        reason: str = "",
        by: str = "",
    ) -> Event:
        self._number = (self._number + 1) & 0xFFFF_FFFF
        leader, place = (0, None) if row is None else (row.leader or 0, row.place)
        return Event(max(0, wall_ms), self._owner, self._number, kind, position, leader, old, place, reason, by)

    def _news(self, events: Iterable[Event]) -> list[Item]:
        """What is news, no earlier than what the journal has of the same node."""
        known, found = None, []
        for event in events:
            known = self._journal.known() if known is None else known
            before = known.get(event.position, Known())
            dated = event._replace(wall_ms=max(event.wall_ms, before.wall_ms + 1))
            now = after(before, dated)
            if now is not None:
                known[event.position] = now
                found.append(dated.item)
        return found
