"""The history of a node's subtree: changes of the roster, and nodes that are missing.

In: successive rosters and the losses above this node. Out: numbered changes, and the nodes that vanished without a
goodbye within REMEMBER_S. A node that leaves the roster has SETTLE_S to return elsewhere before it counts as missing
or left. All tables are bounded. Pure: `now` and `at` are seconds of one monotonic clock, `wall` seconds since 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from subord.core.tables import BoundedMap
from subord.core.view import Incarnation, Liveness, Place, Position, RosterRow, RosterView

SETTLE_S: Final = 5.0
"""Grace for nodes that vanish with their branch; healing takes about a second."""
REMEMBER_S: Final = 3600.0
"""How long a node that vanished without a goodbye is remembered."""
MISSED_MAX: Final = 10_000
LOST_ABOVE_MAX: Final = 64
HISTORY_MAX: Final = 1024
CHAIN_MAX: Final = 64
"""Leaders above a vanished node that are examined."""

FRESH_S: Final = 5.0
"""A new node that has held its place for longer did not join now: it came with its branch or its tree."""

Kind = Literal["joined", "found", "returned", "restarted", "moved", "missing", "left", "root"]


class TreeChange(msgspec.Struct, frozen=True):
    """One change of the subtree. `old`: the former leader."""

    number: int
    wall: float
    kind: Kind
    position: Position
    leader: Position | None
    old: Position | None
    place: Place | None


class Missed(msgspec.Struct, frozen=True):
    """A node that vanished without a goodbye: its last leader and place (None: not known), and when it vanished."""

    position: Position
    leader: Position | None
    place: Place | None
    at: float


class _Present(msgspec.Struct):
    """A node of the last roster. `vanished_at`: when it left the roster; it may return within SETTLE_S."""

    leader: Position | None
    place: Place
    incarnation: Incarnation
    vanished_at: float | None = None
    orphaned: bool = False


class History:
    """The history of one node. Its size is bounded by the subtree and the limits above."""

    def __init__(self) -> None:
        self.changes: deque[TreeChange] = deque(maxlen=HISTORY_MAX)
        self.number = 0
        """Number of the last change."""
        self._present: dict[Position, _Present] = {}
        self._missed: BoundedMap[Position, Missed] = BoundedMap(MISSED_MAX)
        self._lost_above: BoundedMap[Position, float] = BoundedMap(LOST_ABOVE_MAX)
        self._parted_above: dict[Position, float] = {}
        self._parting: Position | None = None  # the one of `_parted_above` whose goodbye is not reported yet

    def since(self, number: int) -> list[TreeChange]:
        """The changes after `number` that are still kept."""
        return [each for each in self.changes if each.number > number]

    def pending(self) -> set[Position]:
        """Nodes that vanished and may still return, or may have left."""
        found = {position for position, each in self._present.items() if each.vanished_at is not None}
        return found.union(self._lost_above, () if self._parting is None else (self._parting,))

    @property
    def is_waiting(self) -> bool:
        """Whether a node vanished whose fate a `look` after `SETTLE_S` decides."""
        return self._parting is not None or any(each.vanished_at is not None for each in self._present.values())

    def sizes(self) -> dict[str, int]:
        """Number of entries by table."""
        return {"register_present": len(self._present), "register_missed": len(self._missed)}

    def missed(self, now: float) -> list[Missed]:
        """The nodes that vanished within `REMEMBER_S`, by position."""
        found = (self._missed[position] for position in sorted(self._missed))
        return [each for each in found if now - each.at < REMEMBER_S]

    @property
    def forgotten(self) -> int:
        """Number of missing nodes that were forgotten early for lack of room."""
        return self._missed.dropped

    def on_their_way(self) -> list[Missed]:
        """Nodes whose leader vanished and that are not in the roster yet, by position."""
        return [
            Missed(position, each.leader, each.place, each.vanished_at)
            for position, each in sorted(self._present.items())
            if each.vanished_at is not None and each.orphaned
        ]

    def lost_above(self, position: Position, now: float) -> None:
        """The leader vanished. If this node becomes root, no other node can report it."""
        self._lost_above[position] = now

    def parted_above(self, position: Position, now: float) -> None:
        """The former root said goodbye, and no other node can report it."""
        if position not in self._lost_above:
            self._parted_above = {position: now}
            self._parting = position

    @property
    def former_roots(self) -> dict[Position, float]:
        """The root above this one that said goodbye and is not back, and when it did."""
        return {position: at for position, at in self._parted_above.items() if position != self._parting}

    def look(self, view: RosterView, path: Iterable[Position], now: float, wall: float) -> None:
        """Compare a roster with the last one. `path`: the nodes above this one."""
        rows = {row.position: row for row in view.rows}
        for row in view.rows:
            if row.liveness is Liveness.MISSING:
                self._miss(row, now, wall)
            else:
                self._meet(row, wall)
        self._seek_vanished(rows, now, wall)
        for position in path:  # a node above this one is not missing; a later loss counts anew
            self._missed.pop(position, None)
        for position in (*path, *rows):
            self._lost_above.pop(position, None)
            self._parted_above.pop(position, None)
        if not view.is_root or self._parting not in self._parted_above:
            self._parting = None
        if view.is_root:
            self._miss_lost_above(now, wall)
            self._tell_parted_above(now, wall)
        elif view.leader is not None:  # the root above reports those
            for lost in [p for p, at in self._lost_above.items() if now - at >= SETTLE_S]:
                del self._lost_above[lost]
        self._forget(now)

    def stays_away(self, position: Position, now: float, wall: float) -> None:
        """A root expected this node and never saw it."""
        if position not in self._missed:
            self._remember(Missed(position, None, None, now))
            self._happen("missing", wall, position)

    # -- one row ----------------------------------------------------------------------------------------------

    def _meet(self, row: RosterRow, wall: float) -> None:
        """The node of `row` is present."""
        missed = self._missed.pop(row.position, None)
        before = self._present.get(row.position)
        self._present[row.position] = _Present(row.leader, row.place, row.incarnation)
        since = wall - row.since_s
        if missed is not None:
            self._tell("returned", row, since, missed.leader)
        elif before is None and row.since_s <= FRESH_S:
            self._tell("joined", row, since, None)
        elif before is None:
            self._tell("found", row, wall, None)
        elif row.place is Place.ROOT and before.place is not Place.ROOT:
            self._tell("root", row, since, before.leader)
        elif before.incarnation != row.incarnation:
            self._tell("restarted", row, since, before.leader)
        elif (before.leader, before.place) != (row.leader, row.place):
            self._tell("moved", row, since, before.leader)

    def _miss(self, row: RosterRow, now: float, wall: float) -> None:
        """The leader of the node reports that it vanished."""
        self._present.pop(row.position, None)
        if row.position not in self._missed:
            self._remember(Missed(row.position, row.leader, row.place, now - row.since_s))
            self._tell("missing", row, wall - row.since_s, row.leader)

    def _tell(self, kind: Kind, row: RosterRow, wall: float, old: Position | None) -> None:
        self._happen(kind, wall, row.position, leader=row.leader, old=old, place=row.place)

    # -- nodes without a row ----------------------------------------------------------------------------------

    def _seek_vanished(self, rows: dict[Position, RosterRow], now: float, wall: float) -> None:
        for position in [position for position in self._present if position not in rows]:
            each = self._present[position]
            if each.vanished_at is None:
                each.vanished_at = now
            # The loss of its leader may be reported later than its own.
            each.orphaned = each.orphaned or self._is_orphaned(each, rows)
            if now - each.vanished_at >= SETTLE_S:
                del self._present[position]
                if each.orphaned:
                    self._remember(Missed(position, each.leader, each.place, each.vanished_at))
                kind: Kind = "missing" if each.orphaned else "left"
                vanished_wall = wall - (now - each.vanished_at)
                self._happen(kind, vanished_wall, position, old=each.leader, place=each.place)

    def _is_orphaned(self, each: _Present, rows: dict[Position, RosterRow]) -> bool:
        """Whether a node above it vanished, so that no node could receive its goodbye."""
        leader = each.leader
        for _ in range(CHAIN_MAX):
            if leader is None:
                return False
            if leader in rows:
                return rows[leader].liveness is Liveness.MISSING
            if leader in self._missed:
                return True
            above = self._present.get(leader)
            leader = above.leader if above else None
        return False

    def _miss_lost_above(self, now: float, wall: float) -> None:
        """As the new root, report the lost nodes above that have not joined the tree."""
        for position, at in self._lost_above.items():
            if position not in self._missed and now - at < REMEMBER_S:
                self._remember(Missed(position, None, None, at))
                self._happen("missing", wall - (now - at), position)
        self._lost_above.clear()

    def _tell_parted_above(self, now: float, wall: float) -> None:
        """Report the goodbye of the former root after SETTLE_S: a restarted root is back by then."""
        position = self._parting
        if position is not None and now - self._parted_above[position] >= SETTLE_S:
            self._parting = None
            self._happen("left", wall - (now - self._parted_above[position]), position)

    def _remember(self, missed: Missed) -> None:
        self._missed[missed.position] = missed

    def _forget(self, now: float) -> None:
        for position in [p for p, each in self._missed.items() if now - each.at >= REMEMBER_S]:
            del self._missed[position]

    def _happen(
        self,
        kind: Kind,
        wall: float,
        position: Position,
        *,
        leader: Position | None = None,
        old: Position | None = None,
        place: Place | None = None,
    ) -> None:
        self.number += 1
        self.changes.append(TreeChange(self.number, wall, kind, position, leader, old, place))
