"""The tree below a node, for those who look for places in it: levels, sizes and free slots (protocol section 3).

The index follows the roster row by row. Each event does a bounded number of steps: a step takes over one changed row,
or passes one node's level to its subordinates, or passes the size of one node's branch to its leader. So a question
never waits for a walk over all rows. When a large branch has moved, its levels follow within the next events.

Levels are counted from the owner, which stands on level 0. A node has no level while its way up is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from sortedcontainers import SortedSet

from subord.core.state.context import Context
from subord.core.state.roster import GUEST, Roster
from subord.core.state.view import Position

STEPS_MAX = 256  # for one event
LEVEL_MAX = 4096  # a longer way to the owner is a mistake
UNKNOWN_LEVEL = -1


class _Entry(msgspec.Struct):
    """One node; also one that is not listed, while rows name it as their leader."""

    listed: bool = False
    leader: Position = 0
    level: int = UNKNOWN_LEVEL
    nodes: int = 0  # of its branch, itself included
    height: int = 0  # levels of its branch below it
    told_nodes: int = 0  # what its leader's entry has counted for it
    told_height: int = -1
    shelf: SortedSet[Position] | None = None  # the set of places that it is in
    below: dict[Position, None] = {}


class BranchIndex:
    """The branch of one node. It holds as many entries as the roster has rows, and their leaders."""

    def __init__(self, context: Context, roster: Roster, on_placed: Callable[[Position, Position], None]) -> None:
        """`on_placed` is told of each row that is taken over: the node and its leader."""
        self._slots = context.settings.guest_places
        self._any_leader = context.mapping.by_performance  # there ranks are no positions
        self._roster = roster
        self._on_placed = on_placed
        self._entries: dict[Position, _Entry] = {}
        self._relevel: dict[Position, None] = {}  # the level of the leader may have changed
        self._retell: dict[Position, None] = {}  # the leader's entry may have to count it anew
        self.living: SortedSet[Position] = SortedSet()
        self.guests: SortedSet[Position] = SortedSet()
        self.vacant: list[SortedSet[Position]] = []  # by level: leaders with a free guest slot
        self.full: list[SortedSet[Position]] = []  # by level: leaders without

    # -- reading ------------------------------------------------------------------------------------------

    def level_of(self, node: Position) -> int | None:
        """None: not listed, or the way to it is not known."""
        entry = self._entries.get(node)
        return None if entry is None or entry.level == UNKNOWN_LEVEL else entry.level

    def levels(self) -> dict[Position, int]:
        """All levels that are known. Takes a walk over all entries."""
        return {p: entry.level for p, entry in self._entries.items() if entry.level != UNKNOWN_LEVEL}

    def nodes_of(self, node: Position) -> int:
        entry = self._entries.get(node)
        return 0 if entry is None else entry.nodes

    def height_of(self, node: Position) -> int:
        entry = self._entries.get(node)
        return 0 if entry is None else entry.height

    def leader_of(self, node: Position) -> Position:
        return self._entries[node].leader

    def guests_of(self, leader: Position) -> Iterator[Position]:
        rows = self._roster.rows
        for position in self._entries[leader].below:
            if position in rows and rows[position][1].change.place == GUEST:
                yield position

    def free(self, leader: Position) -> int:
        """Guest slots."""
        return self._slots - self._roster.guests.get(leader, 0)

    # -- steps --------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Do what is due, at most STEPS_MAX steps of it."""
        unread, relevel, retell = self._roster.unread, self._relevel, self._retell
        for _ in range(STEPS_MAX):
            if unread:
                self._take_over(unread.popitem()[0])
            elif relevel:
                self._set_level(relevel.popitem()[0])
            elif retell:
                self._tell(retell.popitem()[0])
            else:
                return

    def _take_over(self, position: Position) -> None:
        """The row of this position has changed."""
        row = self._roster.rows.get(position)
        entry = self._entries.get(position)
        if row is None or row[1].change.missing:
            if entry is not None and entry.listed:
                self._remove(position, entry)
            return
        change = row[1].change
        if entry is None:
            entry = self._entries[position] = _Entry(below={})
        if not entry.listed:
            entry.listed = True
            entry.nodes += 1
            self.living.add(position)
        (self.guests.add if change.place == GUEST else self.guests.discard)(position)
        leader = 0 if position == self._roster.owner else change.leader
        if entry.leader != leader:
            self._unlink(position, entry)
            self._link(position, entry, leader)
        elif leader:
            self._shelve(leader, self._entries[leader])
        self._relevel[position] = self._retell[position] = None
        self._shelve(position, entry)
        self._on_placed(position, leader)

    def _remove(self, position: Position, entry: _Entry) -> None:
        self.living.discard(position)
        self.guests.discard(position)
        self._unlink(position, entry)
        entry.listed = False
        entry.nodes -= 1
        self._set_level(position)
        self._tidy(position, entry)

    def _link(self, position: Position, entry: _Entry, leader: Position) -> None:
        entry.leader = leader
        if leader:
            above = self._entries.get(leader)
            if above is None:
                above = self._entries[leader] = _Entry(below={})
            above.below[position] = None
            self._shelve(leader, above)

    def _unlink(self, position: Position, entry: _Entry) -> None:
        leader, entry.leader = entry.leader, 0
        if not leader:
            return
        above = self._entries[leader]
        del above.below[position]
        above.nodes -= entry.told_nodes
        told, entry.told_nodes, entry.told_height = entry.told_height, 0, -1
        self._lower(above, told)
        self._retell[leader] = None
        self._shelve(leader, above)
        self._tidy(leader, above)

    def _tidy(self, position: Position, entry: _Entry) -> None:
        """An entry that neither a row nor a leader's name needs is dropped."""
        if not entry.listed and not entry.below:
            self._relevel.pop(position, None)
            self._retell.pop(position, None)
            del self._entries[position]

    def _set_level(self, position: Position) -> None:
        entry = self._entries[position]
        level = self._level_now(position, entry)
        if level != entry.level:
            entry.level = level
            self._relevel.update(entry.below)
            self._shelve(position, entry)

    def _level_now(self, position: Position, entry: _Entry) -> int:
        if not entry.listed:
            return UNKNOWN_LEVEL
        if position == self._roster.owner:
            return 0
        above = self._entries.get(entry.leader)
        if above is None or above.level == UNKNOWN_LEVEL or not (self._any_leader or entry.leader < position):
            return UNKNOWN_LEVEL
        return above.level + 1 if above.level < LEVEL_MAX else UNKNOWN_LEVEL

    def _tell(self, position: Position) -> None:
        """Pass the size of a branch one step up. Ways up only lead to lower positions, so this ends."""
        entry = self._entries[position]
        if not 0 < entry.leader < position or (entry.nodes, entry.height) == (entry.told_nodes, entry.told_height):
            return
        above = self._entries[entry.leader]
        above.nodes += entry.nodes - entry.told_nodes
        told, entry.told_nodes, entry.told_height = entry.told_height, entry.nodes, entry.height
        if entry.height + 1 > above.height:
            above.height = entry.height + 1
        elif entry.height < told:
            self._lower(above, told)
        self._retell[entry.leader] = None

    def _lower(self, above: _Entry, told: int) -> None:
        """A branch that was `told` levels high is lower now, or gone."""
        if told + 1 == above.height:
            above.height = max((self._entries[p].told_height for p in above.below), default=-1) + 1

    def _shelve(self, position: Position, entry: _Entry) -> None:
        """Into the set of places in which it belongs now."""
        shelf = None
        if entry.listed and entry.level != UNKNOWN_LEVEL:
            while len(self.vacant) <= entry.level:
                self.vacant.append(SortedSet())
                self.full.append(SortedSet())
            shelf = (self.vacant if self.free(position) > 0 else self.full)[entry.level]
        if shelf is not entry.shelf:
            if entry.shelf is not None:
                entry.shelf.discard(position)
            if shelf is not None:
                shelf.add(position)
            entry.shelf = shelf
