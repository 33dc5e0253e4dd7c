"""What one iteration knows and has chosen so far.

Input is what is seen, with the actions whose effect is not seen yet; the steps of the iteration take from this
picture what they use. Invariants: the room of a server only shrinks, by what is started there or kept for a job; a
machine that a step has used is not used again; what is under way counts as if it had happened, and is not done again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from subord.services.machines.deciding.finding import Finding, Kept
from subord.services.machines.deciding.supplies import Here, Idle, Image, Supply
from subord.services.machines.model import NOTHING, Doing, Job, Machine, Need, Server, State, room_of
from subord.services.machines.orders import Action, Clone, Close, Delete, Forget, Open, Pending, Start, Stay, Stop
from subord.services.machines.plan import Plan, Type


class Seen(NamedTuple):
    """`servers`: with what the batch system says of their machines. `jobs`: that wait, in the order of the
    scheduler. `pending`: actions before this iteration whose effect is not seen yet (waiting.py). `lacking`: types
    whose template is not there. `names`: that are taken beside those of machines that are seen, as of hosts of the
    batch system and of images. `templates`: for types whose template is not on all servers those that have it.
    `staying`: machines that could not be moved lately. `refused`: those of them that have left one server, and that
    the other does not have. `unsure`: machines that have lately not come up."""

    now: float
    servers: tuple[Server, ...]
    jobs: tuple[Job, ...] = ()
    pending: tuple[Pending, ...] = ()
    lacking: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    templates: Mapping[str, frozenset[str]] = MappingProxyType({})
    staying: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()


class Given(NamedTuple):
    """`job`: for which it is done, "" for none. `why`: a sentence without a full stop."""

    action: Action
    job: str
    why: str


class Picture:
    def __init__(self, plan: Plan, seen: Seen) -> None:
        self.plan, self.now, self.seen = plan, seen.now, seen
        self.types = plan.by_name()
        self.always_on = frozenset(plan.always_on)
        self.servers = {each.name: each for each in seen.servers}
        self.reachable = {each.name: each.is_reachable for each in seen.servers}
        self.room = {each.name: room_of(each) for each in seen.servers}
        self.coming = {each.name: NOTHING for each in seen.servers}
        """What machines that are just stopping will give back."""
        self.potential = {each.name: each.capacity for each in seen.servers}
        """What a server would have if all machines of ours were off, less what is kept for jobs that come first."""
        self.versions = dict.fromkeys(self.servers, 0)
        """Of servers: grows with each change there."""
        self.supply = {each.name: Supply() for each in plan.types}
        self.idle = Idle(self.versions)
        """Machines of ours that could be stopped: no job runs there, and no job of this iteration has them."""
        self.running = dict[str, Here]()
        """Machines of ours that are on and up, and that nothing is done with."""
        self.records = list[Here]()
        """Of machines that were given away and have arrived."""
        self.fixed = set(seen.staying)
        """Names of machines that are not moved or deleted: of those with such a record before it is forgotten."""
        self.going = dict[str, str]()
        """Machines on their way, to the only server where they can start."""
        self.names = set[str]()
        self.numbers = dict[str, int]()
        """By type the number from which on names are free."""
        self.images_mb = 0
        self.images_coming_mb = 0
        self.has_freed = False
        """Whether a machine is to stop since this was last False."""
        self.notes = list[str]()
        self.given = list[Given]()
        self.deletable: deque[Image] | None = None
        self.stoppable: deque[Here] | None = None
        """In the order in which they are taken; None: none was needed yet (images.py)."""
        self.kept = dict[str, Kept[list[Here]]]()
        """By type what would have to stop on servers for a machine of it (freeing.py)."""
        self._fill(seen)
        self.finding = Finding(self)

    def give(self, action: Action, job: str, why: str) -> None:
        self.given.append(Given(action, job, why))

    def take_room(self, server: str, need: Need) -> None:
        """For a machine that starts there, or is going to. A server may be unknown, if it has not answered yet."""
        if server not in self.room:
            return
        self.room[server] = self.room[server].less(need)
        self.potential[server] = self.potential[server].less(need)
        self.versions[server] += 1

    def is_ours(self, machine: Machine) -> bool:
        return machine.type in self.types and not self.is_always_on(machine)

    def is_always_on(self, machine: Machine) -> bool:
        return machine.always_on or machine.name in self.always_on

    # -- filling ----------------------------------------------------------------------------------------------------

    def _fill(self, seen: Seen) -> None:
        under_way = {each.action.machine: each for each in seen.pending if not isinstance(each.action, Forget)}
        found = defaultdict[str, list[Here]](list)
        for server in seen.servers:
            for machine in server.machines:
                if machine.type:
                    found[machine.name].append(Here(server.name, machine))
                else:  # many servers may have one of the same name, as templates
                    self.names.add(machine.name)
                    self._leave_alone(Here(server.name, machine))
        self.names.update(found, under_way, seen.names)
        for each in found.values():
            here, pending = self._one_of(each), under_way.get(each[0].machine.name)
            if here is not None:
                self._add(here, pending)
            elif pending is not None:
                self._keep_room(each, pending.action)
            for other in each:
                if not self._may_leave(other.machine):
                    self._leave_alone(other)
        for pending in seen.pending:
            if pending.action.machine not in found:
                self._add_unseen(pending)

    def _leave_alone(self, here: Here) -> None:
        if here.machine.is_counted:
            self.potential[here.server] = self.potential[here.server].less(here.machine.need)

    def _keep_room(self, found: list[Here], action: Action) -> None:
        """It is not known where the machine is, and it may start all the same."""
        if isinstance(action, Start) and not any(
            each.server == action.server and each.machine.is_counted for each in found
        ):
            self.take_room(action.server, found[0].machine.need)

    def _may_leave(self, machine: Machine) -> bool:
        """Whether its room may be had one day."""
        is_left_alone = machine.state in (State.PAUSED, State.UNKNOWN) or machine.given_to
        return not machine.is_counted or (self.is_ours(machine) and not is_left_alone)

    def _one_of(self, found: list[Here]) -> Here | None:
        """The server that has the machine, of those that name it; records of others are forgotten later."""
        here = [each for each in found if not each.machine.given_to]
        for server, machine in found:
            if machine.given_to and machine.is_counted:  # started by hand
                self.notes.append(
                    f"the machine {machine.name} is {machine.state} on {server}, which has given it to "
                    f"{machine.given_to}: it is left alone"
                )
                return None
        if len(here) == 1:
            old = [each for each in found if each.machine.given_to]
            self.records += old
            self.fixed.update(each.machine.name for each in old)
            return here[0] if old else self._arriving(here[0])
        if not here:  # on its way
            self.going.update((each.machine.name, each.machine.given_to) for each in found)
            return found[0] if len(found) == 1 else None
        on = [each for each in here if each.machine.is_counted]
        on = on or [each for each in here if any(each.machine.came_from == other.server for other in here)]
        if len(on) == 1:  # the answers of others may be from before it moved
            self.fixed.add(on[0].machine.name)
            return on[0]
        servers = " and ".join(each.server for each in here)
        self.notes.append(
            f"the machine {here[0].machine.name} is on the servers {servers}: it is left alone: undefine it where it "
            "is not wanted, `virsh undefine`"
        )
        return None

    def _arriving(self, here: Here) -> Here:
        """The server that gave it has no record of it any more: the move is not complete, and is ordered again."""
        source = here.machine.came_from
        if source not in self.servers:
            return here
        self.going[here.machine.name] = here.server
        return Here(source, here.machine._replace(came_from="", given_to=here.server))

    def _add(self, here: Here, pending: Pending | None) -> None:
        machine = here.machine
        kind = self.types.get(machine.type)
        if kind is None:
            return
        if self.is_always_on(machine):
            if machine.is_running and machine.is_open:
                self.supply[kind.name].open[machine.name] = kind.slots - machine.busy
            return
        self.images_mb += kind.image_mb
        supply = self.supply[kind.name]
        action = None if pending is None else pending.action
        if machine.is_counted or isinstance(action, Start):
            supply.on += 1
        if machine.state in (State.PAUSED, State.UNKNOWN):
            self.notes.append(f"the machine {machine.name} on {here.server} is {machine.state}: it is left alone")
        elif action is not None:
            self._add_pending(here, kind, action)
        elif machine.doing is not None:
            self._add_doing(here, kind, machine.doing)
        elif machine.is_running:
            self._add_running(here, kind)
        elif machine.state == State.ON:
            self._add_starting(here, kind)
        elif machine.given_to and machine.name in self.seen.refused:
            self._take_back(here)
        elif machine.is_still or machine.given_to:
            self._note_the_way(here)
            is_unsure = machine.is_still and machine.name in self.seen.unsure
            (supply.unsure if is_unsure else supply.off)[machine.name] = here.server
        else:
            self._note_the_way(here)

    def _note_the_way(self, here: Here) -> None:
        """A server that has not answered since this process has begun may have the machine, too, or not any more."""
        name, target, source = here.machine.name, here.machine.given_to, here.machine.came_from
        way = ""
        if target and target not in self.servers:
            way = f"from {here.server} to {target}, which has not answered"
        elif source:
            way = f"from {source}, which has not answered, to {here.server}"
        if way:
            self.notes.append(f"the machine {name} is on its way {way}: it is left alone until that server is back")

    def _take_back(self, here: Here) -> None:
        name, target = here.machine.name, here.machine.given_to
        if self.servers[here.server].is_reachable:
            why = f"the machine {name} could not be moved to {target}, and stays on {here.server}"
            self.give(Stay(name, here.server, target), "", why)

    def _add_pending(self, here: Here, kind: Type, action: Action) -> None:
        machine, supply = here.machine, self.supply[kind.name]
        free = kind.slots - machine.busy
        if isinstance(action, Open) and machine.is_running:
            supply.open[machine.name] = free
        elif isinstance(action, Close) and machine.is_running and not machine.busy:
            supply.coming[machine.name] = free  # it is opened again when it is closed
        elif isinstance(action, Start | Clone):
            supply.coming[machine.name] = kind.slots
            if here.server != action.server or not machine.is_counted:
                self.take_room(action.server, kind.need)
        elif isinstance(action, Stop):
            self._leave(here, kind)
        elif isinstance(action, Delete):
            self.images_coming_mb += kind.image_mb

    def _add_unseen(self, pending: Pending) -> None:
        """A clone, or a machine that moves: the answer of the one server is newer than that of the other."""
        action = pending.action
        if not isinstance(action, Start | Clone):
            return
        kind = self.types.get(action.type if isinstance(action, Clone) else pending.type)
        if kind is not None and action.server in self.room:
            self.supply[kind.name].on += 1
            self.supply[kind.name].coming[action.machine] = kind.slots
            self.images_mb += kind.image_mb
            self.take_room(action.server, kind.need)

    def _add_doing(self, here: Here, kind: Type, doing: Doing) -> None:
        """What takes longer than its wait is not waited for; its room stays taken."""
        waits, name = self.plan.waits, here.machine.name
        limits = {Doing.STARTING: waits.start_s, Doing.CLONING: waits.clone_s, Doing.STOPPING: waits.stop_s}
        lasts_s = self.now - here.machine.since
        if lasts_s > limits.get(doing, waits.delete_s):
            self.notes.append(f"the machine {name} on {here.server} is {doing} for {lasts_s:.0f} s: it is left alone")
        elif not self.servers[here.server].is_reachable:
            self.notes.append(f"the machine {name} was {doing}, and its server {here.server} does not answer")
        elif doing in (Doing.STARTING, Doing.CLONING):
            self.supply[kind.name].coming[name] = kind.slots
        elif doing is Doing.STOPPING:
            self._leave(here, kind)
        else:
            self.images_coming_mb += kind.image_mb

    def _add_running(self, here: Here, kind: Type) -> None:
        machine, supply = here.machine, self.supply[kind.name]
        self.running[machine.name] = here
        free = kind.slots - machine.busy
        if machine.is_open:
            supply.open[machine.name] = free
        elif not machine.busy or not kind.window_s:
            supply.closed[machine.name] = free
        if not machine.busy:
            self.idle.add(here)

    def _add_starting(self, here: Here, kind: Type) -> None:
        """On, and the batch system does not see it. A job there keeps it, whatever the wait."""
        machine, server = here.machine, self.servers[here.server]
        if machine.busy or self.now - machine.since <= self.plan.waits.start_s:
            if server.is_reachable:
                self.supply[kind.name].coming[machine.name] = kind.slots - machine.busy
            return
        why = f"{machine.name} is on for {self.now - machine.since:.0f} s, and the batch system does not see it"
        self.notes.append(why)
        if server.is_reachable:
            self.stop(here, "", why)

    # -- what several steps do --------------------------------------------------------------------------------------

    def stop(self, here: Here, job: str, why: str) -> None:
        """At once if it is closed; if it is open it is closed first, and stopped when that is seen."""
        machine = here.machine
        self.withdraw(machine)
        if machine.is_open:
            self.give(Close(machine.name), job, why)
        else:
            self.give(Stop(machine.name, here.server), job, why)
            self._leave(here, self.types[machine.type])

    def withdraw(self, machine: Machine) -> None:
        """It is not offered to jobs of this iteration."""
        self.idle.pop(machine.name)
        self.supply[machine.type].open.pop(machine.name)
        self.supply[machine.type].closed.pop(machine.name)

    def _leave(self, here: Here, kind: Type) -> None:
        self.coming[here.server] = self.coming[here.server].more(kind.need)
        self.versions[here.server] += 1
        self.has_freed = True
