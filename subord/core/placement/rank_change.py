"""How the rank of a node follows its performance (docs/protocol.md, section 7, mapping `performance`).

Inputs are measured performance and advice of the root; outputs are moves, and the class by which the node stands. A
better class counts when a leader accepts it; a worse one when no subordinate outranks it any more. Those that would
are told to leave while the node still leads them. So a leader outranks its subordinates at every instant (S1). A node
that stands one level off because others came or went stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from subord.core.edges.slots import Slots
from subord.core.mapping.depth_rule import off_min
from subord.core.mapping.mapping import Move
from subord.core.mapping.rank_classes import NO_CLASS
from subord.core.messages import Advice, Goodbye, Why, Wish
from subord.core.quantize import CLASS_MAX, UNKNOWN, steady_class
from subord.core.state.context import Context
from subord.core.timers import Timer
from subord.core.view import Position

SURE_LOOKS = 3  # looks on the right level, while others still move
FAST_LOOKS_MAX = 16  # looks in a row for a place that is not free yet; then they become rarer


class RankChange:
    """Performance and standing of one node."""

    def __init__(self, context: Context, slots: Slots) -> None:
        self._context = context
        self._rank_classes = context.mapping.rank_classes
        self._slots = slots
        self.jobs: float | None = None  # per unit of time, as last measured
        self._is_new = False  # standing or leader have changed, and the right level is not confirmed
        self._off_min = off_min(context.settings.fanout)
        self.wanted: int | None = None  # level, as the root last said
        self._right_looks = 0  # in a row
        self.looks = 0  # in vain, in a row

    def measured(self, jobs: float) -> bool:
        """Take a measured performance, in jobs per unit of time. True when its class changed."""
        self.jobs = jobs
        fresh = steady_class(jobs, self._context.performance)
        changed = fresh != self._context.performance
        self._context.performance = fresh
        if changed:
            self.looks = 0
        return changed

    @property
    def target(self) -> int:
        """The class by which the node should stand."""
        return self._context.performance if self._context.performance != UNKNOWN else self._rank_classes.own

    @property
    def is_due(self) -> bool:
        """Whether the node should look for another place."""
        return self.may_rise or self._is_new

    @property
    def may_rise(self) -> bool:
        return self.target > self._rank_classes.own

    @property
    def must_sink(self) -> bool:
        return self.target < self._rank_classes.own

    # -- downwards ----------------------------------------------------------------------------------------

    def sink(self, hints: tuple[Position, ...]) -> bool:
        """Dismiss subordinates that would outrank the node; True when none is left and the node stands lower."""
        target = self.target
        self._rank_classes.sinks_to = target
        outranking = self._slots.outranking(target)
        if outranking:
            self._dismiss(outranking, hints)
            return False
        self.stand(target)
        return True

    def _dismiss(self, positions: Iterable[Position], hints: tuple[Position, ...]) -> None:
        """Tell subordinates to leave; they keep this leader until they have another one."""
        context = self._context
        for position in positions:
            context.send(position, Goodbye(context.incarnation, Why.LEAVING, hints))
        context.timers.plan(Timer.RANK_CHANGE, context.now + context.timing.answer_s)

    def unsettle(self) -> None:
        """The leader is lost: the next one may stand on another level."""
        self._is_new, self._right_looks = True, 0

    def stand(self, standing: int) -> None:
        """Stand by the class `standing` from now on."""
        self._is_new = self._is_new or self._rank_classes.own != standing
        self._right_looks = 0
        self._rank_classes.own = standing
        self._rank_classes.sinks_to = CLASS_MAX
        self._context.timers.plan(Timer.RANK_CHANGE, inf)

    def stay(self) -> None:
        """Accept all ranks again."""
        self._rank_classes.sinks_to = CLASS_MAX

    # -- up, or to the right level -------------------------------------------------------------------------

    def choose(
        self, advice: Advice, level: int, hints: tuple[Position, ...], may_move: Callable[[], bool]
    ) -> Move | None:
        """The move that the root's advice suggests on `level`; None: stay. `hints` go to dismissed subordinates."""
        standing = max(self.target, self._rank_classes.own)
        if advice.hints[:1] == (self._context.position,):
            return Move(0, Wish.GUEST, standing) if may_move() else None
        off = abs(level - advice.wanted)
        if not advice.wanted or not self._is_wrong(advice.wanted, off):
            return None  # 0: the answering node is no root
        found = self._among(advice, off, standing)
        if found is None:
            self.looks += 1
        elif not may_move():
            return None
        elif off >= self._off_min and self._rank_classes.own != UNKNOWN and self._slots.taken:
            # The subordinates stand where they belong: they find other leaders before this node moves.
            self._rank_classes.sinks_to = NO_CLASS
            self._dismiss(self._slots.taken, hints)
            return None
        return found

    def _is_wrong(self, wanted: int, off: int) -> bool:
        """Whether the node stands on a wrong level."""
        self.wanted = wanted
        self._right_looks = self._right_looks + 1 if off == 0 else 0
        self._is_new = self._is_new and self._right_looks < SURE_LOOKS and self.looks < FAST_LOOKS_MAX
        return self.may_rise or off >= self._off_min or (self._is_new and off > 0)

    def _among(self, advice: Advice, off: int, standing: int) -> Move | None:
        is_early = self.is_due and self.looks < FAST_LOOKS_MAX
        for hint, its_level in zip(advice.hints, advice.levels, strict=False):
            its_off = abs(its_level + 1 - advice.wanted)
            if its_off == 0 or (its_off < off and not is_early):
                return Move(hint, Wish.GUEST, standing)
        if advice.swap and self.is_due:
            return Move(advice.swap, Wish.DISPLACE, standing)
        if advice.hints and not is_early and standing > self._rank_classes.own:
            return Move(advice.hints[0], Wish.GUEST, standing)
        return None
