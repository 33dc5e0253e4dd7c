"""What follows from a changed measurement of performance or round trip (docs/protocol.md, section 7).

Inputs are performance and echoes; outputs are a new own row, a new standing, dismissed subordinates, and searches for
a better place.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from subord.core.edges.leader import Uplink
from subord.core.edges.subordinates import Downlink
from subord.core.placement.optimizer import Optimizer
from subord.core.quantize import CLASS_MAX, UNKNOWN, steady_class
from subord.core.search.joining import Joining
from subord.core.state.context import Context
from subord.core.state.states import Aim, Phase
from subord.core.timers import Timer
from subord.core.view import Position

SUCCESSORS_MAX = 3  # named to the subordinates of a root that falls


class Remeasuring:
    """The measurements of one node. `restate` is called when its own row has changed."""

    def __init__(
        self,
        context: Context,
        uplink: Uplink,
        downlink: Downlink,
        optimizer: Optimizer,
        joining: Joining,
        *,
        restate: Callable[[], None],
    ) -> None:
        self._context = context
        self._uplink = uplink
        self._downlink = downlink
        self._joining = joining
        self._search = joining.search
        self._rank_change = optimizer.rank_change
        self._latencies = optimizer.latencies
        self._restate = restate
        self.round_trip = UNKNOWN  # the class of the round trip to the leader
        self._measured: Position = 0  # the leader of that round trip

    def remember(self, standing: int) -> None:
        """Stand by the class of the last process, which its subordinates still rank above."""
        if self._context.mapping.ranks_change:
            self._rank_change.stand(min(max(standing, UNKNOWN), CLASS_MAX))

    def on_performance(self, jobs: float) -> None:
        """Take a performance in jobs per unit of time."""
        if self._rank_change.measured(jobs):
            self._restate()
            self._search.look_soon(Aim.BETTER)

    def on_echo(self) -> None:
        """Update the class of the round trip, and search when the leader became farther; without homes only."""
        leader = self._uplink.leader
        if self._context.mapping.keeps_homes or leader is None:
            return
        seconds = self._latencies.of(leader.position) or self._uplink.round_trip_s
        fresh = steady_class(seconds, self.round_trip if leader.position == self._measured else UNKNOWN)
        self._measured = leader.position
        if fresh != self.round_trip:
            self.round_trip = fresh
            self._restate()
        if self._latencies.is_leader_farther:
            self._search.look_soon(Aim.BETTER)

    def follow(self, phase: Phase) -> None:
        """Without a leader a better class counts at once; a worse one when no subordinate outranks it."""
        if not self._context.mapping.ranks_change or phase in (Phase.LEAVING, Phase.GONE):
            return
        if self._rank_change.must_sink:
            if self._context.timers.at(Timer.RANK_CHANGE) == inf or not self._downlink.slots.outranking(
                self._rank_change.target
            ):
                self.on_timer()
        elif phase is Phase.ROOT and self._rank_change.may_rise:
            self._rank_change.stand(self._rank_change.target)
            self._on_new_standing()

    def on_timer(self) -> None:
        """Dismissed subordinates had time to leave."""
        self._context.timers.plan(Timer.RANK_CHANGE, inf)
        if not self._rank_change.must_sink:
            self._rank_change.stay()
            self._joining.look_now()
        elif self._rank_change.sink(self._next_leaders()):
            self._on_new_standing()
            self._search.look_soon(Aim.BETTER if self._uplink.leader is not None else Aim.LOWER)

    def _next_leaders(self) -> tuple[Position, ...]:
        """Hints for dismissed subordinates; for those of a root the best of them, which become root."""
        slots = self._downlink.slots
        if self._uplink.leader is not None:
            return self._downlink.guidance().alternates
        best = sorted(slots.taken.values(), key=slots.rank_of)[:SUCCESSORS_MAX]
        return tuple(each.position for each in best)

    def _on_new_standing(self) -> None:
        """The standing changed, so open proposals state a wrong one."""
        self._restate()
        self._search.withdraw()
