"""Two hosts with one address: which of them receives a datagram, and what the second one does.

Input is a world and the positions that get a second host; outputs are events for the second node and datagrams from
that address. A datagram arrives at the host in the sender's ARP cache, which is looked up anew every ARP_S. A second
host is not in `world.nodes`, so no checker judges it, and it opens no streams.
"""

from __future__ import annotations

from math import inf
from random import Random

from subord.core.events import Event, Received, Send, Start, Wakeup
from subord.core.messages import Versions
from subord.core.node import Node
from subord.core.view import Position
from subord.sim.world.world import BOOT_INCARNATION, World
from subord.wire.codec import Fault

ARP_S = 5.0
"""Seconds for which a sender keeps the host that it found."""


class Twins:
    """The second hosts of one world, by position."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._seed = seed
        self._nodes: dict[Position, Node] = {}
        self._wake_at: dict[Position, float] = {}
        self._to_first = world.deliver

    def begin(self, position: Position) -> None:
        """Start a second host with this address, with a clock of its own."""
        world = self._world
        if not self._nodes:
            world.deliver = self._deliver  # type: ignore[method-assign]
        chance = Random(f"{self._seed}/{position}/twin/{world.now}")
        incarnation = BOOT_INCARNATION + int(world.now * 1000) + chance.randrange(-1000, 1000)
        world.unjudged.add(position)
        given = world.identities.given_to_intruder(position)
        self._nodes[position] = Node(world.settings, position, max(1, incarnation), chance, world.now, **given)
        if world.seals is not None:
            world.seals.begin(position, max(1, incarnation), is_second=True)
        self._feed(position, Start())

    def end(self) -> None:
        """Remove all second hosts; the operator forgets their keys, which some nodes may have pinned."""
        for position in self._nodes:
            self._world.identities.end_second(position)
        self._nodes.clear()

    def _deliver(self, source: Position, target: Position, data: bytes, by_multicast: bool = False) -> None:
        if target not in self._nodes or (not by_multicast and not self._is_second(source, target)):
            self._to_first(source, target, data, by_multicast)
            return
        world = self._world
        if by_multicast:
            self._to_first(source, target, data, by_multicast)
        if world.seals is not None:
            data = world.seals.open(source, target, data, by_multicast=by_multicast, owner=-target)
        message = world.wires[target].decode(data)
        if not isinstance(message, Fault | Versions):
            self._feed(target, Received(source, world.address_of(source), message))

    def _is_second(self, source: Position, target: Position) -> bool:
        since = int(self._world.now / ARP_S)
        return Random(f"{self._seed}/{source}/{target}/{since}").random() < 0.5

    def _feed(self, position: Position, event: Event) -> None:
        world, node = self._world, self._nodes[position]
        for action in node.handle(event, world.now):
            if isinstance(action, Send):
                world.post(position, action.target, action.message, owner=-position)
        if node.deadline < self._wake_at.get(position, inf):
            self._wake_at[position] = node.deadline
            world.after(node.deadline - world.now, self._fire, position, node)

    def _fire(self, position: Position, node: Node) -> None:
        if self._nodes.get(position) is not node:
            return
        self._wake_at.pop(position, None)
        if node.deadline <= self._world.now:
            self._feed(position, Wakeup())
        else:
            self._wake_at[position] = node.deadline
            self._world.after(node.deadline - self._world.now, self._fire, position, node)
