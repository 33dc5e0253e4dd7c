"""Streams along the edges of the tree: when one opens, and the events at its ends when it breaks.

Inputs are notices of nodes, ends of processes, and the network; outputs are `EdgeClosed` events. A stream opens when
core/pacing/edge_pace.py says so, as in the daemon, where both ends live, the network lets streams through both ways,
and the ends have a key in common. Documents travel along open streams (members.py). Invariant: a node has at most one
stream to a leader.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from subord.core.carriage.exchange import DIGEST_S
from subord.core.events import EdgeClosed, Notice
from subord.core.pacing.edge_pace import EdgeChange, EdgePace, edge_change
from subord.sim.world.links import DELAY_S

if TYPE_CHECKING:
    from subord.core.view import Position
    from subord.sim.world.world import World

KERNEL_S = DELAY_S[1]  # delay of what the kernel of a host sends


class _Opener:
    """Opens the streams of one process. Attempts before the last planned one are void."""

    def __init__(self, pace: EdgePace) -> None:
        self.pace = pace
        self.attempt = 0
        self.is_pending = False
        self.opened_at = 0.0


class Edges:
    """The open streams of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._openers: dict[Position, _Opener] = {}
        self._leaders: dict[Position, Position] = {}  # subordinate -> leader
        self._below: defaultdict[Position, dict[Position, None]] = defaultdict(dict)

    def ends_of(self, position: Position) -> list[Position]:
        """The other ends of the streams of a node, its leader first."""
        leader = self._leaders.get(position)
        return [*(() if leader is None else (leader,)), *self._below.get(position, ())]

    # -- opening ------------------------------------------------------------------------------------------

    def begin(self, position: Position) -> None:
        """A process starts."""
        self._openers[position] = _Opener(EdgePace(self._world.chance))

    def observe(self, position: Position, notice: Notice) -> None:
        """Follow a node's changes of place."""
        change, opener = edge_change(notice), self._openers[position]
        if change is not None:
            opener.pace.moved()
        if change is EdgeChange.MOVE:
            self._leave(position)
        if change is EdgeChange.MOVE or (change and not opener.is_pending and position not in self._leaders):
            self._plan(position)

    def _plan(self, position: Position) -> None:
        """Open a stream to the present leader, if there is one."""
        opener, leader = self._openers[position], self._world.leader_of(position)
        opener.attempt += 1
        opener.is_pending = leader > 0
        if opener.is_pending:
            delay_s = opener.pace.opening_delay_s()
            self._world.after(delay_s, self._open, position, opener, opener.attempt, leader)

    def _open(self, position: Position, opener: _Opener, attempt: int, leader: Position) -> None:
        if not self._is_valid(position, opener, attempt):
            return
        opener.pace.tried()
        if leader not in self._world.nodes or not self._reach(position, leader):
            self._plan_retry(position, 0.0)
            return
        opener.is_pending, opener.opened_at = False, self._world.now
        self._leaders[position] = leader
        self._below[leader][position] = None
        if self._world.members is not None:
            self._world.members.opened(position, leader)
        self._world.carried.opened(position, leader)

    def _plan_retry(self, position: Position, lasted_s: float) -> None:
        """Open a stream again after an end, or after an attempt that failed."""
        opener = self._openers[position]
        opener.attempt += 1
        opener.is_pending = True
        delay_s = opener.pace.retry_delay_s(lasted_s)
        self._world.after(delay_s, self._retry, position, opener, opener.attempt)

    def _retry(self, position: Position, opener: _Opener, attempt: int) -> None:
        if self._is_valid(position, opener, attempt):
            self._plan(position)

    def _is_valid(self, position: Position, opener: _Opener, attempt: int) -> bool:
        """Whether the process still runs, and has planned nothing else meanwhile."""
        is_running = position in self._world.nodes and self._openers[position] is opener
        return is_running and opener.attempt == attempt

    def _reach(self, one: Position, other: Position) -> bool:
        is_open, seals = self._world.weather.is_open, self._world.seals
        reach = is_open(one, other, stream=True) and is_open(other, one, stream=True)
        return reach and (seals is None or seals.rings.share_a_key(one, other))

    # -- ends ---------------------------------------------------------------------------------------------

    def hang_up(self, position: Position) -> None:
        """Break all streams of a living node; both ends of each are told, and the subordinates reopen them."""
        leader = self._leaders.get(position)
        if leader is not None:
            self._leave(position)
            self._tell_closed(leader, position)
            self._plan_retry(position, self._lasted_s(position))
        for subordinate in self._close_below(position):
            self._tell_closed(subordinate, position)

    def hang_up_below(self, position: Position) -> None:
        """Close the streams that the subordinates of a leader opened; they reopen them."""
        self._close_below(position)

    def close(self, position: Position) -> None:
        """Close all streams of a process that ended, as its kernel does."""
        self._leave(position)
        self._close_below(position)

    def forget(self, position: Position) -> None:
        """Drop the streams of a host that is gone, silently."""
        leader = self._leaders.pop(position, None)
        if leader is not None:
            self._below[leader].pop(position, None)
            self._world.carried.closed(position, leader, is_told=False)
        for subordinate in self._below.pop(position, {}):
            del self._leaders[subordinate]
            self._world.carried.closed(position, subordinate, is_told=False)
            if self._world.members is not None or self._world.carried.is_there:
                attempt = self._openers[subordinate].attempt
                self._world.after(DIGEST_S, self._break, position, subordinate, attempt)

    def _break(self, leader: Position, position: Position, attempt: int) -> None:
        """The next digest finds that the host of the leader is gone, or has another process."""
        opener = self._openers[position]
        if position in self._world.nodes and opener.attempt == attempt and position not in self._leaders:
            self._world.feed(position, EdgeClosed(leader))
            self._plan_retry(position, self._lasted_s(position))

    def _leave(self, position: Position) -> None:
        """Close the stream of a subordinate to its former leader."""
        leader = self._leaders.pop(position, None)
        if leader is not None:
            self._below[leader].pop(position, None)
            self._tell_closed(position, leader)

    def _close_below(self, position: Position) -> list[Position]:
        below = list(self._below.pop(position, {}))
        for subordinate in below:
            del self._leaders[subordinate]
            self._tell_closed(position, subordinate)
            self._plan_retry(subordinate, self._lasted_s(subordinate))
        return below

    def _lasted_s(self, position: Position) -> float:
        return self._world.now - self._openers[position].opened_at

    def _tell_closed(self, source: Position, target: Position) -> None:
        self._world.carried.closed(source, target, is_told=True)
        if self._world.weather.is_open(source, target, stream=True):
            self._world.after(KERNEL_S, self._world.feed, target, EdgeClosed(source))
