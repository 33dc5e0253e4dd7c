"""How a node leaves (docs/protocol.md, section 4).

Inputs are the grace and time; outputs are goodbyes. Subordinates hear the goodbye first and are waited for, at most
for the grace; then the leader hears it.
"""

from __future__ import annotations

from subord.core.edges.leader import Uplink
from subord.core.edges.subordinates import Downlink
from subord.core.messages import Goodbye, Why
from subord.core.state.context import Context
from subord.core.timers import Timer


class Leaving:
    def __init__(self, context: Context, uplink: Uplink, downlink: Downlink) -> None:
        self._context = context
        self._uplink = uplink
        self._downlink = downlink
        self._leave_by = 0.0

    def begin(self, grace_s: float) -> None:
        """Begin to leave; the node waits at most `grace_s` for its subordinates."""
        self._leave_by = self._context.now + grace_s

    def is_done(self) -> bool:
        """Send the goodbyes that are due. True when all are sent."""
        context = self._context
        if self._downlink.slots.taken and context.now < self._leave_by:
            self._downlink.say_leaving()
            context.timers.plan(Timer.LEAVE, min(self._leave_by, context.now + context.timing.answer_s))
            return False
        leader = self._uplink.leader
        if leader is not None:
            context.send(leader.position, Goodbye(context.incarnation, Why.LEFT))
        return True
