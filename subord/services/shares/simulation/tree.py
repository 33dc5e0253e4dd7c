"""Nodes that serve requests in a tree that stands still, each with the part of shares that the daemon runs.

Inputs are the leader of each node, the work of the nodes, and a plan; outputs are the usage of each class over all
nodes, and what every node says of itself. Frames take their time (subord/sim/services/still.py). Tests change the
tree by hand, as a node would see it. Invariant: a node serves exactly as many requests as it has had time for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.interface import Event, Transmit, Wakeup
from subord.core.carriage.engine.tree import Tree
from subord.core.carriage.shares.interface import Arithmetic, Branch, Measure, Measured, Obey, Overview, Planned, Row
from subord.core.carriage.shares.plan import Plan
from subord.core.carriage.shares.shares import Shares
from subord.core.view import Position
from subord.services.shares.bank import Bank
from subord.services.shares.dividing import Dividing
from subord.services.shares.policy import PERCENT
from subord.services.shares.simulation.actors import PERIOD_S, REQUESTS, Node
from subord.services.shares.simulation.serving import Serve
from subord.sim.services.still import Edge, Still, StillNode

REQUEST_S: Final = PERIOD_S / REQUESTS
FIRST_LIFE: Final = 1 << 48
"""Numbers of lives are as long in frames as those of daemons."""
Lie = Callable[[Position, bytes], list[bytes]]
"""The frames that a node sends to a neighbour in place of one."""


class SharingNode(StillNode):
    """One node: its engine, and its work."""

    def __init__(self, cluster: SharingTree, position: Position, incarnation: int) -> None:
        super().__init__(cluster, position, incarnation)
        self.shares = Shares(self, cluster.arithmetic)
        self.engine = Engine(cast(Tree, self), {}, parts=(self.reports, self.shares), now=cluster.now)
        self.frames_out = 0
        self._seeks = cluster.seeking

    @property
    def is_root(self) -> bool:
        """Without leader a node looks for one, or is a root."""
        return self.leader is None and self.position not in self._seeks


class SharingTree(Still):
    """A cluster. `loads`: for each class the requests that come in a period, by node (actors.py)."""

    def __init__(
        self,
        leaders: Mapping[Position, Position],
        loads: Callable[[Position], Row],
        serve: Serve,
        *,
        older: tuple[Position, ...] = (),
        arithmetic: Arithmetic | None = None,
        measures_cpu: bool = False,
    ) -> None:
        self.arithmetic = arithmetic or Dividing(Bank())
        self.seeking: set[Position] = set()
        """Nodes that have lost their leader and look for another one."""
        self.lies: dict[Position, Lie] = {}
        self.measures_wrong: dict[Position, Branch] = {}
        """What nodes say to be their own use, whatever it is."""
        self.plan: Plan | None = None
        self._loads = loads
        self._serve = serve
        self.work: dict[Position, Node] = {}
        super().__init__(leaders, interval_s=PERIOD_S, older=older, measures_cpu=measures_cpu)

    # -- nodes --------------------------------------------------------------------------------------------

    def start(self, position: Position) -> None:
        """A life of a node begins; its work goes on as it was."""
        self._lives[position] += 1
        self.nodes[position] = SharingNode(self, position, FIRST_LIFE + 1000 * position + self._lives[position])
        if position not in self.work:
            loads = self._loads(position)
            self.work[position] = Node(loads, [PERCENT / len(loads)] * len(loads), self._serve)

    def shares_of(self, position: Position) -> Shares:
        return cast(SharingNode, self.nodes[position]).shares

    def overview(self, position: Position) -> Overview:
        return self.shares_of(position).overview(self.now)

    def publish_plan(self, plan: Plan | None, nodes: Iterable[Position] | None = None, spread_s: float = 0.0) -> None:
        """The document reaches the nodes, one after the other within `spread_s`."""
        self.plan = plan
        reached = list(self.nodes if nodes is None else nodes)
        for number, position in enumerate(reached):
            self.after(spread_s * number / len(reached), partial(self._hold, position, plan))

    def _hold(self, position: Position, plan: Plan | None) -> None:
        if position in self.nodes and position not in self.older:
            self.feed(position, Planned(plan))

    # -- the tree changes -----------------------------------------------------------------------------------

    def kill(self, position: Position) -> list[Position]:
        """A node is gone; returns its subordinates, which seek a leader, as rosters have it."""
        orphans = [each for each, leader in self.leaders.items() if leader == position]
        for each in orphans:
            self.cut_off(each)
        leader = self.leaders.pop(position)
        del self.nodes[position]
        self.work.pop(position, None)
        if leader:
            self.close(position, leader)
        self.list_all()
        return orphans

    def cut_off(self, position: Position) -> None:
        """A node loses its leader, and looks for another one."""
        leader = self.leaders[position]
        self.leaders[position] = 0
        self.seeking.add(position)
        self.close(position, leader)
        self.list_all()

    def attach(self, position: Position, leader: Position) -> None:
        """A node without leader has found one."""
        self.seeking.discard(position)
        self.leaders[position] = leader
        self.list_all()
        self.open(position)

    def become_root(self, position: Position) -> None:
        """A node has found no leader."""
        self.seeking.discard(position)

    # -- events -------------------------------------------------------------------------------------------

    def feed(self, position: Position, event: Event) -> None:
        """Give an event to a node, and carry out what it says."""
        node = cast(SharingNode, self.nodes[position])
        for action in self.actions_of(node, event):
            match action:
                case Transmit():
                    self._send(node, cast(Edge, action.link), action.data)
                case Measure():
                    self._measure(position, action.plan)
                case Obey():
                    self._obey(position, action)
                case _:
                    raise AssertionError(action)
        due_at = node.engine.deadline  # of all parts, so asked for once
        if due_at < float("inf"):
            self.after(due_at - self.now, lambda: self._due(position, node))

    def _due(self, position: Position, node: StillNode) -> None:
        if self.nodes.get(position) is node and node.engine.deadline <= self.now:
            self.feed(position, Wakeup())

    def _send(self, node: SharingNode, edge: Edge, data: bytes) -> None:
        lie = self.lies.get(node.position)
        other = edge[1] if node.position == edge[0] else edge[0]
        for each in [data] if lie is None else lie(other, data):
            node.bytes_out += len(each)
            node.frames_out += 1
            self._transmit(node.position, edge, each)

    # -- work ---------------------------------------------------------------------------------------------

    @property
    def _requests(self) -> int:
        """That a node could have served until now."""
        return int(self.now / REQUEST_S + 1e-6)

    def _obey(self, position: Position, obey: Obey) -> None:
        if obey.plan is not None:
            self.work[position].obey(obey.row, self._requests)

    def _measure(self, position: Position, plan: Plan) -> None:
        work = self.work[position]
        work.advance(self._requests)
        report = work.report()
        said = self.measures_wrong.get(position)
        if said is None and report is not None:
            said = Branch(*report)
        if said is not None:
            self.feed(position, Measured(plan, said))

    def usage(self, seconds: float, nodes: Sequence[Position] | None = None) -> list[float]:
        """Of each class in percent of what all nodes serve, while `seconds` pass."""
        found = [self.work[each] for each in (self.work if nodes is None else nodes)]
        before = self._served(found)
        self.run(seconds)
        after = self._served(found)
        served = sum(after) - sum(before)
        return [PERCENT * (new - old) / served for new, old in zip(after, before, strict=True)]

    def _served(self, found: Iterable[Node]) -> list[float]:
        served = []
        for each in found:
            each.advance(self._requests)
            served.append(each.served)
        return [sum(column) for column in zip(*served, strict=True)]
