"""Advice on free places below a node, and on their levels (docs/protocol.md, section 3).

Inputs are the roster, through branch_index.py, and a node that asks; outputs are hints, best first. A newcomer
belongs on the level where it would stand in a full tree of all live nodes in rank order; a resident so high that the
last of its branch stands at most a level or two below that tree. Of the places on the wanted level or higher the
nearest is best; without any the highest. If the mapping plans, a root computes all places anew, at most once in
PLAN_S. A recommended place is reserved for a moment, so that the next asker gets another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import merge
from itertools import islice

import msgspec
from sortedcontainers import SortedList

from subord.core.mapping.depth_rule import GAIN_MIN, is_light
from subord.core.mapping.mapping import Plan
from subord.core.messages import HINTS_MAX
from subord.core.state.context import Context
from subord.core.state.roster import GUEST, Roster
from subord.core.vacancies.branch_index import BranchIndex
from subord.core.view import Position

LOW_FANOUT = 4  # below it a level holds so few that two levels more do not matter
PLAN_S = 0.1  # the computed places stay valid for so long, though the roster changes
RESERVATIONS_MAX = 1024
RESERVED_ANSWERS = 2.0  # in waits for an answer: how long a place is reserved
LOOKED_AT_MAX = 64  # places of one level
CHOICE = 8  # places of one level that are compared
GUESTS_MAX = 2048  # searched for one that must give way
BESIDE, PICKED_MAX = 2, 6  # of the nodes that may be near the asker


class Places(msgspec.Struct, frozen=True):
    """Hints for one node: positions with room, best first, with their levels in the real tree."""

    hints: tuple[Position, ...]
    levels: tuple[int, ...]
    wanted: int  # the level on which the node belongs, as far as known
    swap: Position = 0  # a full leader with a subordinate that should give way; 0: none

    def is_gain(self, level: int) -> bool:
        """Whether the best place is high enough to leave `level` for it."""
        return bool(self.levels) and level - (self.levels[0] + 1) >= GAIN_MIN


class Vacancies:
    """The free places in the subtree of one node, its owner included."""

    def __init__(self, context: Context, roster: Roster) -> None:
        self._context = context
        self._roster = roster
        self._drawn_at = -1.0
        self._revision = -1
        self._top = 0  # of the owner in the real tree
        self._index = BranchIndex(context, roster, self._end_reservation)
        self._reservations: dict[Position, tuple[Position, float]] = {}  # node -> place, until when
        self._reserved: Counter[Position] = Counter()
        self._plan = context.mapping.plan(self._index.free, self._reserved.__getitem__)

    def suggest(
        self, node: Position, top: int, limit: int, *, reserve: bool = True, standing: int = 0, performance: int = 0
    ) -> Places:
        """At most `limit` places for `node`; `top` is the level of the owner in the real tree."""
        self._refresh(top)
        level_of = self._index.level_of
        self._release(node)  # a node that asks again may get the same place
        if self._plan is not None and top == 0:
            wish = max(standing, performance) if level_of(node) is not None else standing
            return self._seat(self._plan, node, wish, limit, reserve=reserve)
        wanted = self._wanted(node)
        home = self._context.mapping.home_of(node)
        chosen = self._fitting(node, wanted)[:limit] or self._higher(node, wanted)[:limit]
        if home is not None and self._roster.is_live(home) and level_of(home) is not None:
            chosen = [home, *(p for p in chosen if p != home)][:limit]
        levels = tuple(self.level_of(p) for p in chosen)
        is_newcomer, level = level_of(node) is None, self.level_of(node)  # a resident moves only for a gain
        if reserve and chosen and (is_newcomer or level > wanted >= levels[0] + 1):
            self._reserve(node, chosen[0])
        return Places(tuple(chosen), levels, wanted)

    def _seat(self, plan: Plan, node: Position, standing: int, limit: int, *, reserve: bool) -> Places:
        """The planned places for a node that wants to stand by `standing`."""
        if plan.is_best(node, standing):
            return Places((node,), (0,), 0)
        wanted = max(1, plan.wanted(node, standing))
        chosen = tuple(islice(plan.places(node, standing, wanted), limit))
        levels = tuple(self.level_of(p) for p in chosen)
        exact = bool(chosen) and levels[0] + 1 == wanted
        row = self._roster.rows.get(node)
        stands_there = exact and row is not None and row[1].change.leader == chosen[0]
        if reserve and exact and not stands_there and plan.will_move(node, standing, wanted):
            self._reserve(node, chosen[0])
        swap = 0 if exact else plan.giving_way(node, standing, wanted)
        return Places(chosen, levels, wanted, swap)

    def sample_for(self, node: Position) -> tuple[Position, ...]:
        """Live nodes that may lead `node`: the nearest positions, and some at random. A full one knows others."""
        may_lead, living = self._context.mapping.may_lead, self._index.living
        at = living.bisect_left(node)
        beside = islice(lower_than(node, living), BESIDE)
        below = range(at)  # lower positions: where this is asked for, all of them may lead
        drawn = (living[n] for n in self._context.chance.sample(below, min(PICKED_MAX, len(below))))
        found = dict.fromkeys((*beside, *drawn))
        return tuple(p for p in found if may_lead(p, node))[:HINTS_MAX]

    def swap_for(self, node: Position, places: Places) -> Position:
        """By the owner as root: a full leader to exchange a guest for `node`, if `places` are no gain; 0: none."""
        level = self.level_of(node)
        if self._plan is not None or places.is_gain(level):
            return places.swap
        return self.swap(node, level - GAIN_MIN)

    def swap(self, node: Position, level: int) -> Position:
        """A full leader above `level` that may exchange a light guest for `node`; 0: none."""
        may_lead, index = self._context.mapping.may_lead, self._index
        for leaders in index.full[: max(0, level - self._top)]:
            pairs: Iterator[tuple[Position, Position]]
            pairs = ((leader, guest) for leader in leaders for guest in index.guests_of(leader))
            for leader, guest in islice(pairs, LOOKED_AT_MAX):
                fits = may_lead(leader, node) and may_lead(node, guest)
                if fits and is_light(index.nodes_of(guest), index.nodes_of(node)):
                    return leader
        return 0

    def giving_way(self, node: Position) -> Position:
        """The leader of the highest guest above `node`, if it may lead the node; 0: none."""
        mapping = self._context.mapping
        if not mapping.ranks_are_positions:
            rows = {p: claim.change for p, (_, claim) in self._roster.rows.items() if not claim.change.missing}
            pairs = ((p, change.leader) for p, change in rows.items() if change.place == GUEST)
            fit = [(p, leader) for p, leader in pairs if mapping.may_lead(node, p) and mapping.may_lead(leader, node)]
            return max(fit, key=lambda pair: mapping.rank(pair[0]))[1] if fit else 0
        guest: Position
        for guest in islice(reversed(self._index.guests), GUESTS_MAX):
            leader = self._index.leader_of(guest)
            if guest <= node:
                break
            if mapping.may_lead(leader, node):
                return leader
        return 0

    def level_of(self, node: Position) -> int:
        """The level of a node in the real tree; 0 also for an unlisted one."""
        level = self._index.level_of(node)
        return 0 if level is None else level + self._top

    def _wanted(self, node: Position) -> int:
        level_and_offset, living = self._context.settings.numbering.level_and_offset, self._index.living
        if self._index.level_of(node) is not None:
            deeper = 2 if self._context.settings.fanout < LOW_FANOUT else 1
            return max(1, level_and_offset(len(living))[0] + deeper - self._index.height_of(node))
        return level_and_offset(living.bisect_left(node) + 1)[0]

    def _fitting(self, node: Position, wanted: int) -> list[Position]:
        """Places on the node's level or higher, nearest first."""
        mapping = self._context.mapping
        near = mapping.first_of(node) or node
        found: list[Position] = []
        for places in self._index.vacant[: max(0, wanted - self._top)]:
            found += self._around(places, near, node)
        return mapping.in_order(node, found)

    def _higher(self, node: Position, wanted: int) -> list[Position]:
        """Places below the wanted level, highest first."""
        found: list[Position] = []
        for places in self._index.vacant[max(0, wanted - self._top) :]:
            found += self._around(places, node, node)
            if len(found) >= CHOICE:
                break
        return found

    def _around(self, places: SortedList[Position], near: Position, node: Position) -> list[Position]:
        """Some places around `near` that may lead the node and are not reserved."""
        below = islice(lower_than(near, places), LOOKED_AT_MAX)
        above = islice(places.irange(near), LOOKED_AT_MAX)
        outwards: Iterator[Position] = merge(below, above, key=lambda p: abs(p - near))
        may_lead, free, reserved = self._context.mapping.may_lead, self._index.free, self._reserved
        good = (p for p in outwards if may_lead(p, node) and free(p) > reserved[p])
        return list(islice(good, CHOICE))

    # -- the plan -------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Follow changes of the roster."""
        self._index.catch_up()

    def _refresh(self, top: int) -> None:
        now, roster = self._context.now, self._roster
        for node in [node for node, (_, until) in self._reservations.items() if until <= now]:
            self._release(node)
        self._top = top
        self.catch_up()
        if self._plan is None or top:
            return
        is_fresh = self._drawn_at >= 0 and (self._revision == roster.revision or now - self._drawn_at < PLAN_S)
        if not is_fresh:
            rows = {p: claim.change for p, (_, claim) in roster.rows.items() if not claim.change.missing}
            self._plan.draw(rows, self._index.levels())
            self._drawn_at, self._revision = now, roster.revision

    # -- reservations ---------------------------------------------------------------------------------------

    def _reserve(self, node: Position, place: Position) -> None:
        """Reserve the place until the node stands there, or had time to."""
        self._release(node)
        if len(self._reservations) < RESERVATIONS_MAX:
            self._reservations[node] = place, self._context.now + RESERVED_ANSWERS * self._context.timing.answer_s
            self._reserved[place] += 1

    def _end_reservation(self, node: Position, leader: Position) -> None:
        """The node stands below `leader`."""
        reservation = self._reservations.get(node)
        if reservation is not None and reservation[0] == leader:
            self._release(node)

    def _release(self, node: Position) -> None:
        reservation = self._reservations.pop(node, None)
        if reservation is not None:
            place, _ = reservation
            self._reserved[place] -= 1
            if not self._reserved[place]:
                del self._reserved[place]


def lower_than(position: Position, among: SortedList[Position]) -> Iterator[Position]:
    """The positions of `among` below `position`, highest first."""
    found: Iterator[Position] = among.irange(maximum=position, inclusive=(True, False), reverse=True)
    return found
