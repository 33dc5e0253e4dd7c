"""Streams along the edges of the tree: when one opens, and the events at its ends when it breaks.

Input are changes of place, ends of processes, and the network; output are `EdgeClosed` events. A stream opens shortly
after its subordinate has found its place, as in runtime/net/edge.py, where both ends live, the network lets streams
through both ways, and the ends have a key in common. Key rings travel along open streams (sealed.py). Invariant: a
node has at most one stream to a leader.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from subord.core.events import EdgeClosed
from subord.sim.world.links import DELAY_S

if TYPE_CHECKING:
    from subord.core.node import Node
    from subord.core.view import Position
    from subord.sim.world.world import World

# As in runtime/net/edge.py: to the first leader, to a new one, and after a break.
FIRST_EDGE_DELAY_S, EDGE_DELAY_S, EDGE_RETRY_S = (3.0, 5.0), (0.5, 1.5), 1.5
KERNEL_S = DELAY_S[1]  # delay of what the kernel of a host sends


class Edges:
    """The open streams of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[Position, Position] = {}  # subordinate -> leader
        self._below: defaultdict[Position, dict[Position, None]] = defaultdict(dict)

    def ends_of(self, position: Position) -> list[Position]:
        """The other ends of the streams of a node, its leader first."""
        leader = self._leaders.get(position)
        return [*(() if leader is None else (leader,)), *self._below.get(position, ())]

    def plan(self, position: Position, leader: Position, *, is_first: bool) -> None:
        """Open the stream of a new place after a random delay."""
        world = self._world
        delay_s = world.chance.uniform(*(FIRST_EDGE_DELAY_S if is_first else EDGE_DELAY_S))
        world.after(delay_s, self._open, position, world.nodes[position], leader)

    def _open(self, position: Position, node: Node, leader: Position) -> None:
        """Unless the place has changed meanwhile."""
        world, at = self._world, node.uplink.leader
        if world.nodes.get(position) is not node or at is None or at.position != leader or position in self._leaders:
            return
        if leader in world.nodes and self._reach(position, leader):
            self._leaders[position] = leader
            self._below[leader][position] = None
            if world.seals is not None:
                world.seals.rings.opened(position, leader)
        else:
            self._open_again(position, leader)

    def _open_again(self, position: Position, leader: Position) -> None:
        node = self._world.nodes.get(position)
        if node is not None:
            delay_s = EDGE_RETRY_S + self._world.chance.uniform(*EDGE_DELAY_S)
            self._world.after(delay_s, self._open, position, node, leader)

    def _reach(self, one: Position, other: Position) -> bool:
        is_open, seals = self._world.weather.is_open, self._world.seals
        reach = is_open(one, other, stream=True) and is_open(other, one, stream=True)
        return reach and (seals is None or seals.rings.share_a_key(one, other))

    def hang_up(self, position: Position) -> None:
        """Break all streams of a living node; both ends of each are told, and the subordinates reopen them."""
        leader = self._leaders.get(position)
        if leader is not None:
            self.leave(position)
            self._tell_closed(leader, position)
            self._open_again(position, leader)
        for subordinate in self._close_below(position):
            self._tell_closed(subordinate, position)

    def hang_up_below(self, position: Position) -> None:
        """Close the streams that the subordinates of a leader opened; they reopen them."""
        self._close_below(position)

    def leave(self, position: Position) -> None:
        """Close the stream of a subordinate to its former leader."""
        leader = self._leaders.pop(position, None)
        if leader is not None:
            self._below[leader].pop(position, None)
            self._tell_closed(position, leader)

    def close(self, position: Position) -> None:
        """Close all streams of a process that ended, as its kernel does."""
        self.leave(position)
        self._close_below(position)

    def forget(self, position: Position) -> None:
        """Drop the streams of a host that is gone, silently."""
        leader = self._leaders.pop(position, None)
        if leader is not None:
            self._below[leader].pop(position, None)
        for subordinate in self._below.pop(position, {}):
            del self._leaders[subordinate]

    def _close_below(self, position: Position) -> list[Position]:
        below = list(self._below.pop(position, {}))
        for subordinate in below:
            del self._leaders[subordinate]
            self._tell_closed(position, subordinate)
            self._open_again(subordinate, position)
        return below

    def _tell_closed(self, source: Position, target: Position) -> None:
        if self._world.weather.is_open(source, target, stream=True):
            self._world.after(KERNEL_S, self._world.feed, target, EdgeClosed(source))
