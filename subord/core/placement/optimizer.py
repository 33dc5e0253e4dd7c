"""A guest looks for a better place, by what the root advises (protocol sections 2 and 7).

Intuition: somebody who has a seat, and now and then asks the usher whether there is a better one. What is better is
another matter in each house: further in front (depth_rule.py), where one's rank belongs (rank_change.py), or nearer
(latency.py).
"""

from __future__ import annotations

from subord.core.downlink.slots import Slots
from subord.core.messages import Advice, Wish
from subord.core.placement.depth_rule import VAIN_LOOKS_MAX, better_place, is_too_deep
from subord.core.placement.latency import Latencies
from subord.core.placement.move_budget import MoveBudget
from subord.core.placement.rank_change import HASTE_MAX, Move, RankChange
from subord.core.state.context import Context
from subord.core.state.view import Position
from subord.core.uplink.leader import Uplink

RARER = 8  # times, where every look costs a dozen probes


class Optimizer:
    """What one node makes of advice."""

    def __init__(self, context: Context, uplink: Uplink, slots: Slots) -> None:
        self._context = context
        self._uplink = uplink
        self.budget = MoveBudget()
        self.rank_change = RankChange(context, slots)
        self.chosen: tuple[Position, Wish] | None = None  # by distance, and not yet proposed to
        self.latencies = Latencies(context, uplink, self._on_nearest)
        self._vain_looks = 0
        timing = context.timing
        self.rest_s_max = timing.home_interval_s_max * (RARER if context.mapping.by_latency else 1)

    def accepted(self, leader: Position, *, by_choice: bool) -> None:
        """We are about to follow somebody."""
        present = self._uplink.leader
        if by_choice and not self._context.mapping.has_homes and present is not None and present.position != leader:
            self.budget.spend(self._context.now)

    def settle(self) -> None:
        """We have a new leader."""
        self._vain_looks = self.rank_change.looks = 0
        self.chosen = None
        self.latencies.settle()

    @property
    def first_rest_s(self) -> float:
        """Of a guest that has a new leader. A near one is found by a look, so the next may wait."""
        rarer = RARER if self.latencies.is_leader_near else 1
        return rarer * self._context.timing.search_interval_s / 2

    def choose(self, advice: Advice) -> Move | None:
        """What to do at once; None: stay, or wait for what is being measured."""
        level = len(self._uplink.path)
        if self._context.mapping.by_performance:
            return self.rank_change.choose(advice, level, self._siblings(), self._may_move)
        if self._context.mapping.by_latency:
            self.latencies.look(advice)
            return None
        found = better_place(advice, level)
        return None if found is None else Move(*found, self._context.mapping.rank_classes.own)

    def _may_move(self) -> bool:
        return self.budget.allows(self._context.now)

    def _siblings(self) -> tuple[Position, ...]:
        """Who stand beside us and have room: for those whom we leave behind."""
        leader = self._uplink.leader
        return () if leader is None else tuple(p for p in leader.guidance.siblings if p != self._context.position)

    def looks_soon(self, advice: Advice) -> bool:
        """Should we look again soon, because there was no better place yet?"""
        if self._context.mapping.by_performance:
            return self.rank_change.is_due and self.rank_change.looks < HASTE_MAX
        is_content = self.latencies.is_leader_near or not is_too_deep(advice, len(self._uplink.path))
        if is_content or self._vain_looks >= VAIN_LOOKS_MAX:
            return False
        self._vain_looks += 1
        return True

    def _on_nearest(self, position: Position, wish: Wish) -> None:
        if self.budget.allows(self._context.now):
            self.chosen = position, wish

    def take_chosen(self) -> Move | None:
        """What was found by measuring, once."""
        chosen, self.chosen = self.chosen, None
        return None if chosen is None else Move(*chosen, self._context.mapping.rank_classes.own)
