"""How a guest finds a better place by the root's advice (docs/protocol.md, sections 2 and 7).

Input is advice; output is a move, or the time of the next question. The mapping decides what is better: a higher
place (depth_rule.py), the level of the rank (rank_change.py), or a nearer leader (latency.py).
"""

from __future__ import annotations

from subord.core.edges.leader import Uplink
from subord.core.edges.slots import Slots
from subord.core.mapping.depth_rule import VAIN_LOOKS_MAX, better_place, is_too_deep
from subord.core.messages import Advice, Wish
from subord.core.placement.latency import Latencies
from subord.core.placement.move_budget import MoveBudget
from subord.core.placement.rank_change import FAST_LOOKS_MAX, Move, RankChange
from subord.core.state.context import Context
from subord.core.view import Position

REST_FACTOR = 8  # longer rests where every look costs a dozen probes


class Optimizer:
    def __init__(self, context: Context, uplink: Uplink, slots: Slots) -> None:
        self._context = context
        self._uplink = uplink
        self.budget = MoveBudget()
        self.rank_change = RankChange(context, slots)
        self.chosen: tuple[Position, Wish] | None = None  # chosen by round trip, and not yet proposed to
        self.latencies = Latencies(context, uplink, self._on_nearest)
        self._vain_looks = 0
        timing = context.timing
        self.rest_s_max = timing.home_interval_s_max * (REST_FACTOR if context.mapping.by_latency else 1)

    def accepted(self, leader: Position, *, by_choice: bool) -> None:
        """A leader has accepted the node."""
        present = self._uplink.leader
        if by_choice and not self._context.mapping.has_homes and present is not None and present.position != leader:
            self.budget.spend(self._context.now)

    def settle(self) -> None:
        """The node has a new leader."""
        self._vain_looks = self.rank_change.looks = 0
        self.chosen = None
        self.latencies.settle()

    @property
    def first_rest_s(self) -> float:
        """The rest after a new leader; longer below a near one, because a look seldom finds a better one."""
        factor = REST_FACTOR if self.latencies.is_leader_near else 1
        return factor * self._context.timing.search_interval_s / 2

    def choose(self, advice: Advice) -> Move | None:
        """The move to make at once; None: stay, or wait for measurements."""
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
        """Siblings with room, as hints for the subordinates left behind."""
        leader = self._uplink.leader
        return () if leader is None else tuple(p for p in leader.guidance.siblings if p != self._context.position)

    def looks_soon(self, advice: Advice) -> bool:
        """Whether to ask again soon, because a better place is due but not free yet."""
        if self._context.mapping.by_performance:
            return self.rank_change.is_due and self.rank_change.looks < FAST_LOOKS_MAX
        is_well_placed = self.latencies.is_leader_near or not is_too_deep(advice, len(self._uplink.path))
        if is_well_placed or self._vain_looks >= VAIN_LOOKS_MAX:
            return False
        self._vain_looks += 1
        return True

    def _on_nearest(self, position: Position, wish: Wish) -> None:
        if self.budget.allows(self._context.now):
            self.chosen = position, wish

    def take_chosen(self) -> Move | None:
        """The leader that measuring found, once."""
        chosen, self.chosen = self.chosen, None
        return None if chosen is None else Move(*chosen, self._context.mapping.rank_classes.own)
