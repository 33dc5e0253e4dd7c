"""The part of a server: answers questions of the queue's node, and obeys its orders, if it may.

Inputs are questions and orders whose signature and plan were accepted (agent.py); outputs are answers and results.
One question or set of orders at a time: an answer has everything that was accepted before it. Invariants: a fence
is on the disk before a question of it is answered, and an order before it is obeyed; what is under way counts;
nothing is raised for what libvirt does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import trio

from subord.config.schema import MachinesConfig
from subord.services.machines import guarding
from subord.services.machines.model import Doing, Machine, Server
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
from subord.services.machines.plan import Plan
from subord.services.machines.power.interface import Power
from subord.services.machines.power.records import Found, Hardware, Stage, Unavailable
from subord.services.machines.serving import steps
from subord.services.machines.serving.adapter import Part, larger, ours, server_of, template_need
from subord.services.machines.serving.doing import Doer
from subord.services.machines.serving.kept import Kept, KeptError
from subord.services.machines.serving.steps import refused
from subord.services.machines.serving.works import Works
from subord.services.machines.task import TEXT_CHARS_MAX, Do, Done, Results, order_of

logger = logging.getLogger("subord")
FOLDER: Final = "machines"
LOOK_S: Final = 4.0
"""Of a question. libvirt lists a hundred machines in a tenth of a second."""
LATE: Final = "libvirt at {uri} has not answered for {s:g} s; no machine was changed: look at libvirtd there"


class View(NamedTuple):
    """What libvirt has said, what was under way before, and the server as the guard has it."""

    hardware: Hardware
    found: tuple[Found, ...]
    works: Mapping[str, Machine]
    server: Server


class Totals(NamedTuple):
    """Of orders, since the agent has started. `refusal`: why the last one was not obeyed."""

    obeyed: int = 0
    refused: int = 0
    refusal: str = ""


class Host:
    """`name`: the address of the node. `directory`: of the agent."""

    def __init__(self, name: str, config: MachinesConfig, directory: str, power: Power) -> None:
        self.config = config
        self.power = power
        self.works = Works()
        self.totals = Totals()
        self.changed = trio.Event()
        """Set at the next change of what is told."""
        self._kept = Kept(directory, FOLDER)
        self._part = Part(name, config, Plan(manager=0))
        self._doer = Doer(power, self.works, self._kept, lambda: self._part, self.note)
        self._turn = trio.Lock()

    @property
    def name(self) -> str:
        return self._part.name

    def follow(self, plan: Plan) -> None:
        """By this plan from now on."""
        if plan != self._part.plan:
            self._part = self._part._replace(plan=plan)
            self.note()

    def note(self) -> None:
        """Something has changed."""
        before, self.changed = self.changed, trio.Event()
        before.set()

    async def ask(self, fence: Fence) -> tuple[View | str, Fence]:
        """What is there, and the fence that is obeyed; the text: why it is not known."""
        heard = Fence(0, 0)
        with trio.move_on_after(LOOK_S):
            async with self._turn:
                try:
                    heard = await trio.to_thread.run_sync(self._hear, fence)
                except KeptError as error:
                    return str(error), heard
                view = await self._view()
                if not isinstance(view, str):
                    self._complete(view)
                return view, heard
        return LATE.format(uri=self.config.uri, s=LOOK_S), heard

    async def look(self) -> tuple[View | str, Fence]:
        """The same, without a question."""
        try:
            heard = (await trio.to_thread.run_sync(self._kept.heard)).fence
        except KeptError as error:
            return str(error), Fence(0, 0)
        return await self._view(), heard

    async def drain(self, *, is_drained: bool) -> Results:
        """No machine starts here from now on, or may again."""
        async with self._turn:
            try:
                is_changed = await trio.to_thread.run_sync(self._kept.drain, is_drained)
            except KeptError as error:
                return Results(str(error)[:TEXT_CHARS_MAX])
        logger.info("machines: this server is %s", "drained" if is_drained else "drained no more")
        self.note()
        return Results(is_changed=is_changed)

    async def do(self, task: Do) -> Results:
        """Obey orders, each for itself."""
        fence = Fence(task.version, task.life)
        orders = [order_of(each, fence, self.name) for each in task.orders]
        async with self._turn:
            view = await self._view()
            if isinstance(view, str):
                return self._counted(Results(view[:TEXT_CHARS_MAX]), len(orders))
            try:
                hindrances = await trio.to_thread.run_sync(self._accept, orders)
            except KeptError as error:
                return self._counted(Results(str(error)[:TEXT_CHARS_MAX]), len(orders))
            results = []
            for order, hindrance in zip(orders, hindrances, strict=True):
                done = Done(hindrance[:TEXT_CHARS_MAX])
                if not hindrance:
                    done, view = await self._obeyed(order.action, view)
                results.append(done)
        self.note()
        return self._counted(Results(results=tuple(results)), len(orders))

    # -- orders ---------------------------------------------------------------------------------------------------

    def _hear(self, fence: Fence) -> Fence:
        """Blocks. Raises KeptError."""
        self._kept.hear(fence)
        return self._kept.heard().fence

    def _accept(self, orders: list[Order]) -> list[str]:
        """Why orders are not obeyed at all; those with "" are on the disk now. Blocks. Raises KeptError."""
        heard, now = self._kept.heard(), time.time()
        hindrances, accepted = list[str](), list[Order]()
        for order in orders:
            hindrances.append(guarding.may_obey(order, heard, now))
            if not hindrances[-1]:
                heard = guarding.obeyed(order, heard)
                accepted.append(order)
        if accepted:
            self._kept.obey(accepted, now)
        return hindrances

    async def _obeyed(self, action: Action | Step, view: View) -> tuple[Done, View]:
        """What came of an order, and what is there then."""
        server, plan = self._server(view.hardware, view.found, view.works), self._part.plan
        match action:
            case Start(source=source) if source:
                done = await steps.leave(self.power, server, plan, action)
            case Arrive():
                done = await steps.arrive(self.power, server, plan, action)
            case Forget():
                done = await steps.forget(self.power, server, action)
            case Stay():
                done = await steps.stay(self.power, action)
            case Settle():
                done = await steps.settle(self.power, action)
            case _:
                return self._begun(action, server), view
        self.works.note(action.machine, done.fault)
        after, starts = await self._view(), isinstance(action, Settle) and not done.fault
        if isinstance(after, str):
            return Done(after[:TEXT_CHARS_MAX]) if starts else done, view
        return self._begun(Start(action.machine, self.name), after.server) if starts else done, after

    def _begun(self, action: Action | Step, server: Server) -> Done:
        """Of an order that takes longer than its answer: whether it is under way."""
        if isinstance(action, Clone):
            return self._clone(action, server)
        there = next((each for each in server.machines if each.name == action.machine), None)
        if there is None:
            return self._absent(action)
        there = ours(there, self._part.plan)
        match action:
            case Start():
                reason, begin = guarding.may_start(server, there), self._doer.start
            case Stop():
                reason, begin = guarding.may_stop(there), self._doer.stop
            case Delete():
                reason, begin = guarding.may_delete(there), self._doer.delete
            case _:
                return refused(f"{action.machine}: this is no order for a server; nothing was done")
        if reason:
            return refused(reason)
        begin(there)
        return Done()

    def _absent(self, action: Action | Step) -> Done:
        """Of a machine that is not here."""
        if isinstance(action, Stop | Delete):
            return Done()
        return refused(f"there is no machine {action.machine} on the server {self.name}; nothing was started")

    def _clone(self, action: Clone, server: Server) -> Done:
        plan = self._part.plan
        kind = plan.by_name().get(action.type)
        if kind is None:
            return refused(f"the plan of this server has no type {action.type}; nothing was cloned")
        need = larger(kind.need, template_need(kind.template, server))
        machine = Machine(action.machine, need, type=kind.name, always_on=action.machine in plan.always_on)
        if (work := self.works.under_way.get(action.machine)) is not None:  # libvirt may have forgotten it already
            return refused(f"{action.machine} is just {work.doing}; nothing was cloned")
        if reason := guarding.may_clone(server, machine, 0, 0):  # libvirt says how much room the pools have
            return refused(reason)
        self._doer.clone(machine, kind)
        return Done()

    def _counted(self, results: Results, number: int) -> Results:
        faults = [each.fault for each in results.results if each.fault]
        refused_ = number if results.fault else len(faults)
        before, last = self.totals, results.fault or (faults[-1] if faults else "")
        self.totals = Totals(before.obeyed + number - refused_, before.refused + refused_, last or before.refusal)
        return results

    # -- what is there --------------------------------------------------------------------------------------------

    async def _view(self) -> View | str:
        """What is under way is looked at first: what ends while libvirt is asked may be missing in its answer."""
        works = self.works.under_way
        hardware = await self.power.capacity()
        if isinstance(hardware, Unavailable):
            return hardware.reason
        found = await self.power.machines()
        if isinstance(found, Unavailable):
            return found.reason
        self.works.keep({each.name for each in found} | works.keys())
        try:
            return View(hardware, found, works, self._server(hardware, found, works))
        except KeptError as error:
            return str(error)

    def _server(self, hardware: Hardware, found: tuple[Found, ...], works: Mapping[str, Machine]) -> Server:
        """`works`: before libvirt was asked; what has begun since counts, too."""
        return server_of(
            hardware,
            found,
            self._part,
            {**works, **self.works.under_way},
            is_drained=self._kept.is_drained(),
            since=self.works.since,
        )

    def _complete(self, view: View) -> None:
        """Clones and deletions that were interrupted, as by the death of an agent, are deleted. Only in turn: a clone
        that has just begun is no such one."""
        if self._part.plan.is_off or self._part.plan.is_trial:
            return
        for each in view.found:
            is_left = each.is_ours and each.stage in (Stage.CLONING, Stage.DELETING)
            if is_left and each.name not in self.works.under_way:
                there = next(one for one in view.server.machines if one.name == each.name)
                if there.doing is Doing.DELETING and not there.always_on:
                    self._doer.delete(there._replace(doing=None))
