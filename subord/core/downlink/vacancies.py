"""Where is room below us, and how high up? (protocol section 3)

The plan of vacant places is an index that follows the roster change by change (branch_index.py). A place that was
just recommended is crossed out for a moment, so that the next asker is not sent to the same leader.

A newcomer belongs on the level where it would stand if all live nodes stood in a full tree in order of rank. A
resident belongs so high that the last of its branch stands at most a level or two below the lowest level of that
tree. Of the vacant places that leave a node on its level or higher the nearest is the best. If none does, the highest
is. By performance a root draws its seating anew instead, at most once in PLAN_S.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import merge
from itertools import islice

import msgspec
from sortedcontainers import SortedSet

from subord.core.downlink.branch_index import BranchIndex
from subord.core.messages import HINTS_MAX
from subord.core.placement.depth_rule import GAIN_MIN, is_light
from subord.core.placement.rank_places import RankPlaces
from subord.core.state.context import Context
from subord.core.state.roster import GUEST, Roster
from subord.core.state.view import Position

LOW_FANOUT = 4  # below it a level holds so few that two more are no matter
PLAN_S = 0.1  # a seating is good for so long, though the roster changes
PROMISES_MAX = 1024
PROMISE_ANSWERS = 2.0  # it holds for so many waits for an answer
LOOKED_AT_MAX = 64  # places of one floor
CHOICE = 8  # places of one floor that are compared
GUESTS_MAX = 2048  # looked at to find one that must give way
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


class Vacancies:
    """The vacant places in the subtree of one node, its owner included."""

    def __init__(self, context: Context, roster: Roster) -> None:
        self._context = context
        self._roster = roster
        self._drawn_at = -1.0
        self._revision = -1
        self._top = 0  # our own level in the real tree
        self._index = BranchIndex(context, roster, self._end_kept_promise)
        self._promises: dict[Position, tuple[Position, float]] = {}  # node -> place, until when
        self._promised: Counter[Position] = Counter()
        self._rank_places = RankPlaces(context, self._index.free, self._promised.__getitem__)

    def suggest(
        self, node: Position, top: int, limit: int, *, promise: bool = True, standing: int = 0, performance: int = 0
    ) -> Places:
        """At most `limit` places for `node`; `top` is the level of the owner in the real tree."""
        self._refresh(top)
        level_of = self._index.level_of
        self._forget(node)  # whoever asks again may be sent to the same place again
        if self._context.mapping.by_performance and top == 0:
            wish = max(standing, performance) if level_of(node) is not None else standing
            return self._seat(node, wish, limit, promise=promise)
        wanted = self._wanted(node)
        home = self._context.mapping.home_of(node)
        chosen = self._fitting(node, wanted)[:limit] or self._higher(node, wanted)[:limit]
        if home is not None and self._roster.is_live(home) and level_of(home) is not None:
            chosen = [home, *(p for p in chosen if p != home)][:limit]
        levels = tuple(self.level_of(p) for p in chosen)
        is_newcomer, level = level_of(node) is None, self.level_of(node)  # a resident comes only for a gain
        if promise and chosen and (is_newcomer or level > wanted >= levels[0] + 1):
            self._promise(node, chosen[0])
        return Places(tuple(chosen), levels, wanted)

    def _seat(self, node: Position, standing: int, limit: int, *, promise: bool) -> Places:
        """By performance; `standing`: the class by which the node wants to stand."""
        if self._rank_places.is_best(node, standing):
            return Places((node,), (0,), 0)
        wanted = max(1, self._rank_places.wanted(node, standing))
        chosen = tuple(islice(self._rank_places.places(node, standing, wanted), limit))
        levels = tuple(self.level_of(p) for p in chosen)
        exact = bool(chosen) and levels[0] + 1 == wanted
        row = self._roster.rows.get(node)
        if promise and exact and (row is None or row[1].change.leader != chosen[0]):  # else it stands there already
            self._promise(node, chosen[0])
        swap = 0 if exact else self._rank_places.giving_way(node, standing, wanted)
        return Places(chosen, levels, wanted, swap)

    def some_for(self, node: Position) -> tuple[Position, ...]:
        """Live ones that may lead the node: the nearest by number, and some by chance. Who is full knows others."""
        may_lead, living = self._context.mapping.may_lead, self._index.living
        at = living.bisect_left(node)
        beside = islice(lower_than(node, living), BESIDE)
        below = range(at)  # lower positions, which is all who may lead where this is asked for
        drawn = (living[n] for n in self._context.chance.sample(below, min(PICKED_MAX, len(below))))
        found = dict.fromkeys((*beside, *drawn))
        return tuple(p for p in found if may_lead(p, node))[:HINTS_MAX]

    def swap(self, node: Position, level: int) -> Position:
        """A full leader above `level` who could take `node` in the place of a light guest; 0: none."""
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
        """The leader of the highest guest above `node`, if it may lead the node: it must make room; 0: none."""
        mapping = self._context.mapping
        if mapping.by_performance:
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
        """The level of a node in the real tree; 0 also for one that we do not list."""
        level = self._index.level_of(node)
        return 0 if level is None else level + self._top

    def _wanted(self, node: Position) -> int:
        level_and_offset, living = self._context.settings.numbering.level_and_offset, self._index.living
        if self._index.level_of(node) is not None:
            deeper = 2 if self._context.settings.fanout < LOW_FANOUT else 1
            return max(1, level_and_offset(len(living))[0] + deeper - self._index.height_of(node))
        return level_and_offset(living.bisect_left(node) + 1)[0]

    def _fitting(self, node: Position, wanted: int) -> list[Position]:
        """Nearest first: places that leave the node on its level, or higher."""
        mapping = self._context.mapping
        near = mapping.first_of(node) or node
        found: list[Position] = []
        for places in self._index.vacant[: max(0, wanted - self._top)]:
            found += self._around(places, near, node)
        return mapping.in_order(node, found)

    def _higher(self, node: Position, wanted: int) -> list[Position]:
        """Highest first: there is none that fits."""
        found: list[Position] = []
        for places in self._index.vacant[max(0, wanted - self._top) :]:
            found += self._around(places, node, node)
            if len(found) >= CHOICE:
                break
        return found

    def _around(self, places: SortedSet[Position], near: Position, node: Position) -> list[Position]:
        """Some of the places around `near` that may lead the node and are not promised away."""
        below = islice(lower_than(near, places), LOOKED_AT_MAX)
        above = islice(places.irange(near), LOOKED_AT_MAX)
        outwards: Iterator[Position] = merge(below, above, key=lambda p: abs(p - near))
        may_lead, free, promised = self._context.mapping.may_lead, self._index.free, self._promised
        good = (p for p in outwards if may_lead(p, node) and free(p) > promised[p])
        return list(islice(good, CHOICE))

    # -- the plan -------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """The roster may have changed."""
        self._index.catch_up()

    def _refresh(self, top: int) -> None:
        now, roster = self._context.now, self._roster
        for node in [node for node, (_, until) in self._promises.items() if until <= now]:
            self._forget(node)
        self._top = top
        self.catch_up()
        if not self._context.mapping.by_performance or top:
            return
        is_fresh = self._drawn_at >= 0 and (self._revision == roster.revision or now - self._drawn_at < PLAN_S)
        if not is_fresh:
            rows = {p: claim.change for p, (_, claim) in roster.rows.items() if not claim.change.missing}
            self._rank_places.draw(rows, self._index.levels())
            self._drawn_at, self._revision = now, roster.revision

    # -- promises -------------------------------------------------------------------------------------------

    def _promise(self, node: Position, place: Position) -> None:
        """Cross the place out until the node stands there, or has had time to."""
        self._forget(node)
        if len(self._promises) < PROMISES_MAX:
            self._promises[node] = place, self._context.now + PROMISE_ANSWERS * self._context.timing.answer_s
            self._promised[place] += 1

    def _end_kept_promise(self, node: Position, leader: Position) -> None:
        """The node stands below this leader."""
        promise = self._promises.get(node)
        if promise is not None and promise[0] == leader:
            self._forget(node)

    def _forget(self, node: Position) -> None:
        promise = self._promises.pop(node, None)
        if promise is not None:
            place, _ = promise
            self._promised[place] -= 1
            if not self._promised[place]:
                del self._promised[place]


def lower_than(position: Position, among: SortedSet[Position]) -> Iterator[Position]:
    """The highest first."""
    found: Iterator[Position] = among.irange(maximum=position, inclusive=(True, False), reverse=True)
    return found
