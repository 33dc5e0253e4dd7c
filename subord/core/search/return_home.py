"""The home of a node, and when damping lets the node return to it (docs/protocol.md, section 4).

Inputs are losses of the home; output is `hold_until`, before which a guest or root does not return. After two losses
in a row the hold is `return_hold_s`, and each further loss doubles it up to `return_hold_s_max`, so a home that
crashes again and again does not move a branch each time. An orphan is not held: it has to move anyway.
"""

from __future__ import annotations

from math import inf

from subord.core.edges.leader import Uplink
from subord.core.messages import Wish
from subord.core.state.context import Context
from subord.core.state.states import Aim
from subord.core.view import Position


class ReturnHome:
    def __init__(self, context: Context, uplink: Uplink) -> None:
        self._context = context
        self._uplink = uplink
        self._losses = 0.0
        self._lost_at = -inf
        self.hold_until = -inf  # seconds of the node's clock
        self.first = context.mapping.first_of(context.position)
        """The computed leader, which is asked first; None for the lowest position."""

    @property
    def elsewhere(self) -> Position | None:
        """The home, if the node stands elsewhere; None without homes."""
        home, leader = self._context.mapping.home_of(self._context.position), self._uplink.leader
        return None if leader is not None and leader.position == home else home

    def wish_for(self, position: Position) -> Wish:
        """The wish of a proposal to `position`."""
        return Wish.HOME if position == self._context.mapping.home_of(self._context.position) else Wish.GUEST

    def lost(self, since: float) -> None:
        """The home, which led the node since `since`, is lost or leaves."""
        now, timing = self._context.now, self._context.timing
        calm_s = now - max(self._lost_at, since)
        self._losses = max(0.0, self._losses - calm_s / timing.return_hold_s_max) + 1
        self._lost_at = now
        doublings = round(self._losses) - 2
        if doublings >= 0:
            hold_s = min(timing.return_hold_s * 2 ** min(doublings, 32), timing.return_hold_s_max)
            self.hold_until = now + hold_s

    @property
    def is_held(self) -> bool:
        """Whether a guest or root must not return yet."""
        return self._context.state.aim in (Aim.BETTER, Aim.LOWER) and self._context.now < self.hold_until
