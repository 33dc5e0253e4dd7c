"""Here is a root: told to everybody on the wire, where that is wanted (protocol section 3).

Intuition: a lighthouse. Only those who have nobody above them show a light, so however large the cluster is there is
one light in the end. It is shown soon after the lighthouse is manned, and more and more rarely while nothing changes.
"""

from __future__ import annotations

from math import inf

from subord.core.messages import Announce
from subord.core.pacing.backoff import Backoff
from subord.core.state.context import Context
from subord.core.state.view import Position
from subord.core.timers import Timer

FIRST_S = 2.0  # in answers: as long as our home may need to answer


class Announcer:
    """Announces one node while it has no leader. Where multicast is off nobody hears it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._backoff = Backoff(context.timing.search_interval_s)
        self._is_alone = False

    def alone(self) -> None:
        """We have no leader; who hears a lower root first keeps silent, so a thousand do not speak at once."""
        if not self._is_alone:
            context, timing = self._context, self._context.timing
            self._is_alone = True
            self._backoff = Backoff(timing.search_interval_s)
            wait_s = timing.answer_s * FIRST_S + context.chance.uniform(0, timing.search_interval_s)
            context.timers.plan(Timer.ANNOUNCE, context.now + wait_s)

    def led(self) -> None:
        """We have one."""
        self._is_alone = False
        self._context.timers.plan(Timer.ANNOUNCE, inf)

    def on_announce(self, source: Position) -> None:
        """One who ranks above us has no leader: let it hear us soon."""
        context = self._context
        soon = context.now + context.chance.uniform(0, context.timing.search_interval_s)
        if self._is_alone and context.mapping.may_lead(context.position, source):
            context.timers.plan(Timer.ANNOUNCE, min(soon, context.timers.at(Timer.ANNOUNCE)))

    def on_timer(self, *, silent: bool) -> None:
        """Announce, unless a lower one was heard, and rest."""
        context = self._context
        if not silent:
            context.publish(Announce(context.incarnation, context.terms, context.mapping.rank_classes.own))
        rest_s = self._backoff.step(context.timing.home_interval_s_max)
        context.timers.plan(Timer.ANNOUNCE, context.now + context.jittered(rest_s))
