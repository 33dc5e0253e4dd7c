"""The tree of eleven nodes with a service that follows a document of an operator."""

from __future__ import annotations

from typing import Any

from subord.core.carriage.documents import NEVER_MS, Document
from subord.core.carriage.orders import Order, Verdict
from tests.api.fake_node_api import FakeNode, World

AT_MS = 1_795_682_000_000


class TreeNodes:
    """All nodes keep their state; `node` is asked by the commands. The clock of every node shows `now`. `service`:
    a field of a node. `document`: the name of the plan."""

    service: str
    document: str

    def __init__(self, asked: int = 7) -> None:
        self.world = World()
        for each in self.world.leaders:
            self.world.known[each] = FakeNode(self.world, each)
        self.node = self.world.known[asked]

    @property
    def now(self) -> float:
        return self.node.tracker.wall_ms / 1000

    @property
    def held(self) -> Document | None:
        """What the asked node holds."""
        return self.node.tracker.membership.documents.by_name.get(self.document)

    def take(self, order: Order, principal: str = "ann") -> None:
        """The asked node has this document, of which it knows the operator."""
        self.node.tracker.take([(Document(*order), Verdict("", principal, "SHA256:x"))])

    def take_body(self, version: int, body: bytes, principal: str = "ann") -> None:
        """The asked node has a document with this body."""
        self.take(Order(self.document, version, AT_MS + version, NEVER_MS, body), principal)

    def of(self, position: int) -> Any:
        """What a node has of the service."""
        return getattr(self.world.known[position], self.service)

    def say(self, state: Any, *positions: int) -> None:
        """How these nodes take part; without positions all."""
        for each in positions or sorted(self.world.leaders):
            self.of(each).state = state
