"""The tree of eleven nodes with virtual machines: the first node has the queues of Grid Engine, 10.0.0.2 and 10.0.0.3
are servers."""

from __future__ import annotations

from typing import Any

from subord.core.carriage.documents import MACHINES
from subord.runtime.machines.state import (
    MANAGES,
    OTHER_NODE,
    SERVES,
    Amount,
    MachineState,
    Pool,
    ServerState,
    State,
)
from subord.services.machines.plan import Plan, Type, encode, read
from tests.api.tree_nodes import TreeNodes

SERVERS = (2, 3)
ALMA = Type(name="alma", template="alma-9", queues=("long", "short"), cores=4, memory_mb=8192, image_mb=20480)
DEB = Type(
    name="deb",
    template="debian-12",
    queues=("debian",),
    memory_mb=2048,
    image_mb=4096,
    slots=2,
    window_s=3600,
    most=6,
    group="tests",
)
PLAN = Plan(manager=1, types=(ALMA, DEB), store_mb=204_800)
TEMPLATES = (
    MachineState(name="alma-9", cores=4, memory=8192),
    MachineState(name="debian-12", cores=1, memory=2048),
)


class MachinesNodes(TreeNodes):
    """`node` is asked by the commands."""

    service = "machines"
    document = MACHINES

    def __init__(self, asked: int = 7) -> None:
        super().__init__(asked)
        self.of(1).batch = "gridengine"
        for each in SERVERS:
            self.is_server(each)

    @property
    def plan(self) -> Plan | None:
        """What the asked node holds."""
        return None if self.held is None else read(self.held.order.body)

    def is_server(self, position: int, uri: str = "qemu:///system") -> None:
        """By its configuration."""
        self.of(position).uri = uri

    def hold(self, version: int, plan: Plan | bytes = PLAN, principal: str = "ann") -> None:
        """The asked node has this plan, or a document with this body."""
        self.take_body(version, plan if isinstance(plan, bytes) else encode(plan), principal)

    def has(self, position: int, *machines: MachineState, **fields: Any) -> ServerState:
        """What the agent of a server has told."""
        given: dict[str, Any] = {
            "name": f"10.0.0.{position}",
            "uri": "qemu:///system",
            "at": self.now - 5,
            "have": Amount(16, 30_720, 0, 64),
            "mhz": 3000,
            "pools": (Pool(name="default", capacity=512_000, free=256_000),),
        }
        on = [each for each in machines if each.state != "off"]
        used = Amount(sum(each.cores for each in on), sum(each.memory for each in on), 0, len(on))
        found = ServerState(machines=machines, **{**given, "used": used, **fields})
        self.of(position).server = found
        return found

    def have_templates(self) -> None:
        """All servers have told their machines: only the templates."""
        for each in SERVERS:
            self.has(each, *TEMPLATES)

    def manage(self, version: int = 2, plan: Plan = PLAN, **fields: Any) -> State:
        """All nodes follow a plan; the first one decides."""
        self.hold(version, plan)
        self.say(State(word=OTHER_NODE, version=version))
        self.say(State(word=SERVES, version=version), *SERVERS)
        given = {"at": self.now - 4.2, "next_at": self.now + 26, "round": 12, "life": 7, "batch": "gridengine"}
        found = State(word=MANAGES, version=version, is_trial=plan.is_trial, **{**given, **fields})
        self.say(found, 1)
        return found
