"""How a node's rank follows its performance (protocol section 7, mapping `performance`).

Intuition: promotion and demotion. Whoever has become better asks the one at the top where he belongs, and wears the
new badge from the moment in which a leader there takes him in. Whoever has become worse first sends away those who
outrank him now, gently: they look for another leader while he still answers. Then he changes his badge, and looks for
his place further down. Those who rank below him anyway come along.

Nothing else makes a node move: who stands one level off, because others came or went, stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

import msgspec

from subord.core.downlink.slots import Slots
from subord.core.messages import Advice, Goodbye, Why, Wish
from subord.core.placement.quantize import CLASS_MAX, UNKNOWN, steady_class
from subord.core.placement.rank_classes import NOBODY
from subord.core.state.context import Context
from subord.core.state.view import Position
from subord.core.timers import Timer

SURE_LOOKS = 3  # that find us on the right level, while others are still moving
HASTE_MAX = 16  # looks in a row for a place that is not there yet; then they become rarer
OFF_MIN = 2  # levels: who stands so far from where it belongs moves without having changed
LOW_FANOUT = 4  # below it a level holds so few that one more is no matter


class Move(msgspec.Struct, frozen=True):
    """Propose this; `leader` 0: be root."""

    leader: Position
    wish: Wish
    standing: int


class RankChange:
    """Performance and standing of one node."""

    def __init__(self, context: Context, slots: Slots) -> None:
        self._context = context
        self._rank_classes = context.mapping.rank_classes
        self._slots = slots
        self.jobs: float | None = None  # in a unit of time, as last given
        self._is_new = False  # our standing or our leader has changed, and we have not found our level yet
        self._off_min = OFF_MIN + (context.settings.fanout < LOW_FANOUT)
        self.wanted: int | None = None  # as the root last said
        self._right_looks = 0  # one after the other
        self.looks = 0  # in vain, one after the other

    def measured(self, jobs: float) -> bool:
        """So many jobs in a unit of time. True when that is another class."""
        self.jobs = jobs
        fresh = steady_class(jobs, self._context.performance)
        changed = fresh != self._context.performance
        self._context.performance = fresh
        if changed:
            self.looks = 0
        return changed

    @property
    def target(self) -> int:
        """The class by which we should stand."""
        return self._context.performance if self._context.performance != UNKNOWN else self._rank_classes.own

    @property
    def is_due(self) -> bool:
        """Ought we to look for another place?"""
        return self.may_rise or (self._is_new and self._context.mapping.by_performance)

    @property
    def may_rise(self) -> bool:
        return self._context.mapping.by_performance and self.target > self._rank_classes.own

    @property
    def must_sink(self) -> bool:
        return self._context.mapping.by_performance and self.target < self._rank_classes.own

    # -- downwards ----------------------------------------------------------------------------------------

    def sink(self, hints: tuple[Position, ...]) -> bool:
        """Send those away who would outrank us; True when nobody does any more, and we stand lower."""
        target = self.target
        self._rank_classes.sinks_to = target
        outranking = self._slots.outranking(target)
        if outranking:
            self._send_away(outranking, hints)
            return False
        self.stand(target)
        return True

    def _send_away(self, whom: Iterable[Position], hints: tuple[Position, ...]) -> None:
        """They keep us until they have found another leader."""
        context = self._context
        for position in whom:
            context.send(position, Goodbye(context.incarnation, Why.LEAVING, hints))
        context.timers.plan(Timer.RANK_CHANGE, context.now + context.timing.answer_s)

    def unsettle(self) -> None:
        """We lost our leader: the next one may stand on another level."""
        self._is_new, self._right_looks = True, 0

    def stand(self, standing: int) -> None:
        """From now on by that class."""
        self._is_new = self._is_new or self._rank_classes.own != standing
        self._right_looks = 0
        self._rank_classes.own = standing
        self._rank_classes.sinks_to = CLASS_MAX
        self._context.timers.plan(Timer.RANK_CHANGE, inf)

    def stay(self) -> None:
        """We take others in again."""
        self._rank_classes.sinks_to = CLASS_MAX

    # -- up, or to the right level -------------------------------------------------------------------------

    def choose(
        self, advice: Advice, level: int, hints: tuple[Position, ...], may_move: Callable[[], bool]
    ) -> Move | None:
        """What the root's advice means for us on `level`; None: stay. `hints` are for those whom we leave behind."""
        standing = max(self.target, self._rank_classes.own)
        if advice.hints[:1] == (self._context.position,):
            return Move(0, Wish.GUEST, standing) if may_move() else None
        off = abs(level - advice.wanted)
        if not advice.wanted or not self._is_wrong(advice.wanted, off):
            return None  # 0: who said so knows less than a root
        found = self._among(advice, off, standing)
        if found is None:
            self.looks += 1
        elif not may_move():
            return None
        elif off >= self._off_min and self._rank_classes.own != UNKNOWN and self._slots.taken:
            # Those below us stand where they belong: we go alone, and they find another leader first.
            self._rank_classes.sinks_to = NOBODY
            self._send_away(self._slots.taken, hints)
            return None
        return found

    def _is_wrong(self, wanted: int, off: int) -> bool:
        """Do we stand where we should not?"""
        self.wanted = wanted
        self._right_looks = self._right_looks + 1 if off == 0 else 0
        self._is_new = self._is_new and self._right_looks < SURE_LOOKS and self.looks < HASTE_MAX
        return self.may_rise or off >= self._off_min or (self._is_new and off > 0)

    def _among(self, advice: Advice, off: int, standing: int) -> Move | None:
        is_patient = self.is_due and self.looks < HASTE_MAX
        for hint, its_level in zip(advice.hints, advice.levels, strict=False):
            its_off = abs(its_level + 1 - advice.wanted)
            if its_off == 0 or (its_off < off and not is_patient):
                return Move(hint, Wish.GUEST, standing)
        if advice.swap and self.is_due:
            return Move(advice.swap, Wish.DISPLACE, standing)
        if advice.hints and not is_patient and standing > self._rank_classes.own:
            return Move(advice.hints[0], Wish.GUEST, standing)
        return None
