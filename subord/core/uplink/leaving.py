"""How a node leaves: nobody below is left standing in the rain (protocol section 4).

Intuition: an innkeeper who closes his house first finds other beds for his guests, waits until they have gone, but
not for ever, and then hands in his key.
"""

from __future__ import annotations

from subord.core.downlink.subordinates import Downlink
from subord.core.messages import Goodbye, Why
from subord.core.state.context import Context
from subord.core.timers import Timer
from subord.core.uplink.leader import Uplink


class Leaving:
    """The goodbyes of one node."""

    def __init__(self, context: Context, uplink: Uplink, downlink: Downlink) -> None:
        self._context = context
        self._uplink = uplink
        self._downlink = downlink
        self._leave_by = 0.0

    def begin(self, grace_s: float) -> None:
        """Subordinates first get their alternates, then the leader hears the goodbye."""
        self._downlink.leaving = True
        self._leave_by = self._context.now + grace_s

    def is_done(self) -> bool:
        """Say what is to be said now. True: all goodbyes are said, and nobody is above us any more."""
        context = self._context
        if self._downlink.slots.taken and context.now < self._leave_by:
            self._downlink.say_leaving()
            context.timers.plan(Timer.LEAVE, min(self._leave_by, context.now + context.timing.answer_s))
            return False
        leader = self._uplink.leader
        if leader is not None:
            context.send(leader.position, Goodbye(context.incarnation, Why.LEFT))
        return True
