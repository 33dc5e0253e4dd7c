"""The loop of the queue's node: asks servers, reads the batch system, decides, and has it done.

Inputs are a plan, servers (servers.py) and the batch system; outputs are orders, commands of the batch system, and a
State for the daemon after each round. Invariants: a question without an answer, or a fault of ours, ends nothing: the
next round asks again; nothing is done after its time is over; a clone is a host of the batch system before it starts;
under a plan for trial nothing is changed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from subord.runtime.machines.state import MANAGES, State, Totals
from subord.services.batch.records import Unavailable
from subord.services.machines.fencing import Process
from subord.services.machines.managing import deeds, telling
from subord.services.machines.managing.batching import CUT, LATE, BatchSide, Reading
from subord.services.machines.managing.clock import steady
from subord.services.machines.managing.deeds import Deeds
from subord.services.machines.managing.joining import Joined
from subord.services.machines.managing.lives import Life
from subord.services.machines.managing.rounds import Batch, Rounds
from subord.services.machines.orders import Clone, Close, Delete, Fence, Open, Order, Start, server_of
from subord.services.machines.plan import Plan
from subord.services.machines.servers import Answer, Servers

logger = logging.getLogger("subord")
TELL_S: Final = 1.0
PAUSE_S_MIN: Final = 0.5
QUEUES_S: Final = 300.0
"""Between two looks for queues that are not there."""
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Site(NamedTuple):
    """What the manager acts on. `batch`: machines.batch, for telling. `queues`: asks which queues the batch system
    has; None: that is not asked."""

    servers: Servers
    side: BatchSide
    batch: str = ""
    queues: Callable[[], Awaitable[tuple[str, ...] | Unavailable]] | None = None


class Manager:
    """`plan`: one that is not off. `version`: of its document. `tell`: gets a State after each round, at most one in
    TELL_S. What `tell` raises ends the manager. `now`: seconds since 1970 that go on evenly."""

    def __init__(
        self,
        site: Site,
        plan: Plan,
        tell: Callable[[State], Awaitable[None]],
        *,
        version: int,
        life: Life,
        now: Callable[[], float] | None = None,
        in_thread: InThread = trio.to_thread.run_sync,
    ) -> None:
        self._site = site
        self._plan = plan
        self._types = plan.by_name()
        self._tell = tell
        self._now = now or steady()
        self._in_thread = in_thread
        begun = self._now()
        process = Process(Fence(version, life.life), begun, begun, begun, is_alone=life.is_alone)
        self.rounds = Rounds(plan, process)
        self._turn = trio.Lock()
        """Of the rounds, which decide in a thread."""
        self._deeds = Deeds()
        self._joined = Joined(Batch())
        self._is_read = False
        """Whether the batch system has answered once."""
        self._missing: Mapping[str, str] = {}
        self._machine_faults = dict[str, str]()
        self._state = State(word=MANAGES, version=version, is_trial=plan.is_trial, batch=site.batch, life=life.life)
        self._is_dirty = trio.Event()
        self._fault = self._hindrance = ""
        self._logged = ""
        self._number = 0
        self._queues: tuple[str, ...] | None = None
        self._queues_at: float | None = None
        self._next_at = 0.0
        self._ask_s = self._decide_s = self._order_s = 0.0
        self._kinds = dict[str, str]()
        """Types of machines that are cloned or start, by machine."""

    async def run(self) -> None:
        """Until it is cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_changes)
            while True:
                self._next_at = self._now() + self._plan.period_s
                await self._round_once(nursery)
                pause_s = min(self._next_at - self._now(), float(self._plan.period_s))
                await trio.sleep(max(PAUSE_S_MIN, pause_s))

    # -- rounds -----------------------------------------------------------------------------------------------------

    async def _round_once(self, nursery: trio.Nursery) -> None:
        self._number += 1
        try:
            fault = await self._round(nursery)
        except Exception as error:  # a fault of ours; the next round may do
            logger.exception("machines: a round failed")
            fault = f"this release has failed ({type(error).__name__}): the log of the agent has the details"
        self._fault = fault
        self._log(fault or self._hindrance)
        self._note()

    async def _round(self, nursery: trio.Nursery) -> str:
        """A fault; "": there was none."""
        began = self._now()
        async with self._turn:
            self.rounds.awake(began)
            fence = self.rounds.asked(began)
        found: Reading | str = ""

        async def read() -> None:
            nonlocal found
            found = await self._site.side.read()

        async with trio.open_nursery() as both:
            both.start_soon(read)
            answers, self._missing = await self._site.servers.ask(fence)
        self._ask_s = self._now() - began
        await self._look_for_queues()
        async with self._turn:
            self._hear(answers, began)
            if isinstance(found, str):
                return f"{found}; nothing was decided: the next round asks again"
            self._joined, self._is_read = self._site.side.join(found, self._names()), True
            return await self._decide(nursery)

    async def _look_for_queues(self) -> None:
        """For a word about those of the plan that are not there."""
        now, ask = self._now(), self._site.queues
        if ask is None or (self._queues_at is not None and now - self._queues_at < QUEUES_S):
            return
        found = await ask()
        self._queues, self._queues_at = (None if isinstance(found, Unavailable) else found), now

    def _hear(self, answers: Mapping[str, Answer], asked_at: float) -> None:
        now = self._now()
        for answer in answers.values():
            self.rounds.hear(answer, asked_at, now)
        self._machine_faults = {
            machine: fault for answer in answers.values() for machine, fault in answer.faults.items()
        }

    async def _decide(self, nursery: trio.Nursery) -> str:
        now = self._now()
        self.rounds.awake(now)
        self._hindrance = "" if self._plan.is_trial else self.rounds.hindrance(now)
        if self._hindrance:
            return ""
        orders = await self._in_thread(lambda: self.rounds.decide(self._joined.batch, now))
        decided_at = self._now()
        self._decide_s = decided_at - now
        given = self.rounds.last.given
        if self._plan.is_trial:
            self._deeds.tried(given, now)
            return ""
        self._deeds.waited(self.rounds.waited.pending, self.rounds.waited.lost)
        self._deeds.given(given, now)
        for each in given:
            logger.info("machines: %s %s: %s", deeds.kind_of(each.action), each.action.machine, each.why)
        self._give(orders, nursery)
        return ""

    def _names(self) -> set[str]:
        """Machines that are known, or may be there soon."""
        names = {machine.name for each in self.rounds.known.values() for machine in each.server.machines}
        return names | self._kinds.keys()

    # -- giving -----------------------------------------------------------------------------------------------------

    def _give(self, orders: tuple[Order, ...], nursery: trio.Nursery) -> None:
        """To each server its own, and to the batch system, all at once."""
        by_server = dict[str, list[Order]]()
        self._kinds = self._kinds_of(orders)
        for order in orders:
            if server := server_of(order.action):
                by_server.setdefault(server, []).append(order)
            else:
                nursery.start_soon(self._safely, partial(self._command, order, self._expires()))
        for server, some in by_server.items():
            self._send(server, some, self._expires(), nursery)

    def _send(self, server: str, orders: list[Order], until: float, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._safely, partial(self._deliver, server, orders, until, nursery))

    async def _safely(self, work: Callable[[], Awaitable[None]]) -> None:
        """A fault of ours holds up nothing else."""
        try:
            await work()
        except Exception:
            logger.exception("machines: an order has failed")

    def _expires(self) -> float:
        """By the clock of this process, of an order that is given now."""
        return self._now() + self._plan.waits.order_s

    async def _command(self, order: Order, until: float) -> None:
        """Open or Close, by the batch system."""
        action, side = order.action, self._site.side
        assert isinstance(action, Open | Close)
        change = side.open if isinstance(action, Open) else side.close
        fault = await change(action.machine, lambda: until - self._now())
        if fault:
            await self._not_given(order, fault, until)

    async def _deliver(self, server: str, orders: list[Order], until: float, nursery: trio.Nursery) -> None:
        """To one server. What the batch system has to do something for before holds up nothing else."""
        later = [each for each in orders if self._needs_batch(each)]
        if later and len(later) < len(orders):
            self._send(server, later, until, nursery)
            ready = [each for each in orders if each not in later]
        else:
            ready = await self._prepared(later, until) if later else orders
        if not ready:
            return
        began = self._now()
        if began > until:
            for order in ready:
                await self._not_given(order, LATE, until)
            return
        results = await self._site.servers.do(server, tuple(ready))
        self._order_s = self._now() - began
        if isinstance(results, str):
            logger.warning("machines: %s: %s", server, results)
            return
        async with self._turn:
            for order, result in zip(ready, results, strict=True):
                if result.fault:
                    self._refuse(order, result.fault)
                if (step := self.rounds.follow(order, result, self._now())) is not None:
                    self._send(server_of(step.action), [step], self._expires(), nursery)

    def _needs_batch(self, order: Order) -> bool:
        """A machine that starts is a host of the batch system before, and one that is deleted is none any more."""
        is_host = order.action.machine in self._site.side.registered
        return (
            is_host if isinstance(order.action, Delete) else not is_host and isinstance(order.action, Start | Clone)
        )

    async def _prepared(self, orders: list[Order], until: float) -> list[Order]:
        """Those for which the batch system has done what it has to."""
        ready = list[Order]()

        async def prepare(order: Order) -> None:
            side, name = self._site.side, order.action.machine
            if isinstance(order.action, Delete):
                fault = await side.remove(name)
            else:
                kind = self._types.get(self._kinds.get(name, ""))
                fault = "" if kind is None else await side.add(name, kind)
            if fault:
                await self._not_given(order, fault, until)
            else:
                ready.append(order)

        async with trio.open_nursery() as nursery:
            for order in orders:
                nursery.start_soon(prepare, order)
        return sorted(ready, key=lambda each: each.number)

    def _kinds_of(self, orders: tuple[Order, ...]) -> dict[str, str]:
        starting = {each.action.machine for each in orders if isinstance(each.action, Start)}
        starting |= {each.action.machine for each in self.rounds.waited.pending}
        found = {
            machine.name: machine.type
            for each in self.rounds.known.values()
            for machine in each.server.machines
            if machine.name in starting
        }
        pending = (each.action for each in self.rounds.waited.pending)
        clones = (each for each in (*pending, *(each.action for each in orders)) if isinstance(each, Clone))
        return found | {each.machine: each.type for each in clones}

    async def _not_given(self, order: Order, fault: str, until: float) -> None:
        """What the batch system has not done may be done all the same; what was too late was not begun."""
        self._refuse(order, fault, is_late=fault == CUT or self._now() > until)
        if fault == LATE or server_of(order.action):
            async with self._turn:
                self.rounds.drop(order)

    def _refuse(self, order: Order, fault: str, *, is_late: bool = False) -> None:
        name = order.action.machine
        logger.warning("machines: %s %s: %s", type(order.action).__name__.lower(), name, fault)
        self._deeds.refused(name, fault, is_late=is_late)

    # -- telling ----------------------------------------------------------------------------------------------------

    def _log(self, text: str) -> None:
        """Once, though seconds in it change."""
        what = re.sub(r"\d+", "", text)
        if text and what != self._logged:
            logger.warning("machines: %s", text)
        self._logged = what

    def _note(self) -> None:
        self._is_dirty.set()

    async def _tell_changes(self) -> None:
        while True:
            await self._is_dirty.wait()
            self._is_dirty = trio.Event()
            async with self._turn:
                state = await self._in_thread(self.state)
            await self._tell(state)
            await trio.sleep(TELL_S)

    def state(self) -> State:
        rounds, now = self.rounds, self._now()
        servers = rounds.servers(self._joined.batch, now)
        faults = {**self._missing, **rounds.faults}
        actions = deeds.first(self._deeds.told())
        figures, totals = self._site.servers.figures, self._deeds.totals
        found = State(
            word=MANAGES,
            version=self._state.version,
            is_trial=self._plan.is_trial,
            batch=self._site.batch,
            life=self._state.life,
            round=self._number,
            at=now,
            next_at=self._next_at,
            hindrance=self._hindrance,
            fault=self._fault,
            is_unread=not self._is_read,
            queues=self._queues,
            running=self._joined.running,
            actions=actions,
            actions_left_out=self._deeds.number - len(actions),
            pending=len(self._deeds),
            totals=Totals(
                rounds=self._number, messages=figures.messages, message_bytes=figures.bytes, **dict(totals)
            ),
            decide_s=self._decide_s,
            ask_s=self._ask_s,
            order_s=self._order_s,
        )
        found = telling.with_servers(found, servers, faults, self._plan, now)
        lacking = frozenset[str]() if rounds.seen is None else rounds.seen.lacking
        found = telling.with_decision(found, self._joined.batch.jobs, rounds.last, lacking, self._plan)
        changes = (f"{machine}: {fault}" for machine, fault in self._machine_faults.items())
        return telling.with_notes(found, changes, rounds.waited.notes, rounds.last.notes)
