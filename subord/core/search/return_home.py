"""The home of a node, and when the node may return to it (docs/protocol.md, section 4)."""

from __future__ import annotations

from subord.core.edges.leader import Uplink
from subord.core.messages import Wish
from subord.core.search.damping import Damping
from subord.core.state.context import Context
from subord.core.view import Position


class ReturnHome:
    def __init__(self, context: Context, uplink: Uplink) -> None:
        self._context = context
        self._uplink = uplink
        self.first = context.mapping.first_of(context.position)
        """The computed leader, which is asked first; None for the lowest position."""
        self.damping = Damping(context.timing)

    @property
    def elsewhere(self) -> Position | None:
        """The home, if the node stands elsewhere; None without homes."""
        home, leader = self._context.mapping.home_of(self._context.position), self._uplink.leader
        return None if leader is not None and leader.position == home else home

    def wish_for(self, position: Position) -> Wish:
        """The wish of a proposal to `position`."""
        return Wish.HOME if position == self.first and self._context.mapping.has_homes else Wish.GUEST
