"""An index of the tree below a node: levels, sizes of branches, and free guest slots (docs/protocol.md, section 3).

Inputs are changed rows of the roster; outputs are levels, sizes, and the leaders with a free guest slot by level. It
follows the roster row by row, at most STEPS_MAX steps per event. A step takes over one changed row, passes one level
down, or passes one size up, so a question never waits for a walk over all rows; after a large move the levels follow
within the next events. The owner stands on level 0. A node has no level while its path is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from sortedcontainers import SortedList

from subord.core.state.context import Context
from subord.core.state.roster import GUEST, Roster
from subord.core.tables import SplitMap
from subord.core.view import Position

STEPS_MAX = 256  # per event
LEVEL_MAX = 4096  # a longer path indicates a damaged roster
UNKNOWN_LEVEL = -1


class _Entry(msgspec.Struct, gc=False):
    """One node, listed or named as the leader of listed ones. It is part of no cycle of references."""

    listed: bool = False
    leader: Position = 0
    level: int = UNKNOWN_LEVEL
    nodes: int = 0  # of its branch, itself included
    height: int = 0  # levels of its branch below it
    needs_height: bool = False  # a highest branch below it lost levels, or is gone
    counted_nodes: int = 0  # counted for it in the entry of its leader
    counted_height: int = -1
    places: SortedList[Position] | None = None  # the member of `vacant` or `full` that holds it
    below: dict[Position, None] = {}


class BranchIndex:
    """The branch of one node: as many entries as the roster has rows, and their leaders."""

    def __init__(self, context: Context, roster: Roster, on_placed: Callable[[Position, Position], None]) -> None:
        """`on_placed` is called with each row that is taken over: the node and its leader."""
        self._slots = context.mapping.guest_places
        self._any_leader = not context.mapping.ranks_are_positions
        self._roster = roster
        self._on_placed = on_placed
        self._entries: SplitMap[_Entry] = SplitMap()
        self._relevel: dict[Position, None] = {}  # nodes whose leader may have another level
        self._resize: dict[Position, None] = {}  # nodes whose size their leader may have to count again
        self.living: SortedList[Position] = SortedList()
        self.guests: SortedList[Position] = SortedList()
        self.vacant: list[SortedList[Position]] = []  # by level: leaders with a free guest slot
        self.full: list[SortedList[Position]] = []  # by level: leaders without

    # -- reading ------------------------------------------------------------------------------------------

    def level_of(self, node: Position) -> int | None:
        """None: not listed, or its path is unknown."""
        entry = self._entries.get(node)
        return None if entry is None or entry.level == UNKNOWN_LEVEL else entry.level

    def levels(self) -> dict[Position, int]:
        """All known levels, in one walk over all entries."""
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
        """The number of free guest slots."""
        return self._slots - self._roster.guests.get(leader, 0)

    # -- steps --------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Do due steps, at most STEPS_MAX."""
        unread, relevel, resize = self._roster.unread, self._relevel, self._resize
        for _ in range(STEPS_MAX):
            if unread:
                self._take_over(unread.popitem()[0])
            elif relevel:
                self._set_level(relevel.popitem()[0])
            elif resize:
                self._propagate_size(resize.popitem()[0])
            else:
                return

    def _take_over(self, position: Position) -> None:
        """Take over the changed row of `position`."""
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
        is_guest = change.place == GUEST
        if is_guest != (position in self.guests):
            (self.guests.add if is_guest else self.guests.remove)(position)
        leader = 0 if position == self._roster.owner else change.leader
        if entry.leader != leader:
            self._unlink(position, entry)
            self._link(position, entry, leader)
        elif leader:
            self._update_set(leader, self._entries[leader])
        self._relevel[position] = self._resize[position] = None
        self._update_set(position, entry)
        self._on_placed(position, leader)

    def _remove(self, position: Position, entry: _Entry) -> None:
        self.living.discard(position)
        self.guests.discard(position)
        self._unlink(position, entry)
        entry.listed = False
        entry.nodes -= 1
        self._set_level(position)
        self._drop_unused(position, entry)

    def _link(self, position: Position, entry: _Entry, leader: Position) -> None:
        entry.leader = leader
        if leader:
            above = self._entries.get(leader)
            if above is None:
                above = self._entries[leader] = _Entry(below={})
            above.below[position] = None
            self._update_set(leader, above)

    def _unlink(self, position: Position, entry: _Entry) -> None:
        leader, entry.leader = entry.leader, 0
        if not leader:
            return
        above = self._entries[leader]
        del above.below[position]
        above.nodes -= entry.counted_nodes
        above.needs_height |= entry.counted_height + 1 == above.height
        entry.counted_nodes, entry.counted_height = 0, -1
        self._resize[leader] = None
        self._update_set(leader, above)
        self._drop_unused(leader, above)

    def _drop_unused(self, position: Position, entry: _Entry) -> None:
        """Drop an entry that is neither listed nor a leader."""
        if not entry.listed and not entry.below:
            self._relevel.pop(position, None)
            self._resize.pop(position, None)
            del self._entries[position]

    def _set_level(self, position: Position) -> None:
        entry = self._entries[position]
        level = self._level_now(position, entry)
        if level != entry.level:
            entry.level = level
            self._relevel.update(entry.below)
            self._update_set(position, entry)

    def _level_now(self, position: Position, entry: _Entry) -> int:
        if not entry.listed:
            return UNKNOWN_LEVEL
        if position == self._roster.owner:
            return 0
        above = self._entries.get(entry.leader)
        if above is None or above.level == UNKNOWN_LEVEL or not (self._any_leader or entry.leader < position):
            return UNKNOWN_LEVEL
        return above.level + 1 if above.level < LEVEL_MAX else UNKNOWN_LEVEL

    def _propagate_size(self, position: Position) -> None:
        """Pass the size of a branch one step up. Paths lead to lower positions, so this ends."""
        entry = self._entries[position]
        if entry.needs_height:
            entry.height = max((self._entries[p].counted_height for p in entry.below), default=-1) + 1
            entry.needs_height = False
        if not 0 < entry.leader < position or (entry.nodes, entry.height) == (
            entry.counted_nodes,
            entry.counted_height,
        ):
            return
        above = self._entries[entry.leader]
        above.nodes += entry.nodes - entry.counted_nodes
        counted, entry.counted_nodes, entry.counted_height = entry.counted_height, entry.nodes, entry.height
        if entry.height + 1 > above.height:
            above.height = entry.height + 1
        elif entry.height < counted:
            above.needs_height |= counted + 1 == above.height
        self._resize[entry.leader] = None

    def _update_set(self, position: Position, entry: _Entry) -> None:
        """Move the entry into the set for its level and free slots."""
        places = None
        if entry.listed and entry.level != UNKNOWN_LEVEL:
            while len(self.vacant) <= entry.level:
                self.vacant.append(SortedList())
                self.full.append(SortedList())
            places = (self.vacant if self.free(position) > 0 else self.full)[entry.level]
        if places is not entry.places:
            if entry.places is not None:
                entry.places.discard(position)
            if places is not None:
                places.add(position)
            entry.places = places
