"""The tree of eleven nodes with an elastic cluster: the first node has the queue of Grid Engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from subord.core.carriage.documents import ELASTIC
from subord.runtime.elastic.state import MANAGES, OTHER_NODE, NodeState, State
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Plan, decode_plan, encode_plan
from tests.api.tree_nodes import TreeNodes

PLAN = Plan(manager=1, options=Options(max_nodes=20))


class ElasticNodes(TreeNodes):
    """`node` is asked by the commands."""

    service = "elastic"
    document = ELASTIC

    def __init__(self, asked: int = 7) -> None:
        super().__init__(asked)
        self.has_queue(1)

    @property
    def plan(self) -> Plan | None:
        """What the asked node holds."""
        return None if self.held is None else decode_plan(self.held.body)

    def has_queue(self, position: int, batch: str = "gridengine", kinds: tuple[str, ...] = ()) -> None:
        """By its configuration."""
        self.of(position).batch = batch
        self.of(position).kinds = kinds

    def hold(self, version: int, plan: Plan | bytes = PLAN, principal: str = "ann") -> None:
        """The asked node has this plan, or a document with this body."""
        self.take_body(version, plan if isinstance(plan, bytes) else encode_plan(plan), principal)

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
