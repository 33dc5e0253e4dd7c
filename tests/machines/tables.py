"""Short forms for tables: a plan of three types, servers, and machines as a line of a table shows them."""

from __future__ import annotations

from typing import Any

import msgspec

from subord.services.machines.deciding.iteration import Decision, decide
from subord.services.machines.deciding.picture import Seen
from subord.services.machines.model import Capacity, Job, Machine, Need, Server, State
from subord.services.machines.orders import Action, Pending
from subord.services.machines.plan import Plan, Type, Waits

SMALL = Type(name="small", template="s", queues=("short", "long"), memory_mb=1000, image_mb=1000)
LARGE = Type(
    name="large", template="l", queues=("big",), cores=4, memory_mb=4000, image_mb=2000, slots=4, window_s=600
)
OTHER = Type(name="other", template="o", queues=("others",), memory_mb=1000, image_mb=1000)
PLAN = Plan(manager=1, types=(SMALL, LARGE, OTHER), store_mb=1_000_000, waits=Waits(answer_s=45))
ROOM = Capacity(cores=4, memory=4000, disk=1000, slots=10)
NOW = 10_000.0


def plan(**changes: Any) -> Plan:

    return msgspec.structs.replace(PLAN, **changes)


def kind(given: Type, **changes: Any) -> Type:

    return msgspec.structs.replace(given, **changes)


def machine(name: str, given: Type = SMALL, **changes: Any) -> Machine:
    """Off."""
    return Machine(name, given.need, type=given.name)._replace(**changes)


def closed(name: str, given: Type = SMALL, **changes: Any) -> Machine:
    """On, up, and without a job."""
    return machine(name, given, **{"state": State.ON, "is_up": True, "since": NOW - 100, **changes})


def opened(name: str, given: Type = SMALL, **changes: Any) -> Machine:
    return closed(name, given, is_open=True, **changes)


def foreign(name: str, cores: int = 1) -> Machine:
    return Machine(name, Need(cores, 1000, 0), State.ON)


def server(name: str, *machines: Machine, mhz: int = 2000, capacity: Capacity = ROOM, **changes: Any) -> Server:
    return Server(name, capacity, mhz, machines, asked_at=NOW)._replace(**changes)


def jobs(*queues: str, slots: int = 1) -> tuple[Job, ...]:
    """With the names 1, 2, 3 in their order."""
    return tuple(Job(str(number), queue, slots) for number, queue in enumerate(queues, 1))


def decided(
    servers: list[Server],
    wanted: tuple[Job, ...] = (),
    given: Plan = PLAN,
    pending: tuple[Action, ...] = (),
    **changes: Any,
) -> Decision:
    under_way = tuple(Pending(each, NOW - 10, NOW + 100) for each in pending)
    return decide(given, Seen(NOW, tuple(servers), wanted, under_way)._replace(**changes))


def actions(decision: Decision) -> list[Action]:
    return [each.action for each in decision.given]
