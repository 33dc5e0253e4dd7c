"""What a node does when what it measures has changed: its own performance, or the way to its leader (section 7).

Intuition: the adjutant. He keeps badge and performance in step, tells the others of the house what follows from a new
badge, and notes when the general's tent has moved further away.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from subord.core.downlink.subordinates import Downlink
from subord.core.placement.quantize import CLASS_MAX, UNKNOWN, steady_class
from subord.core.state.context import Context
from subord.core.state.phases import Phase
from subord.core.state.view import Position
from subord.core.timers import Timer
from subord.core.uplink.joining import Joining
from subord.core.uplink.leader import Uplink
from subord.core.uplink.requests import Aim

HEIRS_MAX = 3  # named to the subordinates of a root that sinks


class Remeasuring:
    """Of one node. `restate` is told when our own row of the roster is no longer right."""

    def __init__(
        self, context: Context, uplink: Uplink, downlink: Downlink, joining: Joining, restate: Callable[[], None]
    ) -> None:
        self._context = context
        self._uplink = uplink
        self._downlink = downlink
        self._joining = joining
        self._rank_change = joining.optimizer.rank_change
        self._latencies = joining.optimizer.latencies
        self._restate = restate
        self.round_trip = UNKNOWN  # class, to our leader
        self._measured: Position = 0  # whom that is about

    def remember(self, standing: int) -> None:
        """By that class we stood in our last life: whom we led then still ranks above it."""
        if self._context.mapping.by_performance:
            self._rank_change.stand(min(max(standing, UNKNOWN), CLASS_MAX))

    def on_performance(self, jobs: float) -> None:
        """So many in a unit of time."""
        if self._rank_change.measured(jobs):
            self._restate()
            self._joining.look_soon(Aim.BETTER)

    def on_echo(self) -> None:
        """Where ranks are measured distances are shown; and a leader that has become farther is a reason to look."""
        leader = self._uplink.leader
        if self._context.mapping.has_homes or leader is None:
            return
        seconds = self._latencies.of(leader.position) or self._uplink.round_trip_s
        fresh = steady_class(seconds, self.round_trip if leader.position == self._measured else UNKNOWN)
        self._measured = leader.position
        if fresh != self.round_trip:
            self.round_trip = fresh
            self._restate()
        if self._latencies.is_leader_farther:
            self._joining.look_soon(Aim.BETTER)

    def follow(self, phase: Phase) -> None:
        """Without a leader a better rank counts at once; a worse one when nobody is left who outranks it."""
        if phase in (Phase.LEAVING, Phase.GONE):
            return
        if self._rank_change.must_sink:
            if self._context.timers.at(Timer.RANK_CHANGE) == inf or not self._downlink.slots.outranking(
                self._rank_change.target
            ):
                self.on_timer()
        elif phase is Phase.ROOT and self._rank_change.may_rise:
            self._rank_change.stand(self._rank_change.target)
            self._stood()

    def on_timer(self) -> None:
        """Those whom we have told to leave have had time to do so."""
        self._context.timers.plan(Timer.RANK_CHANGE, inf)
        if not self._rank_change.must_sink:
            self._rank_change.stay()
            self._joining.look_now()
        elif self._rank_change.sink(self._next_leaders()):
            self._stood()
            self._joining.look_soon(Aim.BETTER if self._uplink.leader is not None else Aim.LOWER)

    def _next_leaders(self) -> tuple[Position, ...]:
        """For those whom we send away: of a root's the best of them, which will be root."""
        slots = self._downlink.slots
        if self._uplink.leader is not None:
            return self._downlink.guidance().alternates
        best = sorted(slots.taken.values(), key=slots.rank_of)[:HEIRS_MAX]
        return tuple(each.position for each in best)

    def _stood(self) -> None:
        """We stand by another class: what we proposed as somebody else is not valid any more."""
        self._restate()
        self._joining.withdraw()
