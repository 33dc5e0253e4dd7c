"""What takes time at a server: to start, clone, stop and delete machines. It goes on after the order was answered.

Inputs are machines that the guard has let through; what is under way is in Works meanwhile, and its outcome
afterwards. Each start is judged again in libvirt's thread, by all that is on there at that instant. Invariants: a
work ends in Works whatever libvirt does; no start takes more than the server has.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from subord.services.machines import guarding
from subord.services.machines.model import Doing, Machine
from subord.services.machines.plan import Type
from subord.services.machines.power.interface import Power
from subord.services.machines.power.records import Done, Found, Hardware, MayStart, Outcome
from subord.services.machines.serving.adapter import Part, machine_of, ours, server_of
from subord.services.machines.serving.kept import Kept, KeptError
from subord.services.machines.serving.works import Works

logger = logging.getLogger("subord")
STOP_PART: Final = 2 / 3
"""Of stop_s: then the guest is destroyed, so that the machine is off before the queue's node waits no longer."""
BUG: Final = "a fault of subord, which the log of the agent has; what was done before stays"


class Doer:
    """`part`: of this moment. `changed`: is called after each step."""

    def __init__(
        self, power: Power, works: Works, kept: Kept, part: Callable[[], Part], changed: Callable[[], None]
    ) -> None:
        self._power = power
        self._works = works
        self._kept = kept
        self._part = part
        self._changed = changed

    def start(self, machine: Machine) -> None:
        self._begin(machine, Doing.STARTING, self._started)

    def clone(self, machine: Machine, kind: Type) -> None:
        """And start it."""

        async def cloned(name: str) -> Outcome:
            found = await self._power.clone(kind.template, kind.name, name)
            if not isinstance(found, Done):
                return found
            self._works.become(name, Doing.STARTING)
            self._changed()
            return await self._started(name)

        self._begin(machine, Doing.CLONING, cloned)

    def stop(self, machine: Machine) -> None:
        within_s = STOP_PART * self._part().plan.waits.stop_s
        self._begin(machine, Doing.STOPPING, lambda name: self._power.stop(name, within_s))

    def delete(self, machine: Machine) -> None:
        self._begin(machine, Doing.DELETING, self._power.delete)

    def _begin(self, machine: Machine, doing: Doing, work: Callable[[str], Awaitable[Outcome]]) -> None:
        """As long as the process lives, whatever becomes of the order and of the daemon."""
        self._works.begin(machine, doing)
        self._changed()
        trio.lowlevel.spawn_system_task(self._run, machine.name, doing, work, name=f"{doing} {machine.name}")

    async def _run(self, name: str, doing: Doing, work: Callable[[str], Awaitable[Outcome]]) -> None:
        fault = BUG
        try:
            found = await work(name)
            fault = "" if isinstance(found, Done) else found.reason
        except Exception:
            logger.exception("machines: %s %s failed", doing, name)
        if fault:
            logger.warning("machines: %s: %s", name, fault)
        else:
            logger.info("machines: %s: %s is done", name, doing)
        self._works.end(name, fault)
        self._changed()

    async def _started(self, name: str) -> Outcome:
        return await self._power.start(name, self._judge(name))

    def _judge(self, name: str) -> MayStart:
        """In libvirt's thread, while no other machine starts."""

        def may_start(hardware: Hardware, machines: tuple[Found, ...], found: Found) -> str:
            part, works = self._part(), self._works.under_way
            works.pop(name, None)
            try:
                is_drained = self._kept.is_drained()
            except KeptError as error:
                return str(error)
            server = server_of(hardware, machines, part, works, is_drained=is_drained)
            return guarding.may_start(server, ours(machine_of(found, part), part.plan))

        return may_start
