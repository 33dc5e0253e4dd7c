"""What libvirt has on a server, in the words of the model: machines with what they need, and the server's capacity.

Inputs are what power/ reads, the table [machines], the plan, and what the agent has under way; outputs are a Server
and a Machine. Pure: it runs in threads, too. Invariants: a machine needs what libvirt would give it, whatever the
plan says of its type; one that is just cloned counts before libvirt has it; a machine with a stage is not still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from subord.config.schema import MachinesConfig
from subord.services.machines.model import Capacity, Doing, Machine, Need, Server, State
from subord.services.machines.plan import Plan
from subord.services.machines.power.records import Found, Hardware, Stage

STATES: Final = {each.value: each for each in State}
SINCE_NOTHING: Final[Mapping[str, float]] = {}


class Part(NamedTuple):
    """What does not change with libvirt: the server's name, its configuration and the plan."""

    name: str
    config: MachinesConfig
    plan: Plan


def capacity_of(hardware: Hardware, config: MachinesConfig) -> Capacity:
    return Capacity(
        config.cores or hardware.cores,
        max(0, hardware.memory - config.reserve_mb),
        config.disk_mb,
        config.slots,
    )


def machine_of(found: Found, part: Part, work: Machine | None = None) -> Machine:
    """`work`: what is under way with it."""
    doing = work.doing if work is not None else None
    if doing is None and found.stage in (Stage.CLONING, Stage.DELETING):
        doing = Doing.DELETING  # it was interrupted, and is deleted next
    state = State.UNKNOWN if found.stage == Stage.OTHER else STATES.get(found.state.value, State.UNKNOWN)
    return Machine(
        found.name,
        Need(found.cores, found.memory, _disk_of(found, part)),
        state,
        found.type,
        doing,
        always_on=found.name in part.plan.always_on,
        given_to=found.peer if found.stage == Stage.LEAVING else "",
        came_from=found.peer if found.stage == Stage.ARRIVING else "",
    )


def server_of(
    hardware: Hardware,
    found: Iterable[Found],
    part: Part,
    works: Mapping[str, Machine],
    *,
    is_drained: bool = False,
    since: Callable[[Machine], float] = lambda _: 0.0,
) -> Server:
    """`works`: machines with something under way, by name."""
    machines = {each.name: machine_of(each, part, works.get(each.name)) for each in found}
    for name, work in works.items():
        if work.doing in (Doing.CLONING, Doing.STARTING):  # libvirt was asked before it had the machine
            machines.setdefault(name, work)
    return Server(
        part.name,
        capacity_of(hardware, part.config),
        part.config.mhz or hardware.mhz,
        tuple(each._replace(since=since(each)) for each in machines.values()),
        is_drained=is_drained,
    )


def ours(machine: Machine, plan: Plan) -> Machine:
    """As the guard has it: a type that the plan does not have is none of ours."""
    return machine if machine.type in plan.by_name() else machine._replace(type="")


def template_need(name: str, server: Server) -> Need:
    """What a clone of a template takes; nothing if it is not there, which libvirt says then."""
    return next((each.need for each in server.machines if each.name == name), Need(0, 0, 0))


def larger(one: Need, other: Need) -> Need:
    return Need(*map(max, one, other))


def _disk_of(found: Found, part: Part) -> int:
    """Of the local disk. Images of our machines are in the store, so they take what the plan says; those of others
    count as if they were on the local disk."""
    if not part.config.disk_mb:
        return 0
    kind = part.plan.by_name().get(found.type)
    return found.disk if kind is None else kind.disk_mb
