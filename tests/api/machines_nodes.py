"""The tree of eleven nodes with virtual machines: the first node has the queues of Grid Engine, 10.0.0.2 and 10.0.0.3
are servers."""

from __future__ import annotations

from typing import Any

from subord.core.carriage.documents import MACHINES, NEVER_MS, Document
from subord.core.carriage.orders import Order, Verdict
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
from tests.api.fake_node_api import FakeNode, World

AT_MS = 1_795_682_000_000
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


class MachinesNodes:
    """All nodes keep their state; `node` is asked by the commands. The clock of every node shows `now`."""

    def __init__(self, asked: int = 7) -> None:
        self.world = World()
        for each in self.world.leaders:
            self.world.known[each] = FakeNode(self.world, each)
        self.node = self.world.known[asked]
        self.world.known[1].machines.batch = "gridengine"
        for each in SERVERS:
            self.is_server(each)

    @property
    def now(self) -> float:
        return self.node.tracker.wall_ms / 1000

    @property
    def plan(self) -> Plan | None:
        """What the asked node holds."""
        held = self.node.tracker.membership.documents.by_name.get(MACHINES)
        return None if held is None else read(held.order.body)

    def is_server(self, position: int, uri: str = "qemu:///system") -> None:
        """By its configuration."""
        self.world.known[position].machines.uri = uri

    def hold(self, version: int, plan: Plan | bytes = PLAN, principal: str = "ann") -> None:
        """The asked node has this plan, or a document with this body."""
        body = plan if isinstance(plan, bytes) else encode(plan)
        order = Order(MACHINES, version, AT_MS + version, NEVER_MS, body)
        self.node.tracker.take([(Document(*order), Verdict("", principal, "SHA256:x"))])

    def say(self, state: State, *positions: int) -> None:
        """How these nodes take part; without positions all."""
        for each in positions or sorted(self.world.leaders):
            self.world.known[each].machines.state = state

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
        self.world.known[position].machines.server = found
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
