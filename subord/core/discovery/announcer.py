"""When a node without a leader announces itself by multicast (docs/protocol.md, section 3).

Inputs are the loss of a leader, announcements of others, and time; outputs are announcements. The first one follows
the first answers; then the pause doubles up to `home_interval_s_max`. A node that heard a lower one stays silent, so
only the root of a settled cluster announces itself.
"""

from __future__ import annotations

from math import inf

from subord.core.messages import Announce
from subord.core.pacing.backoff import Backoff
from subord.core.state.context import Context
from subord.core.timers import Timer
from subord.core.view import Position

FIRST_S = 2.0  # in answers: the home has time to answer


class Announcer:
    """Announces one node while it has no leader. Without multicast, the driver drops the announcement."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._backoff = Backoff(context.timing.search_interval_s)

    def alone(self) -> None:
        """The node has no leader. A random delay keeps a thousand nodes from announcing at once."""
        context, timing = self._context, self._context.timing
        self._backoff = Backoff(timing.search_interval_s)
        wait_s = timing.answer_s * FIRST_S + context.chance.uniform(0, timing.search_interval_s)
        context.timers.plan(Timer.ANNOUNCE, context.now + wait_s)

    def stop(self) -> None:
        """The node has a leader, or leaves: no announcement until it is alone again."""
        self._context.timers.plan(Timer.ANNOUNCE, inf)

    def on_announce(self, source: Position) -> None:
        """A node that ranks above this one has no leader: announce soon."""
        context, planned_at = self._context, self._context.timers.at(Timer.ANNOUNCE)
        soon = context.now + context.chance.uniform(0, context.timing.search_interval_s)
        if planned_at < inf and context.mapping.may_lead(context.position, source):
            context.timers.plan(Timer.ANNOUNCE, min(soon, planned_at))

    def on_timer(self, *, silent: bool) -> None:
        """Announce, unless `silent` because a lower node was heard, and wait."""
        context = self._context
        if not silent:
            context.publish(Announce(context.incarnation, context.terms, context.mapping.rank_classes.own))
        rest_s = self._backoff.step(context.timing.home_interval_s_max)
        context.timers.plan(Timer.ANNOUNCE, context.now + context.jittered(rest_s))
