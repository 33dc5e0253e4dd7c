"""Reports and orders in a tree that stands still: as many nodes as wanted, without the protocol that builds the tree.

Inputs are the leader of each node, what nodes publish, and orders; outputs are folds, answers, and what they cost a
node. Every node runs the engine of the daemon; frames take DELAY_S. Tests change the tree by hand, as a node would
see it. A node answers an order with its level.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, cast

from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.interface import (
    Act,
    Acted,
    Action,
    Answer,
    Arrived,
    Closed,
    Event,
    Finished,
    Offered,
    Opened,
    Outcome,
    Progress,
    Role,
    Transmit,
    Wakeup,
)
from subord.core.carriage.engine.ranges import Pair, Ranges
from subord.core.carriage.engine.tree import Split, Tree
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.reports import Fold, Publish, Reports
from subord.core.view import Position

DELAY_S: Final = 0.0002
SERVICE: Final = "load"
PING: Final = "ping"
Edge = tuple[Position, Position]
"""A subordinate and its leader."""


def complete(nodes: int, fanout: int) -> dict[Position, Position]:
    """A complete tree; the leader of the root is 0."""
    return {each: (each - 2) // fanout + 1 if each > 1 else 0 for each in range(1, nodes + 1)}


class StillNode:
    """One node, and the tree as it sees it."""

    def __init__(self, cluster: Still, position: Position, incarnation: int) -> None:
        self.position = position
        self.incarnation = incarnation
        self.sizes: dict[Position, int] = {}
        """The living nodes of each subordinate's branch."""
        self.reports = Reports(self)
        self.engine = Engine(cast(Tree, self), {PING: Offered()}, parts=(self.reports,), now=cluster.now)
        self.bytes_in = self.bytes_out = self.frames_in = 0
        self.cpu_s = 0.0
        """Of the engine, where the cluster measures it."""
        self._cluster = cluster

    @property
    def leader(self) -> Position | None:
        return self._cluster.leaders[self.position] or None

    @property
    def is_root(self) -> bool:
        return self.leader is None

    @property
    def path(self) -> tuple[Position, ...]:
        return self._cluster.path_of(self.position)

    def quiet_s(self, now: float) -> float:
        return now

    def is_settled(self, now: float) -> bool:
        return self.is_root and now >= 0.0

    def every(self) -> Ranges:
        return self._cluster.branch_of[self.position]

    def split(self, targets: Ranges) -> Split:
        found = {via: targets & self._cluster.branch_of[via] for via in self.sizes}
        return Split(self.position in targets, {via: nodes for via, nodes in found.items() if nodes}, {})

    def branches(self) -> Mapping[Position, int]:
        return self.sizes

    def listed(self, via: Position, nodes: Ranges) -> Ranges:
        return Ranges.of(
            each for each in self._cluster.leaders if each in nodes and self._cluster.is_below(each, via)
        )


class Still:
    """A cluster on virtual time. `older`: nodes of a release without reports. `measures_cpu`: nodes tell what
    processor time their engines took (`cpu_s`), at the price of two calls of the kernel for each event."""

    def __init__(
        self,
        leaders: Mapping[Position, Position],
        *,
        interval_s: float,
        older: tuple[Position, ...] = (),
        measures_cpu: bool = False,
    ) -> None:
        self.now = 0.0
        self.leaders = dict(leaders)
        self.interval_s = interval_s
        self.sent: list[tuple[float, Edge]] = []
        """When reports were sent, and along which edge."""
        self.older = older
        self.measures_cpu = measures_cpu
        self._tie = count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._open: set[Edge] = set()
        self._lives: Counter[Position] = Counter()
        self.nodes: dict[Position, StillNode] = {}
        self.branch_of: dict[Position, Ranges] = {}
        self.answers: list[Answer] = []
        """Of the orders that are over."""
        for position in leaders:
            self.start(position)
        self.list_all()
        for position in leaders:
            self.open(position)

    # -- the tree -----------------------------------------------------------------------------------------

    def start(self, position: Position) -> None:
        """A life of a node begins."""
        self._lives[position] += 1
        self.nodes[position] = StillNode(self, position, 1000 * position + self._lives[position])

    def list_all(self) -> None:
        """Every roster is right."""
        branches: dict[Position, list[Pair]] = {each: [(each, each)] for each in self.leaders}
        for node in self.nodes.values():
            node.sizes = {}
        for position in sorted(self.leaders, key=lambda each: len(self.path_of(each)), reverse=True):
            branch = self.branch_of[position] = Ranges.of_pairs(branches[position])
            leader = self.leaders[position]
            if leader:
                branches[leader].extend(branch.pairs)
                self.nodes[leader].sizes[position] = len(branch)

    def is_below(self, position: Position, top: Position) -> bool:
        """Whether the node is in the branch of `top`."""
        while position and position != top:
            position = self.leaders[position]
        return position == top

    def path_of(self, position: Position) -> tuple[Position, ...]:
        """From the root to the leader."""
        path = list[Position]()
        while position := self.leaders[position]:
            path.append(position)
        return tuple(reversed(path))

    def open(self, position: Position) -> None:
        """The stream to the leader opens."""
        leader = self.leaders[position]
        if leader and position not in self.older and leader not in self.older:
            self._open.add((position, leader))
            edge = position, leader
            lives = self.nodes[position].incarnation, self.nodes[leader].incarnation
            self.feed(leader, Opened(edge, position, Role.SUBORDINATE, lives[0]))
            self.feed(position, Opened(edge, leader, Role.LEADER, lives[1]))
        elif leader:
            self.feed(leader, Opened((position, leader), position, Role.SUBORDINATE, knows_orders=False))

    def close(self, position: Position, leader: Position) -> None:
        """The stream ends."""
        self._open.discard((position, leader))
        for end in (position, leader):
            if end in self.nodes:
                self.feed(end, Closed((position, leader)))

    def cut(self, position: Position) -> None:
        """The stream to the leader carries nothing more, and neither end knows."""
        self._open.discard((position, self.leaders[position]))

    # -- events -------------------------------------------------------------------------------------------

    def publish(self, position: Position, record: Record | None) -> None:
        self.feed(position, Publish(SERVICE, record, self.interval_s))

    def publish_forever(self, position: Position, record: Record, phase_s: float) -> None:
        """A record of the node, renewed every interval."""

        def again() -> None:
            self.publish(position, record)
            self.after(self.interval_s, again)

        self.after(phase_s, again)

    def actions_of(self, node: StillNode, event: Event) -> list[Action]:
        """What the engine of a node says to an event."""
        if not self.measures_cpu:
            return node.engine.handle(event, self.now)
        began = time.process_time()
        actions = node.engine.handle(event, self.now)
        node.cpu_s += time.process_time() - began
        return actions

    def feed(self, position: Position, event: Event) -> None:
        """Give an event to a node, and carry out what it says."""
        node = self.nodes[position]
        for action in self.actions_of(node, event):
            match action:
                case Transmit():
                    node.bytes_out += len(action.data)
                    self._transmit(position, cast(Edge, action.link), action.data)
                case Act():
                    self.feed(position, Acted(action.order.tag, Outcome(bytes([len(node.path)]))))
                case Finished():
                    self.answers.append(action.answer)
                case _:
                    assert isinstance(action, Progress)
        if node.engine.deadline < float("inf"):
            self.after(node.engine.deadline - self.now, lambda: self._wake(position, node))

    def _wake(self, position: Position, node: StillNode) -> None:
        if self.nodes.get(position) is node and node.engine.deadline <= self.now:
            self.feed(position, Wakeup())

    def _transmit(self, position: Position, edge: Edge, data: bytes) -> None:
        self.sent.append((self.now, edge))
        other = edge[1] if position == edge[0] else edge[0]
        self.after(DELAY_S, lambda: self._deliver(other, edge, data))

    def _deliver(self, position: Position, edge: Edge, data: bytes) -> None:
        if edge in self._open:
            self.nodes[position].bytes_in += len(data)
            self.nodes[position].frames_in += 1
            self.feed(position, Arrived(edge, data))

    def after(self, delay_s: float, call: Callable[[], Any]) -> None:
        heapq.heappush(self._heap, (self.now + max(delay_s, 1e-6), next(self._tie), call))

    def run(self, seconds: float) -> None:
        """Handle everything that happens within `seconds`."""
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            self.now, _, call = heapq.heappop(self._heap)
            call()
        self.now = until

    def fold(self, position: Position) -> Fold:
        """What a node knows of its branch."""
        return self.nodes[position].reports.folded(SERVICE, self.now)
