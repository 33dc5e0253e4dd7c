"""Invariants of a simulated world that hold at every second, and others that hold when faults have ended."""

from __future__ import annotations

from collections.abc import Mapping

from subord.services.machines.deciding.iteration import Decision
from subord.services.machines.deciding.picture import Seen
from subord.services.machines.model import Capacity, Doing, Machine, Need, Server, State
from subord.services.machines.orders import Clone, Open, Start
from subord.services.machines.plan import Plan
from tests.machines.world import BrokenError, Computer, World, excess

HINDERED = ("are the most", "template", "store of images", "images of", "no type")
"""In the reasons of jobs that wait for something else than room."""
TIGHT_MB = 200_000
"""A store of images that may be full."""


class Watch:
    """What happened lately, for the invariants that look back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.disturbed = dict[str, int]()
        """When a server or machine was last changed by hand, or its agent was dead."""
        self.unheard = dict[str, int]()
        """When a process that had slept last decided with an answer of a server that was too old to count."""
        self.decided_at = 0
        self._undecided = [0]
        """Seconds without a process that decides, summed up, at each second."""
        self._begun = 0
        waits, plan = world.plan.waits, world.plan
        self.back_s = waits.order_s + waits.answer_s + 2 * plan.period_s

    def look(self) -> None:
        """After each second."""
        world = self.world
        for server in world.servers.values():
            if not server.is_alive or server.is_drained or any(world.excess_of(server)):
                self.disturbed[server.name] = world.now
        late = world.now - self.decided_at > world.plan.period_s
        self._undecided.append(self._undecided[-1] + late)
        begun = world.begun[self._begun :]
        self._begun = len(world.begun)
        for kind in sorted({each[2] for each in begun}):
            self.check_twice(kind)
        if world.now % world.plan.period_s == 0:
            self._check_windows()

    def check_twice(self, kind: str) -> None:
        """When a machine starts, those of its type that no job has used are not more than jobs wanted."""
        world = self.world
        slots = world.types[kind].slots
        unused = [name for name, (began, server) in world.fresh.items() if self._counts(kind, name, began, server)]
        demand = max(world.demand[kind][-self.back_s :], default=0)
        if len(unused) > 1 and len(unused) > (demand if slots == 1 else 1 + demand):
            raise BrokenError(f"twice: {len(unused)} unused machines {sorted(unused)} for {demand} slots of {kind}")

    def _counts(self, kind: str, name: str, began: int, server: str) -> bool:
        """Whether a process that decides could know that this machine is coming or idle."""
        world = self.world
        there = world.servers[server].machines.get(name)
        if there is None or there.type != kind or there.given_to:
            return False
        if there.state not in (State.ON, State.OFF) or (there.state == State.OFF and there.doing is None):
            return False
        since, lasts = world.now - self.back_s, world.now - began
        is_late = name not in world.up and lasts > world.plan.waits.start_s - self.back_s
        if there.doing is Doing.CLONING:
            is_late = lasts > world.plan.waits.clone_s - self.back_s
        if began <= (unheard_at := self.unheard.get(server, -1)) and unheard_at >= since:
            return False
        left_alone = (
            world.stopping_since.get(name, -1),
            self.disturbed.get(name, -1),
            self.disturbed.get(server, -1),
        )
        return not is_late and max(left_alone) < since

    def _check_windows(self) -> None:
        """A machine is open for its window, some periods for the command, and no longer.

        One that was stopped by hand just before it is opened stays open while it is off: its window is counted from
        when it is on again, as jobs cannot start there before, and it keeps no room.
        """
        world = self.world
        slack_s = 2 * world.plan.waits.batch_s + 4 * world.plan.period_s
        for name, opened_at in world.opened_at.items():
            there = next(world.entries(name), None)
            if there is None or not world.hosts[name].is_open or name not in world.up or there.state != State.ON:
                continue
            if self.disturbed.get(name, -1) >= opened_at or there.doing is not None:
                continue
            window_s = world.types[there.type].window_s
            begins = max(opened_at, int(there.since))
            lasts_s, undecided_s = world.now - begins, self._undecided[-1] - self._undecided[begins]
            if window_s and lasts_s > window_s + slack_s + undecided_s:
                raise BrokenError(f"window: {name} is open for {lasts_s} of {window_s} s")


# -- decisions ------------------------------------------------------------------------------------------------------


def check_decision(plan: Plan, seen: Seen, decision: Decision) -> None:
    """With what is pending, the actions overbook no server that was seen, and a machine has one action."""
    machines = {machine.name: machine for each in seen.servers for machine in each.machines if not machine.given_to}
    left = rooms(plan, seen)
    before = dict(left)
    for each in decision.given:
        action = each.action
        machine = machines.get(action.machine)
        if machine is not None and not _is_ours(plan, machine):
            raise BrokenError(f"touched {machine.name}, which is not ours or always on: {action}")
        if isinstance(action, Start | Clone):
            left[action.server] = _less(left[action.server], _need(plan, action, seen))
            pairs = zip(left[action.server], before[action.server], strict=True)
            if any(now < 0 and now < earlier for now, earlier in pairs):
                raise BrokenError(f"overbooked {action.server} by a decision: {each}")
    names = [each.action.machine for each in decision.given]
    if len(set(names)) < len(names):
        raise BrokenError("twice: a machine has two actions in one decision")


def check_order(plan: Plan, seen: Seen, decision: Decision) -> None:
    """A job that comes later gets no room that the first job without any could have had, nor its machine."""
    ranks = {each.id: rank for rank, each in enumerate(seen.jobs)}
    kinds = plan.by_queue()
    first = next((each for each in seen.jobs if _is_unmet(decision.whys.get(each.id, ""))), None)
    if first is None or plan.store_mb <= TIGHT_MB:
        return  # where it could start depends on which machines are off, and where
    rank, kind, left = ranks[first.id], kinds[first.queue], rooms(plan, seen)
    gets = [each for each in decision.given if each.job]
    for each in sorted(gets, key=lambda each: ranks[each.job]):
        other, action = seen.jobs[ranks[each.job]], each.action
        if isinstance(action, Open):
            is_other = kinds[other.queue] is not kind or other.slots < first.slots
            is_wrong = ranks[each.job] > rank and not is_other
        elif isinstance(action, Start | Clone):
            room = left[action.server]
            has_template = action.server in seen.templates.get(kind.name, (action.server,))
            is_wrong = ranks[each.job] > rank and has_template and _fits(room, kind.need)
            left[action.server] = _less(room, _need(plan, action, seen))
        else:
            continue
        if is_wrong:
            raise BrokenError(f"order: {other.id} gets {action}, and {first.id} comes first")


def _is_unmet(why: str) -> bool:
    return not why.startswith("the machine") and not any(each in why for each in HINDERED)


def rooms(plan: Plan, seen: Seen) -> dict[str, Capacity]:
    """What is left on servers, with starts that are pending."""
    left = {each.name: _left(each) for each in seen.servers}
    there = {(each.name, machine.name) for each in seen.servers for machine in each.machines if _is_counted(machine)}
    for pending in seen.pending:
        action = pending.action
        if isinstance(action, Start | Clone) and (action.server, action.machine) not in there:
            left[action.server] = _less(left[action.server], _need(plan, action, seen, pending.type))
    return left


def _need(plan: Plan, action: Start | Clone, seen: Seen, kind: str = "") -> Need:
    """`kind`: of a machine that no server names, as it moves."""
    if isinstance(action, Clone):
        return plan.by_name()[action.type].need
    found = (machine.need for each in seen.servers for machine in each.machines if machine.name == action.machine)
    return next(found, plan.by_name()[kind].need if kind else Need(0, 0, 0))


def _left(server: Server) -> Capacity:
    have = server.capacity
    for each in server.machines:
        if _is_counted(each):
            have = _less(have, each.need)
    return have


def _is_counted(machine: Machine) -> bool:
    is_coming = machine.doing in (Doing.STARTING, Doing.CLONING) and not machine.given_to
    return machine.state != State.OFF or is_coming


def _fits(room: Capacity, need: Need) -> bool:
    return all(not wanted or have >= wanted for have, wanted in zip(room, (*need, 1), strict=True))


def _less(have: Capacity, need: Need) -> Capacity:
    return Capacity(have[0] - need[0], have[1] - need[1], have[2] - need[2], have[3] - 1)


# -- when faults have ended -----------------------------------------------------------------------------------------


def settled(world: World, whys: Mapping[str, str]) -> str:
    """What is still to be done when nothing disturbs; ""."""
    for work in world.waiting:
        if could_run(world, work.type, work.job.slots):
            return f"stuck: {work.job.id} of {work.type} waits: {whys.get(work.job.id, '')}"
    for server in world.servers.values():
        over = excess(server)
        if any(over) and any(helps(world, over, each) for each in server.machines.values()):
            return f"excess: {server.name} is overbooked by {over}, and idle machines there are not stopped"
    return ""


def could_run(world: World, kind: str, slots: int) -> bool:
    """Whether some server has room for a machine of this type if all others of ours were off."""
    found = world.types.get(kind)
    if found is None:
        return False
    return any(_could_fit(server, found.need, world) for server in world.servers.values() if not server.is_drained)


def _could_fit(server: Computer, need: tuple[int, int, int], world: World) -> bool:
    have = list(server.capacity)
    for each in server.machines.values():
        if not _is_ours(world.plan, each) and each.state != State.OFF:
            have = [have[0] - each.need[0], have[1] - each.need[1], have[2] - each.need[2], have[3] - 1]
    return _fits(Capacity(*have), Need(*need))


def helps(world: World, over: tuple[int, int, int, int], machine: Machine) -> bool:
    if not _is_ours(world.plan, machine) or machine.state != State.ON or world.hosts[machine.name].jobs:
        return False
    parts = zip(over, (*machine.need, 1), strict=True)
    return any(lacking and part for lacking, part in parts)


def check_images(world: World) -> None:
    """At the end each image has its machine on one server, or is on its way from one."""
    for name in world.images:
        here = sum(not each.given_to for each in world.entries(name))
        if here > 1 or not (here or sum(1 for _ in world.entries(name)) == 1):
            raise BrokenError(f"lost: the machine {name} is on {here} servers")


def _is_ours(plan: Plan, machine: Machine) -> bool:
    return bool(machine.type) and not machine.always_on and machine.name not in plan.always_on
