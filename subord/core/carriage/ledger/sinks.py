"""Which sinks a node reaches, through which link: what neighbours say along the edges, and what they are told.

Inputs are statements of neighbours and whether the node is a sink itself; outputs are the way of a batch, and
statements for neighbours. A node tells a neighbour the sinks that it reaches without that neighbour, so in a tree a
statement depends only on statements from further away, and all become true. Invariant: at most SINKS_MAX of a link.
"""

from __future__ import annotations

from subord.core.carriage.engine.links import EDGES, Links, LinkState
from subord.core.carriage.ledger import bounds
from subord.core.carriage.ledger.bodies import Sinks
from subord.core.view import Position


class SinkTable:
    """The sinks that one node knows."""

    def __init__(self, own: Position) -> None:
        self._own = own
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
        """A neighbour says which sinks it reaches; False: it is no neighbour."""
        if link not in self._told:
            return False
        self._heard[link] = positions
        return True

    def tell(self, links: Links) -> None:
        """Tell each neighbour what has changed for it."""
        for link, told in self._told.items():
            now = self._for(link)
            if now != told:
                self._told[link] = now
                links.send(link, Sinks(now))

    def _for(self, link: LinkState) -> tuple[Position, ...]:
        found = {self._own} if self.is_sink else set()
        for each, positions in self._heard.items():
            if each is not link:
                found.update(positions)
        return tuple(sorted(found)[: bounds.SINKS_MAX])

    def choose(self) -> Position | None:
        """The sink for the records of this node: itself, else the former as long as it is reached, else the lowest
        position. So a record is seldom sent to two sinks."""
        if self.is_sink:
            return self._own
        reached = {each for positions in self._heard.values() for each in positions}
        if self._chosen not in reached:
            self._chosen = min(reached, default=0)
        return self._chosen or None

    def way_to(self, sink: Position, source: LinkState | None = None) -> LinkState | None:
        """The link to a sink, which is not the one that the batch came from."""
        for link, positions in self._heard.items():
            if sink in positions and link is not source:
                return link
        return None
