"""The rounds of a process that decides: from answers of servers and the batch system to orders. Pure.

Inputs are answers, results and the time; outputs are orders, in the sequence in which they are to be given. The same
rounds run on sockets (manager.py) and over simulated servers (tests/machines). Invariants: nothing is ordered while
another process may decide (fencing.py); what was ordered is pending until its effect is seen or it cannot come any
more; an order has a higher number than all before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from subord.services.machines import fencing
from subord.services.machines.deciding import waiting
from subord.services.machines.deciding.iteration import Decision, decide
from subord.services.machines.deciding.picture import Seen
from subord.services.machines.deciding.waiting import Waited
from subord.services.machines.fencing import Process
from subord.services.machines.managing.moves import Moves
from subord.services.machines.model import Doing, Job, Machine, Server, State
from subord.services.machines.orders import Action, Clone, Fence, Open, Order, Pending, Start, Step, Stop, server_of
from subord.services.machines.plan import Plan
from subord.services.machines.servers import Answer, Result


class Host(NamedTuple):
    """What the batch system says of a machine. `busy`: slots that jobs have there."""

    is_up: bool
    is_open: bool
    busy: int = 0


class Batch(NamedTuple):
    """`jobs`: that wait, in the order of the scheduler. `hosts`: by the names of machines. `taken`: names of hosts
    that are up or busy, or of images."""

    jobs: tuple[Job, ...] = ()
    hosts: Mapping[str, Host] = {}
    taken: frozenset[str] = frozenset()


class Known(NamedTuple):
    """The last answer of a server with its machines. `ahead_s`: its clock, less that of this process, at least."""

    server: Server
    asked_at: float
    ahead_s: float = 0.0


NO_HOST: Final = Host(is_up=False, is_open=False)
UNCLONED_S: Final = 300.0
"""Where a clone has failed, as its storage is full, no other of its type is made for so long."""
UNSURE_S: Final = 600.0
"""A machine that could not be started, or did not come up, is started again within so long only if no other can."""
NOTHING: Final = Decision((), {}, ())


class Rounds:
    def __init__(self, plan: Plan, process: Process) -> None:
        self.plan = plan
        self.process = process
        self.known = dict[str, Known]()
        self.faults = dict[str, str]()
        """Why the last answer of a server had no machines."""
        self.seen: Seen | None = None
        self.last = NOTHING
        self.waited = Waited(())
        """What of earlier rounds is still waited for, and what came to nothing."""
        self.decisions = 0
        self._fences = dict[str, fencing.Answer]()
        self._pending = list[Pending]()
        self._windows = dict[str, float]()
        self._moves = Moves()
        self._number = 0
        self._numbers = dict[str, int]()
        """Of the last order for each machine with a pending action."""
        self._clones = dict[str, Clone]()
        """Clones that are under way."""
        self._uncloned = dict[tuple[str, str], float]()
        """When a server has last failed to clone a machine of a type."""
        self._unsure = dict[str, float]()
        """When machines did not start, or were stopped as they did not come up, since they were last started."""

    # -- asking -----------------------------------------------------------------------------------------------------

    def asked(self, now: float) -> Fence:
        """All servers are asked now, with this fence."""
        self.process = self.process._replace(asked_at=now)
        return self.process.fence

    def hear(self, answer: Answer, asked_at: float, now: float) -> None:
        name = answer.server.name
        before, last = self._fences.get(name), self.known.get(name)
        if last is not None and last.asked_at >= asked_at:
            return
        fence = answer.fence if before is None else max(before.fence, answer.fence)
        if answer.fault:
            self.faults[name] = answer.fault
            self._fences[name] = fencing.Answer(before.asked_at if before else float("-inf"), fence)
            return
        self.faults.pop(name, None)
        self._fences[name] = fencing.Answer(asked_at, fence)
        self.known[name] = Known(answer.server, asked_at, answer.now - now)
        for each in answer.server.machines:
            if each.name in answer.faults and each.is_still:
                self._unsure.setdefault(each.name, now)
        for machine in answer.faults:
            clone, there = self._clones.get(machine), answer.server.machines
            if clone is not None and clone.server == name and all(each.name != machine for each in there):
                self._uncloned[clone.type, name] = now

    # -- deciding ---------------------------------------------------------------------------------------------------

    def awake(self, now: float) -> None:
        """Before each use of what is known."""
        self.process = fencing.awake(self.process, now, self.plan.waits)

    def hindrance(self, now: float) -> str:
        """Why nothing is decided and ordered now; "": nothing speaks against it."""
        return fencing.hindrance(self.process, self._fences, now, self.plan.waits)

    def decide(self, batch: Batch, now: float) -> tuple[Order, ...]:
        """Only without a hindrance, or for trial."""
        seen = self._see(batch, now)
        self.seen, self._pending = seen, list(seen.pending)
        self.last = decide(self.plan, seen)
        self.decisions += 1
        if self.plan.is_trial:
            return ()
        actions = [each.action for each in self.last.given]
        types = self._types_of({each.machine for each in actions if isinstance(each, Start)})
        self._pending += (
            each._replace(type=types.get(each.action.machine, ""))
            for each in waiting.pending_of(actions, self.plan.waits, now)
        )
        self._note_unsure(actions, seen)
        for each in actions:
            if isinstance(each, Open):
                self._windows[each.machine] = each.window_ends
            elif isinstance(each, Start):  # what was opened before it was off has no end of its own any more
                self._windows.pop(each.machine, None)
        pending = {each.action.machine for each in self._pending}
        under_way = pending | (self._cloning() if self._clones else set())
        self._clones = {name: each for name, each in self._clones.items() if name in under_way}
        self._clones.update({each.machine: each for each in actions if isinstance(each, Clone)})
        self._numbers = {name: number for name, number in self._numbers.items() if name in pending}
        return tuple(self._order(each, now) for each in actions)

    def _types_of(self, names: set[str]) -> dict[str, str]:
        machines = (machine for each in self.known.values() for machine in each.server.machines)
        return {each.name: each.type for each in machines if each.name in names}

    def _note_unsure(self, actions: list[Action], seen: Seen) -> None:
        """A machine that is stopped while it is on, and is not up, did not come up."""
        stopped = {each.machine for each in actions if isinstance(each, Stop)}
        if not stopped and not self._unsure:
            return
        there = {machine.name: machine for server in seen.servers for machine in server.machines}
        self._unsure = {name: at for name, at in self._unsure.items() if name in there}
        for name in stopped:
            if there[name].state is State.ON and not there[name].is_up:
                self._unsure[name] = seen.now
        for each in actions:
            if isinstance(each, Start):
                self._unsure.pop(each.machine, None)

    def _cloning(self) -> set[str]:
        machines = (machine for each in self.known.values() for machine in each.server.machines)
        return {each.name for each in machines if each.doing is Doing.CLONING}

    def follow(self, order: Order, result: Result, now: float) -> Order | None:
        """The step of a move that follows the result of an order; None: none."""
        self.awake(now)
        if result.is_refused:
            self.drop(order)
        step = self._moves.next(order, result, now)
        if step is None or self.hindrance(now):
            return None
        self._pending = [
            each._replace(given_at=now) if each.action.machine == step.machine else each for each in self._pending
        ]
        return self._order(step, now)

    def drop(self, order: Order) -> None:
        """It is sure that nothing comes of this order, so its action is not waited for any more."""
        name = order.action.machine
        if self._numbers.get(name) == order.number:
            self._pending = [each for each in self._pending if each.action.machine != name]

    def _order(self, action: Action | Step, now: float) -> Order:
        self._number += 1
        known = self.known.get(server_of(action))
        expires = now + self.plan.waits.order_s + (known.ahead_s if known is not None else 0.0)
        order = Order(self.process.fence, self._number, expires, action)
        self._moves.ordered(order)
        self._numbers[action.machine] = order.number
        return order

    # -- seeing -----------------------------------------------------------------------------------------------------

    def servers(self, batch: Batch, now: float) -> tuple[Server, ...]:
        """With what the batch system says of their machines, and times by the clock of this process."""
        return tuple(self._joined(each, batch, now) for each in self.known.values())

    def _see(self, batch: Batch, now: float) -> Seen:
        servers = self.servers(batch, now)
        left = waiting.still(self._pending, servers, self.plan.waits, now)
        self.waited = left
        templates = self._templates(servers, now)
        return Seen(
            now,
            servers,
            batch.jobs,
            left.pending,
            lacking=frozenset(name for name, found in templates.items() if not found),
            names=batch.taken,
            templates={name: found for name, found in templates.items() if len(found) < len(servers)},
            staying=self._moves.staying(now),
            unsure=frozenset(name for name, at in self._unsure.items() if now - at <= UNSURE_S),
            refused=frozenset(self._moves.refused({each.name: each for each in servers})),
        )

    def _joined(self, known: Known, batch: Batch, now: float) -> Server:
        server = known.server
        fence = self._fences[server.name]
        is_reachable = fencing.is_fresh(fence, now, self.plan.waits) and fence.fence == self.process.fence
        return server._replace(
            asked_at=known.asked_at,
            is_reachable=is_reachable,
            machines=tuple(self._machine(each, batch.hosts, known.ahead_s) for each in server.machines),
        )

    def _machine(self, machine: Machine, hosts: Mapping[str, Host], ahead_s: float) -> Machine:
        host = hosts.get(machine.name, NO_HOST)
        return machine._replace(
            is_up=host.is_up,
            is_open=host.is_open,
            busy=host.busy,
            since=machine.since - ahead_s,
            window_ends=self._windows.get(machine.name) if host.is_open else None,
        )

    def _templates(self, servers: Iterable[Server], now: float) -> dict[str, frozenset[str]]:
        """For each type the servers with its template, and where a clone has not failed lately."""
        self._uncloned = {key: at for key, at in self._uncloned.items() if now - at <= UNCLONED_S}
        names = {each.template for each in self.plan.types}
        found = dict[str, set[str]]()
        for server in servers:
            for machine in server.machines:
                if machine.name in names:
                    found.setdefault(machine.name, set()).add(server.name)
        able = {each.name: set(found.get(each.template, ())) for each in self.plan.types}
        for kind, name in self._uncloned:
            able[kind].discard(name)
        return {name: frozenset(servers) for name, servers in able.items()}
