"""Servers that have to give machines up: those that are overbooked, whatever has done it, and those that are drained.

Inputs are rooms as they are reported; the first machines that are idle there are stopped, also if jobs wait for
them. Invariant: on an overbooked server no more machines are stopped than it takes, and none with a job.
"""

from __future__ import annotations

from collections import defaultdict

from subord.services.machines.deciding.picture import Picture
from subord.services.machines.deciding.supplies import Here
from subord.services.machines.model import Capacity, Server
from subord.services.machines.orders import Close


def empty(picture: Picture) -> None:
    running = defaultdict[str, list[Here]](list)
    for here in picture.running.values():
        running[here.server].append(here)
    for server in picture.servers.values():
        room = picture.room[server.name].plus(picture.coming[server.name])
        if not server.is_reachable:
            continue
        if server.is_drained:
            _stop_all(picture, server, running[server.name])
        elif room.is_overbooked:
            _reduce(picture, server, room, running[server.name])


def _stop_all(picture: Picture, server: Server, running: list[Here]) -> None:
    for here in running:
        _stop_or_close(picture, here, f"the server {server.name} is drained")


def _reduce(picture: Picture, server: Server, room: Capacity, running: list[Here]) -> None:
    """Idle machines first; then those with few jobs are closed, so that they become idle."""
    why = f"the server {server.name} is overbooked"
    picture.notes.append(f"{why}: {_words(room)} too much")
    for here in sorted(running, key=lambda each: (each.machine.busy, each.machine.need)):
        if not room.is_overbooked:
            return
        if _helps(room, here):
            room = room.more(here.machine.need)
            _stop_or_close(picture, here, why)


def _helps(room: Capacity, here: Here) -> bool:
    """Whether the machine has any of what the server lacks."""
    lacking = (room.cores < 0, room.memory < 0, room.disk < 0)
    return room.slots < 0 or any(is_short and part for is_short, part in zip(lacking, here.machine.need, strict=True))


def _stop_or_close(picture: Picture, here: Here, why: str) -> None:
    machine = here.machine
    if machine.name in picture.idle:
        picture.stop(here, "", why)
        return
    picture.withdraw(machine)
    if machine.is_open:
        picture.give(Close(machine.name), "", why)


def _words(room: Capacity) -> str:
    parts = zip(room, ("cores", "MiB of memory", "MiB of disk", "slots for machines"), strict=True)
    return ", ".join(f"{-left} {what}" for left, what in parts if left < 0)
