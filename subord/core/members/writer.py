"""What a root writes into the register of members.

Inputs are the roster and the register; outputs are runs to merge and to spread. Only a root writes: it alone knows
all nodes. A node that is listed is up. The history says which nodes vanished, and which root left. A node that the
register calls up and that is not listed, or only as missing since before its record, is down after GRACE_S.
Invariant: a record that is written is greater than the one that it replaces, and nothing is written while the
register agrees with the roster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from subord.core.members.register import Record, Register, Run, State, runs_of
from subord.core.view import Liveness, Position, RosterView

GRACE_S: Final = 30.0
"""For nodes that the register calls up, and that this root has not seen yet."""
UP_DELAY_S: Final = 5.0
"""New nodes are written together: one by one, the start of a cluster would be as many runs as nodes."""


class Departure(NamedTuple):
    """A node that is missing from the roster, as the history judges it."""

    has_left: bool
    since_ms: int
    leader: Position  # 0: not known


class _New(NamedTuple):
    """A node that is listed and not up in the register: since when, and what the register has."""

    at: float
    wall_ms: int
    record: Record | None

    @property
    def has_left(self) -> bool:
        return self.record is not None and self.record.state is State.LEFT


class Writer:
    """Compares the roster of one node with its register while the node is root."""

    def __init__(self, register: Register, expected: Sequence[Position] = ()) -> None:
        """`expected`: nodes that should be members even if they never came."""
        self._register = register
        self._expected = expected
        self._absent: dict[Position, float] = {}  # up in the register, not in the roster, and since when
        self._new: dict[Position, _New] = {}
        self._came_at = -inf  # when the last new node was listed
        self._unseen: list[Position] = []

    def stop(self) -> None:
        """The node is not root."""
        self._absent.clear()
        self._new.clear()
        self._came_at = -inf

    def take_unseen(self) -> list[Position]:
        """The nodes that were called down because they stayed away, since the last call."""
        found, self._unseen = self._unseen, []
        return found

    def is_quiet(self, live: Iterable[Position], now: float) -> bool:
        """Whether all nodes that are listed as living are up in the register, no node has come for UP_DELAY_S, and
        none that the operator expects is still to come."""
        if now - self._came_at < UP_DELAY_S or any(self._register.at(each) is None for each in self._expected):
            return False
        records = (self._register.at(position) for position in live)
        return all(record is not None and record.state is State.UP for record in records)

    @property
    def deadline(self) -> float:
        """When to write again though the roster has not changed."""
        up_due_at = min((each.at for each in self._new.values()), default=inf) + UP_DELAY_S
        return min(up_due_at, min(self._absent.values(), default=inf) + GRACE_S)

    def write(
        self,
        view: RosterView,
        departures: Mapping[Position, Departure],
        pending: Collection[Position],
        now: float,
        wall_ms: int,
    ) -> list[Run]:
        """The runs to merge. `pending`: nodes whose departure is not judged yet. `now`: monotonic, in seconds."""
        written = list(self._departed(departures, wall_ms))
        live = [row.position for row in view.rows if row.liveness is not Liveness.MISSING]
        known = {*live}.union(departures, pending)
        written += self._stay_away(known, now, wall_ms)
        return written + self._came(live, now, wall_ms)

    def _stamp(self, position: Position, wall_ms: int) -> int:
        old = self._register.at(position)
        return wall_ms if old is None else max(wall_ms, old.stamp_ms + 1)

    def _departed(self, departures: Mapping[Position, Departure], wall_ms: int) -> Iterable[Run]:
        for position, each in departures.items():
            if each.has_left:
                old = self._register.at(position)
                if old is None or old.state in (State.UP, State.DOWN):
                    yield Run(position, position, Record(self._stamp(position, wall_ms), State.LEFT, each.since_ms))
            else:
                yield from self._down(position, each, wall_ms)

    def _down(self, position: Position, each: Departure, wall_ms: int) -> Iterable[Run]:
        """Down, if it was up: its row may outlast its goodbye by some beats. The stamp is only the next one, so a
        goodbye that this root did not hear, or a return that another root has seen, is later."""
        old = self._register.at(position)
        if old is None or old.state is State.UP:
            stamp_ms = wall_ms if old is None else old.stamp_ms + 1
            yield Run(position, position, Record(stamp_ms, State.DOWN, each.since_ms, each.leader))

    def _stay_away(self, known: Collection[Position], now: float, wall_ms: int) -> Iterable[Run]:
        """Nodes that are up in the register only, or expected by the operator and in no register."""
        due = self._register.positions(State.UP)
        due += [position for position in self._expected if self._register.at(position) is None]
        absent = [position for position in due if position not in known]
        self._absent = {position: self._absent.get(position, now) for position in absent}
        for position in [p for p, at in self._absent.items() if now - at >= GRACE_S]:
            del self._absent[position]
            self._unseen.append(position)
            yield from self._down(position, Departure(False, wall_ms, 0), wall_ms)

    def _came(self, live: list[Position], now: float, wall_ms: int) -> list[Run]:
        """Write all new nodes together, UP_DELAY_S after the first one.

        The stamp is the time at which the first one was seen: a goodbye that is on its way to this root is later. The
        row of a node that said goodbye is claimed for some beats; only a row that stays is a return.
        """
        new: dict[Position, _New] = {}
        for position in live:
            record = self._register.at(position)
            if record is None or record.state is not State.UP:
                before = self._new.get(position)
                is_known = before is not None and before.record == record
                if before is None:
                    self._came_at = now
                new[position] = before if before is not None and is_known else _New(now, wall_ms, record)
        self._new = new
        stayed = {p for p, each in new.items() if each.at + UP_DELAY_S <= now}
        if not stayed:
            return []
        due = [p for p, each in new.items() if not each.has_left or p in stayed]
        first_ms = min(new[position].wall_ms for position in due)
        stamp_ms = max(self._stamp(position, first_ms) for position in due)
        self._new = {position: each for position, each in new.items() if position not in due}
        return runs_of(sorted(due), Record(stamp_ms, State.UP))
