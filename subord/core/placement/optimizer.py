"""How a guest finds a better place by the root's advice (docs/protocol.md, sections 2 and 7).

Input is advice; output is a move, or the time of the next question. The mapping decides what is better
(mapping/mapping.py) and asks this guest for it: its level, the level of its rank (rank_change.py), or a nearer leader
(latency.py).
"""

from __future__ import annotations

from subord.core.edges.leader import Uplink
from subord.core.edges.slots import Slots
from subord.core.mapping.depth_rule import VAIN_LOOKS_MAX
from subord.core.mapping.mapping import Move
from subord.core.messages import Advice, Wish
from subord.core.placement.latency import Latencies
from subord.core.placement.move_budget import MoveBudget
from subord.core.placement.rank_change import FAST_LOOKS_MAX, RankChange
from subord.core.state.context import Context
from subord.core.view import Position


class Optimizer:
    def __init__(self, context: Context, uplink: Uplink, slots: Slots) -> None:
        self._context = context
        self._uplink = uplink
        self.budget = MoveBudget()
        self.rank_change = RankChange(context, slots)
        self.chosen: tuple[Position, Wish] | None = None  # chosen by round trip, and not yet proposed to
        self.latencies = Latencies(context, uplink, self._on_nearest)
        self._vain_looks = 0

    def accepted(self, leader: Position, *, by_choice: bool) -> None:
        """A leader has accepted the node."""
        present = self._uplink.leader
        if by_choice and not self._context.mapping.keeps_homes and present is not None and present.position != leader:
            self.budget.spend(self._context.now)

    def settle(self) -> None:
        """The node has a new leader."""
        self._vain_looks = self.rank_change.looks = 0
        self.chosen = None
        self.latencies.settle()

    @property
    def first_rest_s(self) -> float:
        return self._context.mapping.first_rest_s(self, self._context.timing)

    def choose(self, advice: Advice) -> Move | None:
        """The move to make at once; None: stay, or wait for measurements."""
        return self._context.mapping.choose(self, advice)

    def looks_soon(self, advice: Advice) -> bool:
        """Whether to ask again soon."""
        return self._context.mapping.looks_soon(self, advice)

    def stands_well(self, advice: Advice) -> bool:
        """Whether no place is worth a move."""
        return self._context.mapping.stands_well(self, advice)

    def take_chosen(self) -> Move | None:
        """The leader that measuring found, once."""
        chosen, self.chosen = self.chosen, None
        return None if chosen is None else Move(*chosen, self._context.mapping.rank_classes.own)

    # -- for the mapping (mapping.Guest) --------------------------------------------------------------------

    @property
    def level(self) -> int:
        return len(self._uplink.path)

    @property
    def is_leader_near(self) -> bool:
        return self.latencies.is_leader_near

    @property
    def awaits_level(self) -> bool:
        return self.rank_change.is_due and self.rank_change.looks < FAST_LOOKS_MAX

    def may_look_soon(self) -> bool:
        if self._vain_looks >= VAIN_LOOKS_MAX:
            return False
        self._vain_looks += 1
        return True

    def look_for_nearer(self, advice: Advice) -> None:
        self.latencies.look(advice)

    def move_to_level(self, advice: Advice) -> Move | None:
        return self.rank_change.choose(advice, self.level, self._siblings(), self._may_move)

    def _may_move(self) -> bool:
        return self.budget.allows(self._context.now)

    def _siblings(self) -> tuple[Position, ...]:
        """Siblings with room, as hints for the subordinates left behind."""
        leader = self._uplink.leader
        return () if leader is None else tuple(p for p in leader.guidance.siblings if p != self._context.position)

    def _on_nearest(self, position: Position, wish: Wish) -> None:
        if self.budget.allows(self._context.now):
            self.chosen = position, wish
