"""The tree of eleven nodes with an elastic cluster: the first node has the queue of Grid Engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from subord.core.carriage.documents import ELASTIC, NEVER_MS, Document
from subord.core.carriage.orders import Order, Verdict
from subord.runtime.elastic.state import MANAGES, OTHER_NODE, NodeState, State
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Plan, decode_plan, encode_plan
from tests.api.fake_node_api import FakeNode, World

AT_MS = 1_795_682_000_000
PLAN = Plan(manager=1, options=Options(max_nodes=20))


class ElasticNodes:
    """All nodes keep their state; `node` is asked by the commands. The clock of every node shows `now`."""

    def __init__(self, asked: int = 7) -> None:
        self.world = World()
        for each in self.world.leaders:
            self.world.known[each] = FakeNode(self.world, each)
        self.node = self.world.known[asked]
        self.has_queue(1)

    @property
    def now(self) -> float:
        return self.node.tracker.wall_ms / 1000

    @property
    def plan(self) -> Plan | None:
        """What the asked node holds."""
        held = self.node.tracker.membership.documents.by_name.get(ELASTIC)
        return None if held is None else decode_plan(held.body)

    def has_queue(self, position: int, batch: str = "gridengine", kinds: tuple[str, ...] = ()) -> None:
        """By its configuration."""
        self.world.known[position].elastic.batch = batch
        self.world.known[position].elastic.kinds = kinds

    def hold(self, version: int, plan: Plan | bytes = PLAN, principal: str = "ann") -> None:
        """The asked node has this plan, or a document with this body."""
        body = plan if isinstance(plan, bytes) else encode_plan(plan)
        order = Order(ELASTIC, version, AT_MS + version, NEVER_MS, body)
        self.node.tracker.take([(Document(*order), Verdict("", principal, "SHA256:x"))])

    def say(self, state: State, *positions: int) -> None:
        """How these nodes take part; without positions all."""
        for each in positions or sorted(self.world.leaders):
            self.world.known[each].elastic.state = state

    def manage(self, version: int = 2, nodes: Iterable[NodeState] = (), **fields: Any) -> State:
        """All nodes follow a plan; the first one decides."""
        self.hold(version)
        self.say(State(word=OTHER_NODE, version=version))
        found = State(
            word=MANAGES,
            version=version,
            nodes=tuple(nodes),
            **{
                "batch": "gridengine",
                "queue": "all.q",
                "at": self.now - 12.2,
                "next_at": self.now + 48,
                "min_nodes": 1,
                "max_nodes": 20,
                **fields,
            },
        )
        self.say(found, 1)
        return found
