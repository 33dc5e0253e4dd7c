"""Power by libvirt: the functions of this package, in threads with time limits, and their errors as values.

Of one server, changes of one machine are one after the other, and so are all starts, and all clones. What is called
too late is Unavailable, and keeps its place until libvirt has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar
from xml.etree.ElementTree import ParseError

import trio

from subord.services.machines.power import binding, faults, reading
from subord.services.machines.power.calls import Calls, Hold, LateError
from subord.services.machines.power.changes import cloning, deleting, moves, starting
from subord.services.machines.power.changes.common import RefusedError, Server
from subord.services.machines.power.events import EVENTS_MAX, Events
from subord.services.machines.power.link import Link, UnopenedError, trouble_of
from subord.services.machines.power.records import (
    Definition,
    Done,
    Event,
    EventKind,
    Fault,
    Found,
    Hardware,
    MayStart,
    Outcome,
    Refused,
    State,
    Unavailable,
)

T = TypeVar("T")
STARTS: Final = "/starts"
CLONES: Final = "/clones"
"""No names of machines."""
ASK_AGAIN_S: Final = 10.0
"""A guest that is still booting may have missed the first request to shut down."""
LOOK_S: Final = 0.25


class Limits(NamedTuple):
    """In seconds."""

    read: float = 15.0
    change: float = 60.0
    clone: float = 3600.0
    """Copies images, for at most so long as a plan may wait for it."""
    again: float = 1.0
    """Before another connection is tried; doubles up to `again_most`."""
    again_most: float = 30.0


class LibvirtPower:
    """To be made where trio runs."""

    def __init__(
        self, uri: str, *, cluster: str, server: str, limits: Limits | None = None, events_max: int = EVENTS_MAX
    ) -> None:
        self.server = server
        self._cluster = cluster
        self._limits = limits or Limits()
        self._calls = Calls()
        self._events = Events(events_max)
        self.events = self._events.received
        self._token = trio.lowlevel.current_trio_token()
        self._lost = trio.Event()
        self._link = Link(uri, self._heard)

    async def watch(self) -> None:
        wait = self._limits.again
        while True:
            self._lost = trio.Event()
            if isinstance(await self.capacity(), Unavailable):
                await trio.sleep(wait)
                wait = min(2 * wait, self._limits.again_most)
                continue
            wait = self._limits.again
            await self._lost.wait()

    def close(self) -> None:
        """May wait for libvirt."""
        self._link.close()

    async def machines(self) -> tuple[Found, ...] | Unavailable:
        return _read(await self._run("listing machines", lambda at: at.machines(), self._limits.read))

    async def capacity(self) -> Hardware | Unavailable:
        doing = "asking for the capacity"
        return _read(await self._run(doing, lambda at: reading.hardware(at.connection), self._limits.read))

    async def start(self, name: str, may_start: MayStart) -> Outcome:
        return await self._change(
            f"starting {name}", (STARTS, name), lambda at: starting.start(at, name, may_start), self._limits.change
        )

    async def stop(self, name: str, within: float) -> Outcome:
        doing = f"stopping {name}"
        try:
            async with self._calls.holding((name,), self._limits.change) as hold:
                return await self._stop(name, within, doing, hold)
        except LateError:
            return faults.waiting(doing, self._limits.change)

    async def clone(self, template: str, type: str, name: str = "", taken: Collection[str] = ()) -> Outcome:  # noqa: A002
        doing = f"cloning {template}"
        wanted = cloning.Wanted(template, type, name, frozenset(taken))
        try:
            async with self._calls.holding((CLONES,), self._limits.clone) as hold:
                chosen = await self._run(doing, lambda at: cloning.name_of(at, wanted), self._limits.read, hold)
                if not isinstance(chosen, str):
                    return chosen
                named = wanted._replace(name=chosen)
                async with self._calls.holding((chosen,), self._limits.change) as second:
                    holds = (hold, second)
                    return await self._run(doing, lambda at: cloning.clone(at, named), self._limits.clone, *holds)
        except LateError:
            return faults.waiting(doing, self._limits.change)

    async def delete(self, name: str) -> Outcome:
        return await self._change(
            f"deleting {name}", (name,), lambda at: deleting.delete(at, name), self._limits.change
        )

    async def leave(self, name: str, to: str) -> Definition | Refused | Unavailable | None:
        return await self._change(
            f"moving {name} to {to}", (name,), lambda at: moves.leave(at, name, to), self._limits.change
        )

    async def stay(self, name: str, to: str) -> Outcome:
        return await self._change(
            f"keeping {name}", (name,), lambda at: moves.stay(at, name, to), self._limits.change
        )

    async def arrive(self, definition: Definition, came_from: str, template: str = "") -> Outcome:
        name = definition.name
        return await self._change(
            f"defining {name}",
            (name,),
            lambda at: moves.arrive(at, definition, came_from, template),
            self._limits.change,
        )

    async def forget(self, name: str, peer: str) -> Outcome:
        return await self._change(
            f"undefining {name}", (name,), lambda at: moves.forget(at, name, peer), self._limits.change
        )

    async def settle(self, name: str, came_from: str) -> Outcome:
        return await self._change(
            f"settling {name}", (name,), lambda at: moves.settle(at, name, came_from), self._limits.change
        )

    async def _stop(self, name: str, within: float, doing: str, hold: Hold) -> Outcome:
        """Each request and each look is a call of its own, so that none of them lasts as long as the guest."""
        limit = self._limits.change
        deadline = trio.current_time() + within
        asked_at: float | None = None
        while True:
            state = await self._run(doing, lambda at: starting.state_to_stop(at, name), limit, hold)
            if not isinstance(state, State):
                return state
            if state == State.OFF:
                return Done(is_changed=asked_at is not None, machine=name)
            now = trio.current_time()
            if now >= deadline:
                return await self._destroy(name, doing, hold)
            if asked_at is None or now >= asked_at + ASK_AGAIN_S:
                asked_at = now
                # One that cannot be asked is destroyed when its time is over.
                asked = await self._run(doing, lambda at: starting.shut_down(at, name), limit, hold)
                if isinstance(asked, Unavailable) and asked.fault != Fault.FAILED:
                    return asked
            await trio.sleep(min(LOOK_S, max(0.0, deadline - now)))

    async def _destroy(self, name: str, doing: str, hold: Hold) -> Outcome:
        def destroy(at: Server) -> State:
            starting.destroy(at, name)
            return starting.state_to_stop(at, name)

        state = await self._run(doing, destroy, self._limits.change, hold)
        if not isinstance(state, State):
            return state
        if state == State.OFF:
            return Done(is_changed=True, machine=name)
        return Unavailable(Fault.FAILED, f"{doing}: libvirt destroyed it, and it is still {state}; {faults.AGAIN}")

    async def _change(
        self, doing: str, keys: Collection[str], work: Callable[[Server], T], within: float
    ) -> T | Refused | Unavailable:
        try:
            async with self._calls.holding(keys, within) as hold:
                return await self._run(doing, work, within, hold)
        except LateError:
            return faults.waiting(doing, within)

    async def _run(
        self, doing: str, work: Callable[[Server], T], within: float, *holds: Hold
    ) -> T | Refused | Unavailable:
        def in_thread() -> T | Refused | Unavailable:
            try:
                return work(Server(self._link.connection(), self._cluster))
            except RefusedError as error:
                return error.refused
            except binding.errors() as error:
                return faults.failed(doing, trouble_of(error), self._link.is_alive())

        try:
            return await self._calls.run(in_thread, within, holds, ready=self._link.connection)
        except (ParseError, ValueError) as error:
            return Unavailable(Fault.FAILED, f"{doing}: a definition of libvirt is not understood: {error}")
        except UnopenedError as error:
            return error.reason
        except LateError as error:
            return faults.slow(doing, within) if error.is_running else faults.waiting(doing, within)

    def _heard(self, event: Event) -> None:
        """In libvirt's thread, or one of ours."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._put, event)

    def _put(self, event: Event) -> None:
        if event.kind == EventKind.LOST:
            self._lost.set()
        self._events.put(event)


def _read(answer: T | Refused | Unavailable) -> T | Unavailable:
    """What this libvirt can never tell is Unavailable, too."""
    return Unavailable(Fault.FAILED, answer.reason) if isinstance(answer, Refused) else answer
