"""What the manager tells: one State from what a round saw and decided. Pure.

Invariant: it is within the bounds of runtime/machines/state.py, of whose lists what comes first is what an operator
should look at; all servers and machines are counted, also those that have no room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from msgspec.structs import replace

from subord.runtime.machines.state import (
    JOBS_MAX,
    NOTES_MAX,
    SERVERS_MAX,
    TEXT_CHARS_MAX,
    Amount,
    JobState,
    KindCount,
    SeenServer,
    State,
)
from subord.services.machines.deciding.iteration import Decision
from subord.services.machines.guarding import excess_of
from subord.services.machines.model import NOTHING, Capacity, Doing, Job, Machine, Server, used_by
from subord.services.machines.model import State as Power
from subord.services.machines.plan import Plan, Type, typeless

LEFT_ALONE = (Power.PAUSED, Power.UNKNOWN)
UNDECIDED: Final = "nothing was decided for it yet"


def with_servers(state: State, servers: Iterable[Server], faults: Mapping[str, str], plan: Plan, now: float) -> State:
    """With what is known of servers. `faults`: why those that have not answered did not, by name."""
    every = tuple(servers)
    found = [_seen(each, faults.get(each.name, ""), now) for each in every]
    known = {each.name for each in every}
    found += [SeenServer(name=name, fault=_cut(fault)) for name, fault in faults.items() if name not in known]
    have = used = free = NOTHING
    for each, one in zip(found, every, strict=False):
        have, used = have.plus(one.capacity), used.plus(Capacity(each.used.cores, *_rest(each.used)))
        if one.is_reachable and not one.is_drained:
            free = free.plus(Capacity(*(max(0, part) for part in _room(each))))
    is_over = [any(_parts(each.excess)) for each in found]
    order = sorted(range(len(found)), key=lambda at: (not is_over[at], not found[at].fault, found[at].name))
    first = tuple(found[at] for at in order[:SERVERS_MAX])
    machines = [machine for each in every for machine in each.machines]
    images = {each.name: each.image_mb for each in plan.types}
    by_name = {each.name: each for each in every}
    return replace(
        state,
        store=sum(images.get(each.type, 0) for each in machines if not each.given_to),
        store_most=plan.store_mb,
        headroom=Amount(*plan.headroom.capacity),
        free=Amount(*free),
        have=Amount(*have),
        used=Amount(*used),
        kinds=kinds_of(machines, plan.types),
        servers_all=len(found),
        unreachable=sum(bool(each.fault) for each in found),
        overbooked=sum(is_over),
        drained=sum(each.is_drained for each in found),
        servers=tuple(
            replace(each, kinds=kinds_of(by_name[each.name].machines, plan.types)) if each.name in by_name else each
            for each in first
        ),
        servers_left_out=len(found) - len(first),
    )


def with_decision(
    state: State, waiting: Sequence[Job], decision: Decision, lacking: Iterable[str], plan: Plan
) -> State:
    """With the jobs that wait by the last reading, and what the last decision gives them; it may be older, or there
    was none. Those of queues that are not of the plan come last, and are not counted: no machine is for them."""
    kinds = plan.by_queue()
    ours = [each for each in waiting if each.queue in kinds]
    others = (each for each in waiting if each.queue not in kinds)
    jobs = tuple(
        JobState(
            id=each.id,
            queue=each.queue,
            type=kinds[each.queue].name if each.queue in kinds else "",
            slots=max(0, each.slots),
            tasks=max(0, each.tasks),
            why=_cut(decision.whys.get(each.id) or (UNDECIDED if each.queue in kinds else typeless(each))),
            is_unmet=each.id in decision.unmet,
        )
        for each in islice(chain(ours, others), JOBS_MAX)
    )
    return replace(
        state,
        jobs=jobs,
        jobs_left_out=len(waiting) - len(jobs),
        waiting=sum(each.tasks for each in ours),
        unmet=sum(each.tasks for each in ours if each.id in decision.unmet),
        lacking=tuple(sorted(lacking)),
    )


def with_notes(state: State, *groups: Iterable[str]) -> State:
    notes = [_cut(each) for group in groups for each in group]
    return replace(state, notes=tuple(notes[:NOTES_MAX]), notes_left_out=max(0, len(notes) - NOTES_MAX))


def kinds_of(machines: Iterable[Machine], types: Iterable[Type]) -> tuple[KindCount, ...]:
    """In the order of the plan; those of another type, and those that are not ours, last."""
    names = [each.name for each in types]
    by_type = defaultdict[str, list[Machine]](list)
    for each in machines:
        by_type[each.type].append(each)
    others = sorted(name for name in by_type if name and name not in names)
    order = [*names, *others, ""]
    return tuple(_count(name, by_type[name]) for name in order if by_type.get(name))


def _count(name: str, machines: list[Machine]) -> KindCount:
    on = [each for each in machines if each.state != Power.OFF]
    return KindCount(
        type=name,
        on=len(on),
        off=sum(each.state == Power.OFF and not each.given_to for each in machines),
        open=sum(each.is_open and each.is_running for each in on),
        busy=sum(each.busy > 0 for each in on),
        coming=sum(_is_coming(each) for each in machines),
        left_alone=sum(each.state in LEFT_ALONE for each in on),
        cores=sum(each.need.cores for each in on),
        memory=sum(each.need.memory for each in on),
    )


def _is_coming(machine: Machine) -> bool:
    is_booting = machine.state == Power.ON and not machine.is_up and bool(machine.type)
    return machine.doing in (Doing.STARTING, Doing.CLONING) or is_booting


def _seen(server: Server, fault: str, now: float) -> SeenServer:
    if not server.is_reachable and not fault:
        fault = f"it has last answered {now - server.asked_at:.0f} s ago"
    return SeenServer(
        name=server.name,
        asked_at=max(0.0, server.asked_at),
        fault="" if server.is_reachable else _cut(fault),
        have=Amount(*server.capacity),
        used=Amount(*used_by(server.machines)),
        excess=Amount(*excess_of(server)),
        mhz=max(0, server.mhz),
        is_drained=server.is_drained,
    )


def _room(seen: SeenServer) -> Iterator[int]:
    return (have - used for have, used in zip(_parts(seen.have), _parts(seen.used), strict=True))


def _parts(amount: Amount) -> tuple[int, int, int, int]:
    return amount.cores, amount.memory, amount.disk, amount.slots


def _rest(amount: Amount) -> tuple[int, int, int]:
    return amount.memory, amount.disk, amount.slots


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 3]}..."
