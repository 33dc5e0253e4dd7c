"""Where is room below us, and how high up? (protocol section 3)

Intuition: the clerk at the registry office. He keeps a plan of the vacant places, floor by floor, drawn from the
register whenever somebody asks and the register has changed. A place that he has just recommended he crosses out for
a moment, so that the next in the queue is not sent to the same door.

A newcomer belongs on the floor where he would stand if all who live stood in a full tree in order of rank; a resident
belongs so high that the last of those behind him stands at most a floor or two below the lowest floor of that tree.
Of the vacant places that leave a node on its floor or higher the nearest is the best, and if none does, the highest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from heapq import merge
from itertools import islice

import msgspec

from subord.core.climbing import GAIN_MIN, is_light
from subord.core.context import Context
from subord.core.messages import HINTS_MAX, Change
from subord.core.roster import GUEST, Roster
from subord.core.seating import Seating
from subord.core.view import Position

LOW_FANOUT = 4  # below it a level holds so few that two more are no matter
PLAN_S = 0.1  # a plan is good for so long, though the register changes
PROMISES_MAX = 1024
PROMISE_ANSWERS = 2.0  # it holds for so many waits for an answer
LOOKED_AT_MAX = 64  # places of one floor
CHOICE = 8  # places of one floor that are compared
BESIDE, PICKED_MAX = 2, 6  # of those who may be near the asker


class Places(msgspec.Struct, frozen=True):
    """What we suggest to one node: positions with room, best first, with the level of each in the real tree."""

    hints: tuple[Position, ...]
    levels: tuple[int, ...]
    wanted: int  # the level on which the node belongs, as far as we know
    swap: Position = 0  # who is full, and has somebody who should give way

    def is_gain(self, level: int) -> bool:
        """Does the best of them pay for one who stands on `level`?"""
        return bool(self.levels) and level - (self.levels[0] + 1) >= GAIN_MIN


class Openings:
    """The vacant places in the subtree of one node, its owner included."""

    def __init__(self, context: Context, roster: Roster) -> None:
        self._context = context
        self._roster = roster
        self._drawn_at = -1.0
        self._revision = -1
        self._top = -1
        self._living: list[Position] = []
        self._levels: dict[Position, int] = {}
        self._vacant: list[list[Position]] = []  # by level; ascending
        self._nodes: Counter[Position] = Counter()  # of each subtree
        self._heights: dict[Position, int] = {}  # levels below, where there are any
        self._free: dict[Position, int] = {}  # guest slots
        self._seating = Seating(context, lambda p: self._free.get(p, 0) - self._promised[p])
        # Of full leaders, by their level: the leader, and one of its guests.
        self._guests: list[list[tuple[Position, Position]]] = []
        self._promises: dict[Position, tuple[Position, float]] = {}  # node -> place, until when
        self._promised: Counter[Position] = Counter()

    def suggest(
        self, node: Position, top: int, limit: int, *, promise: bool = True, standing: int = 0, performance: int = 0
    ) -> Places:
        """At most `limit` places for `node`; `top` is the level of the owner in the real tree."""
        self._refresh(top)
        self._forget(node)  # whoever asks again may be sent to the same place again
        if self._context.mapping.by_performance and top == 0:
            wish = max(standing, performance) if node in self._levels else standing
            return self._seat(node, wish, limit, promise=promise)
        wanted = self._wanted(node)
        home = self._context.mapping.home_of(node)
        chosen = self._fitting(node, wanted)[:limit] or self._higher(node, wanted)[:limit]
        if home is not None and self._roster.is_live(home) and home in self._levels:
            chosen = [home, *(p for p in chosen if p != home)][:limit]
        level = self._levels.get(node)  # of a resident: it comes only for a gain (climbing.py)
        if promise and chosen and (level is None or level > wanted >= self._levels[chosen[0]] + 1):
            self._promise(node, chosen[0])
        return Places(tuple(chosen), tuple(self._levels[p] for p in chosen), wanted)

    def _seat(self, node: Position, standing: int, limit: int, *, promise: bool) -> Places:
        """By performance; `standing`: the class by which the node wants to stand."""
        if self._seating.is_best(node, standing):
            return Places((node,), (0,), 0)
        wanted = max(1, self._seating.wanted(node, standing))
        chosen = tuple(islice(self._seating.places(node, standing, wanted), limit))
        exact = bool(chosen) and self._levels[chosen[0]] + 1 == wanted
        if promise and exact:
            self._promise(node, chosen[0])
        swap = 0 if exact else self._seating.giving_way(node, standing, wanted)
        return Places(chosen, tuple(self._levels[p] for p in chosen), wanted, swap)

    def some_for(self, node: Position) -> tuple[Position, ...]:
        """Live ones that may lead the node: the nearest by number, and some by chance. Who is full knows others."""
        may_lead, living = self._context.mapping.may_lead, self._living
        at = bisect_left(living, node)
        beside = reversed(living[max(0, at - BESIDE) : at])
        below = range(at)  # lower positions, which is all who may lead where this is asked for
        drawn = (living[n] for n in self._context.chance.sample(below, min(PICKED_MAX, len(below))))
        found = dict.fromkeys((*beside, *drawn))
        return tuple(p for p in found if may_lead(p, node))[:HINTS_MAX]

    def swap(self, node: Position, level: int) -> Position:
        """A full leader above `level` who could take `node` in the place of a light guest (climbing.py); 0: none."""
        may_lead, nodes = self._context.mapping.may_lead, self._nodes
        for floor in self._guests[: max(0, level)]:
            for leader, guest in floor[:LOOKED_AT_MAX]:
                fits = may_lead(leader, node) and may_lead(node, guest)
                if fits and is_light(nodes[guest], nodes[node]):
                    return leader
        return 0

    def level_of(self, node: Position) -> int:
        """The level of a node in the real tree when last drawn; 0 also for one whom we do not list."""
        return self._levels.get(node, 0)

    def _wanted(self, node: Position) -> int:
        level_of = self._context.settings.numbering.level_and_offset
        if node in self._levels:
            deeper = 2 if self._context.settings.fanout < LOW_FANOUT else 1
            return max(1, level_of(len(self._living))[0] + deeper - self._heights.get(node, 0))
        return level_of(bisect_left(self._living, node) + 1)[0]

    def _fitting(self, node: Position, wanted: int) -> list[Position]:
        """Nearest first: places that leave the node on its level, or higher."""
        mapping = self._context.mapping
        near = mapping.first_of(node) or node
        found: list[Position] = []
        for level in range(min(wanted, len(self._vacant))):
            found += self._around(self._vacant[level], near, node)
        return mapping.in_order(node, found)

    def _higher(self, node: Position, wanted: int) -> list[Position]:
        """Highest first: there is none that fits."""
        found: list[Position] = []
        for places in self._vacant[wanted:]:
            found += self._around(places, node, node)
            if len(found) >= CHOICE:
                break
        return found

    def _around(self, places: list[Position], near: Position, node: Position) -> list[Position]:
        """Some of the places around `near` that may lead the node and are not promised away."""
        at = bisect_left(places, near)
        below = (p for p in reversed(places[max(0, at - LOOKED_AT_MAX) : at]))
        above = iter(places[at : at + LOOKED_AT_MAX])
        outwards: Iterator[Position] = merge(below, above, key=lambda p: abs(p - near))
        may_lead = self._context.mapping.may_lead
        good = (p for p in outwards if may_lead(p, node) and self._free[p] > self._promised[p])
        return [p for p, _ in zip(good, range(CHOICE), strict=False)]

    # -- the plan -------------------------------------------------------------------------------------------

    def _refresh(self, top: int) -> None:
        now, roster = self._context.now, self._roster
        for node in [node for node, (_, until) in self._promises.items() if until <= now]:
            self._forget(node)
        is_fresh = self._top == top and (self._revision == roster.revision or now - self._drawn_at < PLAN_S)
        if not is_fresh or self._drawn_at < 0:
            self._draw(top)
            self._drawn_at, self._revision, self._top = now, roster.revision, top

    def _draw(self, top: int) -> None:
        roster, slots = self._roster, self._context.settings.guest_places
        owner = roster.owner
        rows = {p: claim.change for p, (_, claim) in roster.rows.items() if not claim.change.missing}
        self._living = sorted(rows)
        mapping = self._context.mapping
        by_rank = sorted(rows, key=mapping.rank) if mapping.by_performance else self._living
        self._levels = levels = {owner: top}
        self._nodes = nodes = Counter(self._living)
        heights: dict[Position, int] = {}
        self._heights = heights
        # Leaders rank below their subordinates: when a node's turn comes its leader has had it. Whose leader we do
        # not list is just moving with its branch; nobody is sent there before we know how deep that is.
        for position in by_rank:
            if position != owner and rows[position].leader in levels:
                levels[position] = levels[rows[position].leader] + 1
        for position in reversed(by_rank):
            if position != owner:
                leader = rows[position].leader
                nodes[leader] += nodes[position]
                heights[leader] = max(heights.get(leader, 0), heights.get(position, 0) + 1)
        self._free = {p: slots - roster.guests[p] for p in self._living}
        self._end_kept_promises(rows)
        self._vacant = [[] for _ in range(max(levels.values()) + 1)]
        self._guests = [[] for _ in self._vacant]
        for position in levels:
            leader = rows[position].leader
            if self._free[position] > 0:
                self._vacant[levels[position]].append(position)
            if rows[position].place == GUEST and self._free.get(leader, 1) <= 0:
                self._guests[levels[leader]].append((leader, position))
        if mapping.by_performance:
            for places in self._vacant:
                places.sort()
        if mapping.by_performance and top == 0:
            self._seating.draw(rows, levels)

    # -- promises -------------------------------------------------------------------------------------------

    def _promise(self, node: Position, place: Position) -> None:
        """Cross the place out until the node stands there, or has had time to."""
        self._forget(node)
        if len(self._promises) < PROMISES_MAX:
            self._promises[node] = place, self._context.now + PROMISE_ANSWERS * self._context.timing.answer_s
            self._promised[place] += 1

    def _end_kept_promises(self, rows: dict[Position, Change]) -> None:
        for node, (place, _) in tuple(self._promises.items()):
            if node in rows and rows[node].leader == place:
                self._forget(node)

    def _forget(self, node: Position) -> None:
        promise = self._promises.pop(node, None)
        if promise is not None:
            place, _ = promise
            self._promised[place] -= 1
            if not self._promised[place]:
                del self._promised[place]
