"""Which sinks a node reaches, through which link: what neighbours say along the edges, and what they are told.

Inputs are statements of neighbours and whether the node is a sink itself; outputs are the way of a batch, and
statements for neighbours. A node tells a neighbour the sinks that it reaches without that neighbour, so in a tree a
statement depends only on statements from further away, and all become true. Invariants: at most SINKS_MAX of a link;
only what the present leader and subordinates of the roster say counts, also while an edge to another node is open.
"""

from __future__ import annotations

from collections.abc import Mapping

from subord.core.carriage.engine.interface import Role
from subord.core.carriage.engine.links import EDGES, Links, LinkState
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.engine.tree import Tree
from subord.core.carriage.ledger import bounds
from subord.core.carriage.ledger.bodies import Sinks
from subord.core.view import Position


class SinkTable:
    """The sinks that one node knows."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._own = tree.position
        self.is_sink = False
        self._chosen: Position = 0
        self._heard: dict[LinkState, tuple[Position, ...]] = {}
        self._told: dict[LinkState, tuple[Position, ...]] = {}

    def __len__(self) -> int:
        return sum(len(each) for each in self._heard.values())

    def open(self, link: LinkState) -> None:
        """An edge to a node that knows the ledger, maybe for the second time."""
        if link.role in EDGES and link.knows_orders:
            self._told.setdefault(link, ())

    def close(self, link: LinkState) -> None:
        self._heard.pop(link, None)
        self._told.pop(link, None)

    def hear(self, link: LinkState, positions: tuple[Position, ...]) -> bool:
        """A node with an edge says which sinks it reaches, which counts while it is a neighbour. False: no edge."""
        if link not in self._told:
            return False
        self._heard[link] = positions
        return True

    def neighbours(self) -> set[LinkState]:
        """The edges to the present leader, and to the subordinates that the roster lists."""
        below = self._tree.split(Ranges.of(each.peer for each in self._told if each.role is Role.SUBORDINATE)).below
        leader = self._tree.leader
        return {
            each for each in self._told if (each.peer == leader if each.role is Role.LEADER else each.peer in below)
        }

    @property
    def has_others(self) -> bool:
        """Whether an edge is open to a node that is no neighbour yet, or no longer."""
        return len(self.neighbours()) < len(self._told)

    def tell(self, links: Links) -> None:
        """Tell each neighbour what has changed for it."""
        counted = self._counted()
        for link, told in self._told.items():
            now = self._for(link, counted)
            if now != told:
                self._told[link] = now
                links.send(link, Sinks(now))

    def _counted(self) -> dict[LinkState, tuple[Position, ...]]:
        """What neighbours have said."""
        neighbours = self.neighbours()
        return {link: positions for link, positions in self._heard.items() if link in neighbours}

    def _for(self, link: LinkState, counted: Mapping[LinkState, tuple[Position, ...]]) -> tuple[Position, ...]:
        found = {self._own} if self.is_sink else set()
        for each, positions in counted.items():
            if each is not link:
                found.update(positions)
        return tuple(sorted(found)[: bounds.SINKS_MAX])

    def choose(self) -> Position | None:
        """The sink for the records of this node: itself, else the former as long as it is reached, else the lowest
        position. So a record is seldom sent to two sinks."""
        if self.is_sink:
            return self._own
        reached = {each for positions in self._counted().values() for each in positions}
        if self._chosen not in reached:
            self._chosen = min(reached, default=0)
        return self._chosen or None

    def way_to(self, sink: Position, source: LinkState | None = None) -> LinkState | None:
        """The link to a sink, which is not the one that the batch came from."""
        for link, positions in self._counted().items():
            if sink in positions and link is not source:
                return link
        return None
