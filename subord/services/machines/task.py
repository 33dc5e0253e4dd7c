"""The orders of the service `machines`, which the queue's node gives to servers, and their results.

The queue's node signs them with the key of its configuration (machines.key). Machines, types and templates are named
only: what they are comes from libvirt, and from the plan that an operator has signed. Invariants: what is decoded is
within its bounds, and what is encoded too; where the policy of a node allows this key the service as USER alone, no
plan counts that it has signed, because plans need root, and it drains no server.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from subord.services.decoding import Reader, reader
from subord.services.machines import servers
from subord.services.machines.model import Capacity, Doing, Machine, Need, Server, State
from subord.services.machines.orders import (
    Action,
    Arrive,
    Clone,
    Delete,
    Fence,
    Forget,
    Order,
    Settle,
    Start,
    Stay,
    Step,
    Stop,
)

USER: Final = "steps"
"""In the place of a user of the node; the agent acts as itself."""
TEXT_CHARS_MAX: Final = 400
FAULT_CHARS_MAX: Final = 200
NAME_CHARS_MAX: Final = 64
MACHINES_MAX: Final = 256
FAULTS_MAX: Final = 16
POOLS_MAX: Final = 16
ORDERS_MAX: Final = 64
"""Of one Do."""
XML_BYTES_MAX: Final = 8_000
"""Of what of a machine moves (services/machines/power/definitions.py). An order has room for 32,768 bytes."""
RESULT_BYTES_MAX: Final = 32_000

_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
_Fault = Annotated[str, msgspec.Meta(max_length=FAULT_CHARS_MAX)]
_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
_Xml = Annotated[str, msgspec.Meta(max_length=XML_BYTES_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Deed(StrEnum):
    """What a server is told to do with a machine. `peer`: the other server of a move."""

    START = "start"
    CLONE = "clone"
    STOP = "stop"
    DELETE = "delete"
    LEAVE = "leave"
    ARRIVE = "arrive"
    FORGET = "forget"
    SETTLE = "settle"
    STAY = "stay"


class Told(msgspec.Struct, frozen=True, array_like=True):
    """An order to one server, without its fence."""

    deed: Deed
    machine: _Name
    number: _Count
    expires: float
    type: _Name = ""
    peer: _Name = ""
    id: _Name = ""
    xml: _Xml = ""


# -- what is asked --------------------------------------------------------------------------------------------------


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """`version`: of the plan, `life`: of the process that decides. `master`: address of the queue's node."""

    version: _Count
    life: _Count
    master: _Name


class Do(msgspec.Struct, frozen=True, array_like=True, tag="do"):
    version: _Count
    life: _Count
    master: _Name
    orders: Annotated[tuple[Told, ...], msgspec.Meta(max_length=ORDERS_MAX)]


class Drain(msgspec.Struct, frozen=True, array_like=True, tag="drain"):
    """Of an operator, as root: no machine starts at this server from now on; or, not `is_drained`, it may again."""

    is_drained: bool


# -- what is answered -----------------------------------------------------------------------------------------------


class There(msgspec.Struct, frozen=True, array_like=True):
    """A machine of a server."""

    name: _Name
    state: State
    cores: _Count
    memory: _Count
    disk: _Count = 0
    type: _Name = ""
    since: float = 0.0
    doing: Doing | None = None
    given_to: _Name = ""
    came_from: _Name = ""


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    """Of a server to Ask. `cores`, `memory`, `disk`, `slots`: what machines may have. `fault`: why it cannot tell
    them."""

    server: _Name
    cores: int
    memory: int
    disk: int
    slots: int
    mhz: int
    version: _Count
    life: _Count
    now: float
    is_drained: bool = False
    fault: _Text = ""
    machines: Annotated[tuple[There, ...], msgspec.Meta(max_length=MACHINES_MAX)] = ()
    faults: Annotated[tuple[tuple[_Name, _Fault], ...], msgspec.Meta(max_length=FAULTS_MAX)] = ()
    pools: Annotated[tuple[tuple[_Name, _Count], ...], msgspec.Meta(max_length=POOLS_MAX)] = ()

    @property
    def heard(self) -> servers.Answer:
        """As the process that decides has it."""
        capacity = Capacity(self.cores, self.memory, self.disk, self.slots)
        machines = tuple(map(_machine, self.machines))
        server = Server(self.server, capacity, self.mhz, machines, not self.fault, is_drained=self.is_drained)
        return servers.Answer(
            server, Fence(self.version, self.life), self.now, self.fault, dict(self.faults), dict(self.pools)
        )


class NoServer(msgspec.Struct, frozen=True, array_like=True, tag="none"):
    """Of a node without machines.uri; equal answers travel as one."""


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """Of a server to an order that it has obeyed, or has begun with. `id`, `xml`: as in servers.Result."""

    fault: _Text = ""
    id: _Name = ""
    xml: _Xml = ""
    is_refused: bool = False

    @property
    def result(self) -> servers.Result:
        return servers.Result(self.fault, self.id, self.xml, self.is_refused)


class Results(msgspec.Struct, frozen=True, array_like=True, tag="results"):
    """Of a server to Do, in the sequence of the orders; to Drain an empty one. `fault`: why none of them is done,
    with whose fault it is, what is unchanged and what to do."""

    fault: _Text = ""
    results: Annotated[tuple[Done, ...], msgspec.Meta(max_length=ORDERS_MAX)] = ()
    is_changed: bool = False
    """Of Drain: it was not so before."""


Task = Ask | Do | Drain
Said = Answer | NoServer | Results
decode_task: Final[Reader[Task]] = reader(Task)
decode_said: Final[Reader[Said]] = reader(Said)


def encode(message: Task | Said) -> bytes:
    return msgspec.msgpack.encode(message)


# -- between the wire and the model ---------------------------------------------------------------------------------

_MADE: Final[dict[Deed, Callable[[Told, str], Action | Step]]] = {
    Deed.START: lambda told, server: Start(told.machine, server),
    Deed.LEAVE: lambda told, server: Start(told.machine, told.peer, server),
    Deed.CLONE: lambda told, server: Clone(told.machine, told.type, server),
    Deed.STOP: lambda told, server: Stop(told.machine, server),
    Deed.DELETE: lambda told, server: Delete(told.machine, server),
    Deed.FORGET: lambda told, server: Forget(told.machine, server),
    Deed.ARRIVE: lambda told, server: Arrive(told.machine, server, told.peer, told.id, told.xml),
    Deed.SETTLE: lambda told, server: Settle(told.machine, server, told.peer),
    Deed.STAY: lambda told, server: Stay(told.machine, server, told.peer),
}
_DEEDS: Final[dict[type[Action | Step], Deed]] = {
    Start: Deed.START,
    Clone: Deed.CLONE,
    Stop: Deed.STOP,
    Delete: Deed.DELETE,
    Forget: Deed.FORGET,
    Arrive: Deed.ARRIVE,
    Settle: Deed.SETTLE,
    Stay: Deed.STAY,
}


def told_of(order: Order) -> Told | None:
    """As it is told to the server that it is for (orders.server_of); None: it is for the batch system, or has a
    definition that no order has room for."""
    action = order.action
    deed = _DEEDS.get(type(action))
    if deed is None:
        return None
    changes: dict[str, str | Deed] = {}
    match action:
        case Start(_, server, source) if source:
            changes = {"deed": Deed.LEAVE, "peer": server}
        case Clone():
            changes = {"type": action.type}
        case Arrive():
            changes = {"peer": action.source, "id": action.id, "xml": action.xml}
        case Settle():
            changes = {"peer": action.source}
        case Stay():
            changes = {"peer": action.target}
    told = Told(deed, action.machine, order.number, order.expires)
    found = msgspec.structs.replace(told, **changes)
    return found if len(found.xml.encode()) <= XML_BYTES_MAX else None


def order_of(told: Told, fence: Fence, server: str) -> Order:
    """As `server`, to which it was told, has it."""
    return Order(fence, told.number, told.expires, _MADE[told.deed](told, server))


def _machine(there: There) -> Machine:
    return Machine(
        there.name,
        Need(there.cores, there.memory, there.disk),
        there.state,
        there.type,
        there.doing,
        since=there.since,
        given_to=there.given_to,
        came_from=there.came_from,
    )
