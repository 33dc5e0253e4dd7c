"""How a node leaves: nobody below is left standing in the rain (protocol section 4).

Intuition: an innkeeper who closes his house first finds other beds for his guests, waits until they have gone, but
not for ever, and then hands in his key.
"""

from __future__ import annotations

from subord.core.downlink.subordinates import Leading
from subord.core.messages import Goodbye, Why
from subord.core.state.context import Context
from subord.core.timers import Alarm
from subord.core.uplink.leader import Following


class Parting:
    """The goodbyes of one node."""

    def __init__(self, context: Context, following: Following, leading: Leading) -> None:
        self._context = context
        self._following = following
        self._leading = leading
        self._leave_by = 0.0

    def begin(self, grace_s: float) -> None:
        """Subordinates first get their alternates, then the leader hears the goodbye."""
        self._leading.leaving = True
        self._leave_by = self._context.now + grace_s

    def is_done(self) -> bool:
        """Say what is to be said now. True: all goodbyes are said, and nobody is above us any more."""
        context = self._context
        if self._leading.slots.taken and context.now < self._leave_by:
            self._leading.say_leaving()
            context.agenda.plan(Alarm.LEAVE, min(self._leave_by, context.now + context.timing.answer_s))
            return False
        leader = self._following.leader
        if leader is not None:
            context.send(leader.position, Goodbye(context.incarnation, Why.LEFT))
        return True
