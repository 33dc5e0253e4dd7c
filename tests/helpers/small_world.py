"""A few nodes on a pretended network: virtual time, one heap, no sockets.

Intuition: a toy village with one postman. Letters take a moment, some are lost when the test says so, and every
letter is really written and read (subord.wire), so that nothing passes here that would not fit a datagram.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from math import inf
from random import Random

from subord.core.events import (
    Action,
    EdgeClosed,
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
    Unreadable,
    Wakeup,
)
from subord.core.messages import Message
from subord.core.network import Network
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.showing import snapshot
from subord.core.view import Place, Position, Snapshot
from subord.wire import VERSIONS_DATAGRAM, Fault, decode, encode


class SmallWorld:
    """Nodes by position; `hosts` are addresses where a host answers even when no daemon runs.

    A test may set `lossy` (True: this message is lost), `copies` (how often it arrives) and `delay_of` (seconds).
    `after_each` is called after every event; `last` is then the position that handled it.
    """

    def __init__(self, settings: Settings, seed: int = 1, delay_s: float = 0.0002) -> None:
        self.settings = settings
        self.now = 0.0
        self.nodes: dict[Position, Node] = {}
        self.hosts: set[Position] = set()
        self.paused: dict[Position, list[Event]] = {}  # stopped like SIGSTOP -> what waits in its socket
        self.sent: Counter[str] = Counter()
        self.faults: Counter[Fault] = Counter()
        self.notices: list[tuple[float, Position, Notice]] = []
        self.own_settings: dict[Position, Settings] = {}  # of nodes that do not share `settings`
        self.last: Position = 0
        self.chance = Random(f"{seed}/network")
        self.lossy: Callable[[Position, Position, Message], bool] = lambda _s, _t, _m: False
        self.copies: Callable[[Message], int] = lambda _m: 1
        self.delay_of: Callable[[Message], float] = lambda _m: delay_s * self.chance.uniform(0.5, 1.5)
        self.after_each: Callable[[SmallWorld], None] = lambda _world: None
        self._seed = seed
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._tie = itertools.count()
        self._boots: Counter[Position] = Counter()

    @classmethod
    def empty(cls, fanout: int, network: str = "10.0.0.0/16", *, seed: int = 1, **options: object) -> SmallWorld:
        """Nobody has started yet. `options` are fields of Settings; guest slots are `fanout` unless given."""
        fields: dict[str, object] = {"guest_slots": fanout, "fanout": fanout, **options}
        return cls(Settings(network=Network.parse(network), **fields), seed)  # type: ignore[arg-type]

    @classmethod
    def dense(cls, size: int, fanout: int, network: str = "10.0.0.0/16", **options: object) -> SmallWorld:
        """Positions 1 to `size`, all started in the same instant."""
        world = cls.empty(fanout, network, **options)
        world.start_all(range(1, size + 1))
        return world

    # -- what a test does ----------------------------------------------------------------------------

    def start(self, position: Position, known: tuple[Position, ...] = ()) -> None:
        """Start a daemon, or start it again: its incarnation is then higher."""
        self._boots[position] += 1
        boot = self._boots[position]
        self.hosts.add(position)
        self.paused.pop(position, None)
        chance = Random(f"{self._seed}/{position}/{boot}")
        settings = self.own_settings.get(position, self.settings)
        self.nodes[position] = Node(settings, position, 1000 * boot, chance, self.now)
        if known:
            self.feed(position, Known(known))
        self.feed(position, Start())

    def start_all(self, positions: Iterable[Position], gap_s: float = 0.0, known: tuple[Position, ...] = ()) -> None:
        """Start in the given order, `gap_s` apart. All hosts are up from the beginning."""
        order = list(positions)
        self.hosts |= set(order)
        for position in order:
            self.start(position, known)
            self.run(gap_s)

    def kill(self, position: Position) -> None:
        """The process dies and its streams say nothing: only a message finds nobody there."""
        del self.nodes[position]
        self.paused.pop(position, None)

    def crash(self, position: Position) -> None:
        """The process dies and the kernel closes its streams along the tree edges."""
        neighbours = [
            p
            for p, node in self.nodes.items()
            if (node.following.leader and node.following.leader.position == position)
            or position in node.leading.slots.taken
        ]
        self.kill(position)
        for each in neighbours:
            self._later(0.0002, lambda each=each: self.feed(each, EdgeClosed(position)))  # type: ignore[misc]

    def vanish(self, position: Position) -> None:
        """The host dies with its daemon: nobody says "unreachable"."""
        self.kill(position)
        self.hosts.discard(position)

    def leave(self, position: Position, grace_s: float = 2.0) -> None:
        self.feed(position, Leave(grace_s))

    def pause(self, position: Position) -> None:
        """As SIGSTOP does: its clock runs on, and what arrives waits."""
        assert position in self.nodes
        self.paused[position] = []

    def resume(self, position: Position) -> None:
        for event in self.paused.pop(position):
            self.feed(position, event)
        if position in self.nodes:
            self._wake(position)

    def tell(self, source: Position, target: Position, message: Message) -> None:
        """Deliver a message now that nobody in this world has sent, with the address of `source`."""
        self.deliver(source, target, encode(message))

    def deliver(self, source: Position, target: Position, data: bytes) -> None:
        """A datagram arrives."""
        if target not in self.nodes:
            if target in self.hosts:
                self._later(0.0001, lambda: self.feed(source, Unreachable(target)))
            return
        message = decode(data)
        address = self.settings.network.address_text_of(source)
        if not isinstance(message, Fault):
            self.feed(target, Received(source, address, message))
            return
        self.faults[message] += 1
        if message is Fault.VERSION:  # as runtime/driver.py does
            self._later(0.0001, lambda: self.deliver(target, source, VERSIONS_DATAGRAM))
            self.feed(target, Unreadable(address, data[1]))

    def feed(self, position: Position, event: Event) -> None:
        """Give an event to a node; to none if it is gone, and later if it is paused."""
        if position in self.paused:
            self.paused[position].append(event)
            return
        node = self.nodes.get(position)
        if node is None:
            return
        for action in node.handle(event, self.now):
            self._carry_out(position, event, action)
        if position in self.nodes and node.deadline < inf:
            self._later(node.deadline - self.now, lambda: self._wake(position))
        self.last = position
        self.after_each(self)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            at, _, act = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            act()
        self.now = until

    def run_until(self, condition: Callable[[], bool], within_s: float) -> float:
        """Run until `condition` holds; returns the seconds it took."""
        began = self.now
        while not condition():
            assert self.now - began < within_s, f"not within {within_s} s: {self.leaders()}"
            self.run(0.01)
        return self.now - began

    # -- the postman ------------------------------------------------------------------------------------

    def _wake(self, position: Position) -> None:
        node = self.nodes.get(position)
        if node is not None and position not in self.paused and node.deadline <= self.now:
            self.feed(position, Wakeup())

    def _carry_out(self, position: Position, event: Event, action: Action) -> None:
        match action:
            case Send():
                self._post(position, action.target, action.message)
            case Reply():
                assert isinstance(event, Received)
                assert event.source is not None
                self._post(position, event.source, action.message)
            case Gone():
                self.nodes.pop(position, None)
            case _:
                self.notices.append((self.now, position, action))

    def _post(self, source: Position, target: Position, message: Message) -> None:
        self.sent[type(message).__name__] += 1
        data = encode(message)
        if self.lossy(source, target, message):
            return
        for _ in range(self.copies(message)):
            self._later(self.delay_of(message), lambda: self.deliver(source, target, data))

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + seconds, next(self._tie), act))

    # -- reading ----------------------------------------------------------------------------------------

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

    def moves(self) -> dict[Position, int]:
        """Leader changes of each node so far."""
        return {position: node.leader_changes for position, node in sorted(self.nodes.items())}

    def shown(self, position: Position) -> Snapshot:
        return snapshot(self.nodes[position], self.now)

    def noticed(self, kind: type[Notice], position: Position | None = None) -> list[Notice]:
        """The notices of one kind so far, of one node or of all."""
        return [n for _, p, n in self.notices if isinstance(n, kind) and position in (None, p)]
