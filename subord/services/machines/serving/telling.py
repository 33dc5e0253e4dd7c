"""What the agent of a server tells: the queue's node in answers, and its daemon in states.

Inputs are what is there (host.py) and events of libvirt; outputs are bounded. After an event, and at least each
LOOK_S, all machines are listed; the daemon is told what differs from what it was told before. Invariants: what has no
room is left out from the end, machines that are not ours and off first; a daemon is told at most each PAUSE_S.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import trio

from subord.runtime.machines import state
from subord.runtime.machines.state import Amount, MachineState, Pool, ServerState
from subord.runtime.machines.talk import encode_server
from subord.services.acting import Talk
from subord.services.machines import task
from subord.services.machines.model import Machine, State, used_by
from subord.services.machines.orders import Fence
from subord.services.machines.serving.host import Host, View
from subord.services.machines.task import RESULT_BYTES_MAX, Answer, There, encode

LOOK_S: Final = 60.0
PAUSE_S: Final = 0.5
MOVING: Final = "moving"


class Telling:
    """Of one server, to each daemon that is connected."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._watching = trio.Lock()
        self._last: ServerState | None = None

    async def watch(self) -> None:
        """Hear events of libvirt until it is cancelled. Of several calls one hears them at a time."""
        async with self._watching, trio.open_nursery() as nursery:
            nursery.start_soon(self._host.power.watch)
            async for _ in self._host.power.events:
                self._host.note()

    async def tell(self, talk: Talk) -> None:
        """Tell a daemon what is there, until it is cancelled."""
        told: ServerState | None = None
        while True:
            changed, found = self._host.changed, await self.state()
            if told is None or found != msgspec.structs.replace(told, at=found.at) or found.at - told.at >= LOOK_S:
                await talk.send(encode_server(found))
                told = found
            await trio.sleep(PAUSE_S)
            with trio.move_on_after(LOOK_S):
                await changed.wait()

    async def state(self) -> ServerState:
        """What is there. While libvirt does not answer, what was there at last."""
        view, heard = await self._host.look()
        totals = self._host.totals
        last = self._last or ServerState(name=self._host.name, uri=self._host.config.uri)
        told = msgspec.structs.replace(
            last,
            version=heard.version,
            life=heard.life,
            obeyed=totals.obeyed,
            refused=totals.refused,
            refusal=totals.refusal,
            fault="",
        )
        if isinstance(view, str):
            return msgspec.structs.replace(told, fault=view)
        self._last = msgspec.structs.replace(told, **_there_now(self._host, view))
        return self._last


def _there_now(host: Host, view: View) -> dict[str, Any]:
    """Fields of a state."""
    server, faults = view.server, host.works.faults
    here = {each.name for each in server.machines}
    machines = [_state_of(each, faults.get(each.name, "")) for each in in_order(server.machines)]
    lost = [MachineState(name=name, fault=fault) for name, fault in faults.items() if name not in here]
    machines.sort(key=lambda each: not each.fault)
    return {
        "at": time.time(),
        "have": Amount(*server.capacity),
        "used": Amount(*used_by(server.machines)),
        "mhz": server.mhz,
        "is_drained": server.is_drained,
        "pools": tuple(
            Pool(name=each.name, capacity=each.capacity, free=each.free, is_active=each.is_active)
            for each in view.hardware.pools
        ),
        "machines": (*machines, *lost),
    }


def answer_of(host: Host, view: View | str, fence: Fence) -> bytes:
    """To the queue's node."""
    found = Answer(host.name, 0, 0, 0, 0, 0, *fence, time.time())
    if isinstance(view, str):
        return encode(msgspec.structs.replace(found, fault=view[: task.TEXT_CHARS_MAX]))
    server = view.server
    machines = [_there(each) for each in in_order(server.machines)]
    faults = [(name, fault[: task.FAULT_CHARS_MAX]) for name, fault in reversed(host.works.faults.items())]
    pools = [(each.name[: task.NAME_CHARS_MAX], each.free) for each in view.hardware.pools if each.is_active]
    whole = Answer(
        host.name,
        *server.capacity,
        server.mhz,
        *fence,
        time.time(),
        server.is_drained,
        "",
        tuple(machines[: task.MACHINES_MAX]),
        tuple(faults[: task.FAULTS_MAX]),
        tuple(pools[: task.POOLS_MAX]),
    )
    return _fitted(whole, len(machines))


def in_order(machines: Iterable[Machine]) -> list[Machine]:
    """Those that count, then ours, then others: which are left out first."""
    return sorted(machines, key=lambda each: (not each.is_counted, not each.type, each.name))


def _fitted(answer: Answer, number: int) -> bytes:
    """A server with more machines than an answer has room for is not used: it could be taken for empty."""
    data = encode(answer)
    if len(data) <= RESULT_BYTES_MAX and number <= task.MACHINES_MAX:
        return data
    fault = (
        f"this server has {number} machines, which an answer has no room for; nothing is started there: undefine "
        "those that are not needed"
    )
    return encode(msgspec.structs.replace(answer, machines=(), faults=(), pools=(), fault=fault))


def _there(machine: Machine) -> There:
    return There(
        machine.name[: task.NAME_CHARS_MAX],
        machine.state,
        *machine.need,
        machine.type[: task.NAME_CHARS_MAX],
        machine.since,
        machine.doing,
        machine.given_to[: task.NAME_CHARS_MAX],
        machine.came_from[: task.NAME_CHARS_MAX],
    )


def _state_of(machine: Machine, fault: str) -> MachineState:
    peer = machine.given_to or machine.came_from
    return MachineState(
        name=machine.name,
        type=machine.type,
        state=machine.state.value if machine.state != State.UNKNOWN else state.STATES[-1],
        doing=machine.doing.value if machine.doing is not None else MOVING if peer else "",
        peer=peer,
        cores=machine.need.cores,
        memory=machine.need.memory,
        disk=machine.need.disk,
        since=machine.since,
        fault=fault,
    )
