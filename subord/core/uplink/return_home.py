"""Where is our home, and may we move there? (protocol section 4)

Intuition: whoever lives elsewhere for the time being keeps the address of his house, and a note of when he may move
back in.
"""

from __future__ import annotations

from subord.core.messages import Wish
from subord.core.state.context import Context
from subord.core.state.view import Position
from subord.core.uplink.damping import Damping
from subord.core.uplink.leader import Uplink


class ReturnHome:
    """The computed leader of one node."""

    def __init__(self, context: Context, uplink: Uplink) -> None:
        self._context = context
        self._uplink = uplink
        self.first = context.mapping.first_of(context.position)
        """Whom we ask first; None: no position is lower than ours."""
        self.damping = Damping(context.timing)

    @property
    def elsewhere(self) -> Position | None:
        """The computed leader, if it keeps a place for us and we do not follow it already."""
        home, leader = self._context.mapping.home_of(self._context.position), self._uplink.leader
        return None if leader is not None and leader.position == home else home

    def wish_for(self, position: Position) -> Wish:
        """What to ask somebody for."""
        return Wish.HOME if position == self.first and self._context.mapping.has_homes else Wish.GUEST
