"""A few nodes on a pretended network: virtual time, one heap, no sockets.

Enough to tell protocol stories. Every message travels through the real wire format when `wire` is given.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from math import inf
from random import Random

from subord.core.events import (
    Action,
    Event,
    Gone,
    Known,
    Leave,
    Notice,
    Received,
    Reply,
    Send,
    Start,
    Unreachable,
    Wakeup,
)
from subord.core.messages import Message
from subord.core.network import Network
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.view import Place, Position


class SmallWorld:
    """Nodes by position; `hosts` are addresses where a host answers even when no daemon runs."""

    def __init__(self, settings: Settings, seed: int = 1, delay_s: float = 0.0002) -> None:
        self.settings = settings
        self.now = 0.0
        self.nodes: dict[Position, Node] = {}
        self.hosts: set[Position] = set()
        self.paused: set[Position] = set()
        self.sent: Counter[str] = Counter()
        self.notices: list[tuple[float, Position, Notice]] = []
        self.lossy: Callable[[Position, Position, Message], bool] = lambda _s, _t, _m: False
        self._chance = Random(f"{seed}/network")
        self._seed = seed
        self._delay_s = delay_s
        self._heap: list[tuple[float, int, Position, Event | None]] = []
        self._tie = itertools.count()
        self._boots: Counter[Position] = Counter()
        self.after_each: Callable[[SmallWorld], None] = lambda _world: None

    @classmethod
    def dense(cls, size: int, fanout: int, network: str = "10.0.0.0/16", **options: object) -> SmallWorld:
        world = cls(Settings(network=Network.parse(network), fanout=fanout, guest_slots=fanout, **options))  # type: ignore[arg-type]
        for position in range(1, size + 1):
            world.start(position)
        return world

    def start(self, position: Position, known: tuple[Position, ...] = ()) -> None:
        self._boots[position] += 1
        boot = self._boots[position]
        self.hosts.add(position)
        chance = Random(f"{self._seed}/{position}/{boot}")
        self.nodes[position] = Node(self.settings, position, 1000 * boot, chance, self.now)
        if known:
            self.feed(position, Known(known))
        self.feed(position, Start())

    def kill(self, position: Position) -> None:
        del self.nodes[position]

    def vanish(self, position: Position) -> None:
        """The host dies with its daemon: nobody says "unreachable"."""
        self.kill(position)
        self.hosts.discard(position)

    def leave(self, position: Position, grace_s: float = 2.0) -> None:
        self.feed(position, Leave(grace_s))

    def feed(self, position: Position, event: Event) -> None:
        node = self.nodes[position]
        for action in node.handle(event, self.now):
            self._carry_out(position, event, action)
        if position in self.nodes and node.deadline < inf:
            self._push(node.deadline, position, None)
        self.after_each(self)

    def _carry_out(self, position: Position, event: Event, action: Action) -> None:
        match action:
            case Send():
                self._post(position, action.target, action.message)
            case Reply():
                assert isinstance(event, Received)
                if event.source is not None:
                    self._post(position, event.source, action.message)
            case Gone():
                self.nodes.pop(position, None)
            case _:
                self.notices.append((self.now, position, action))

    def _post(self, source: Position, target: Position, message: Message) -> None:
        self.sent[type(message).__name__] += 1
        if self.lossy(source, target, message):
            return
        at = self.now + self._delay_s * self._chance.uniform(0.5, 1.5)
        if target in self.nodes or target in self.paused:
            address = self.settings.network.address_text_of(source)
            self._push(at, target, Received(source, address, message))
        elif target in self.hosts:
            self._push(at, source, Unreachable(target))

    def _push(self, at: float, position: Position, event: Event | None) -> None:
        heapq.heappush(self._heap, (at, next(self._tie), position, event))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            at, _, position, event = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            node = self.nodes.get(position)
            if node is None:
                continue
            if event is not None:
                self.feed(position, event)
            elif node.deadline <= self.now:
                self.feed(position, Wakeup())
        self.now = until

    def run_until(self, condition: Callable[[], bool], within_s: float) -> float:
        """Run until `condition` holds; returns the seconds it took."""
        began = self.now
        while not condition():
            assert self.now - began < within_s, f"not within {within_s} s: {self.leaders()}"
            self.run(0.01)
        return self.now - began

    # -- reading ----------------------------------------------------------------------------------

    def leaders(self) -> dict[Position, Position]:
        """The leader of each node; 0 for roots."""
        found = {}
        for position, node in sorted(self.nodes.items()):
            leader = node.following.leader
            found[position] = leader.position if leader else 0
        return found

    def roots(self) -> list[Position]:
        return [position for position, leader in self.leaders().items() if leader == 0]

    def places(self) -> Counter[Place | None]:
        return Counter(node.place for node in self.nodes.values())

    def whole(self) -> bool:
        """One root, whose roster is exactly the live nodes, and everybody placed."""
        roots = self.roots()
        if len(roots) != 1 or any(node.place is None for node in self.nodes.values()):
            return False
        roster = self.nodes[roots[0]].roster
        return {p for p in roster.rows if roster.is_live(p)} == set(self.nodes)

    def changes(self) -> int:
        return sum(node.leader_changes for node in self.nodes.values())
