"""Room on a server for a job that finds none: idle machines of other types are stopped there.

Inputs are the picture and the job; output are words, and whether anything is left for another such job. Of all
servers the one is chosen where the fewest machines stop, and of its machines those with the smallest need. If that
is nowhere enough, the server that lacks the least keeps its room for the job. Invariant: no machine is stopped in
vain: without any one of those that stop, the room would not do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from subord.services.machines.deciding.finding import Kept
from subord.services.machines.deciding.picture import Picture
from subord.services.machines.deciding.supplies import Here
from subord.services.machines.model import Capacity, Need, Want, lack
from subord.services.machines.plan import Type


class Freed(NamedTuple):
    why: str
    is_final: bool = False


def make_room(picture: Picture, want: Want, kind: Type, servers: Collection[str] | None = None) -> Freed:
    """`servers`: those where a machine could start; None: all."""
    need, finding = kind.need, picture.finding
    server = finding.server(need, servers, with_coming=True)
    if server is not None:
        picture.take_room(server, need)
        return Freed(f"waits for machines that stop on {server}")
    if chosen := _fewest(picture, kind, servers):
        server, stopped = chosen
        names = ", ".join(each.machine.name for each in stopped)
        for here in stopped:
            picture.stop(here, want.job, f"{here.machine.name} is idle, and {server} needs its room")
        picture.take_room(server, need)
        return Freed(f"waits for {names} to stop on {server}")
    return _kept(picture, need, servers)


def _kept(picture: Picture, need: Need, servers: Collection[str] | None) -> Freed:
    """The server that lacks the least keeps its room."""
    server = picture.finding.tightest(need, servers)
    if server is None:
        return Freed(_nowhere(picture, need), is_final=True)
    lacks = lack(picture.finding.room_with_coming(server), need)
    picture.take_room(server, need)
    return Freed(f"{lacks} on {server}, which keeps them for it")


def _fewest(picture: Picture, kind: Type, servers: Collection[str] | None) -> tuple[str, list[Here]] | None:
    """The server where the fewest machines stop, and these; of several the fastest, then by name."""
    need, finding = kind.need, picture.finding

    def enough(server: str) -> list[Here]:
        idle = [each for each in picture.idle.at(server) if each.machine.type != kind.name]
        return _enough(finding.room_with_coming(server), need, idle) if idle else []

    kept = picture.kept.setdefault(kind.name, Kept(picture.versions, enough))
    best: tuple[str, list[Here]] | None = None
    for server in finding.servers:
        if servers is not None and server not in servers:
            continue
        stopped = kept.of(server)
        if stopped and (best is None or len(stopped) < len(best[1])):
            best = (server, stopped)
            if len(stopped) == 1:
                break
    return best


def _enough(room: Capacity, need: Need, idle: list[Here]) -> list[Here]:
    """Machines that make the room together, the smallest first, and none in vain; []: they do not."""
    chosen = list[Here]()
    for here in sorted(idle, key=lambda each: (each.machine.need, each.machine.name)):
        if room.fits(need):
            break
        chosen.append(here)
        room = room.more(here.machine.need)
    if not room.fits(need):
        return []
    for here in list(chosen):
        without = room.less(here.machine.need)
        if without.fits(need):
            chosen.remove(here)
            room = without
    return chosen


def _nowhere(picture: Picture, need: Need) -> str:
    """Nothing is left: either all room is kept for jobs that come first, or no server could ever have it."""
    usable = [each for each in picture.servers.values() if each.is_reachable and not each.is_drained]
    if not usable:
        return "no server answers, or all are drained"
    if any(each.capacity.fits(need) for each in usable):
        return "all room is taken, or kept for jobs that come first"
    largest = max((each.capacity for each in usable), key=lambda each: (each.cores, each.memory))
    return f"no server is large enough: {_words(need)} are needed, and the largest has {_words(largest)}"


def _words(size: Need | Capacity) -> str:
    return f"{size.cores} cores, {size.memory} MiB of memory and {size.disk} MiB of disk"
