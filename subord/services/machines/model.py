"""What servers, machines and jobs are, and what a machine takes from its server.

All quantities are integers: cores, MiB of memory and of disk, slots for machines. Invariant: what `room_of` returns
counts every machine that is on or becomes on, whatever started it; a machine that is paused, or in a state that is
not known, counts too.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple


class Need(NamedTuple):
    """Of a machine that is on. It also takes one slot for machines."""

    cores: int
    memory: int
    disk: int


class Capacity(NamedTuple):
    """Of a server: `memory` without the reserve of its own system, `disk` only the part that machines may have.
    Also what is left of it, where each may be below 0."""

    cores: int = 0
    memory: int = 0
    disk: int = 0
    slots: int = 0

    def less(self, need: Need) -> Capacity:
        return Capacity(self.cores - need.cores, self.memory - need.memory, self.disk - need.disk, self.slots - 1)

    def more(self, need: Need) -> Capacity:
        return Capacity(self.cores + need.cores, self.memory + need.memory, self.disk + need.disk, self.slots + 1)

    def plus(self, other: Capacity) -> Capacity:
        return Capacity(
            self.cores + other.cores, self.memory + other.memory, self.disk + other.disk, self.slots + other.slots
        )

    @property
    def is_overbooked(self) -> bool:
        return self.cores < 0 or self.memory < 0 or self.disk < 0 or self.slots < 0

    def fits(self, need: Need) -> bool:
        """Whether a machine with this need may start in this room. What it does not need may be overbooked."""
        has_disk = not need.disk or self.disk >= need.disk
        return self.cores >= need.cores and self.memory >= need.memory and has_disk and self.slots >= 1

    def holds(self, need: Need) -> int:
        """How many machines with this need fit into this room."""
        counts = [self.slots]
        counts += [have // wanted for have, wanted in zip(self, need, strict=False) if wanted]
        return max(0, min(counts))


NOTHING: Final = Capacity()


class State(StrEnum):
    ON = "on"
    OFF = "off"
    PAUSED = "paused"
    """By hand; it keeps what it has."""
    UNKNOWN = "unknown"
    """Its server cannot say; it is counted as if it were on."""


class Doing(StrEnum):
    """What the agent of the server is doing with a machine, from its record on disk."""

    STARTING = "starting"
    CLONING = "cloning"
    """It starts when its image is copied."""
    STOPPING = "stopping"
    DELETING = "deleting"


class Machine(NamedTuple):
    """`type`: "": it is not ours. `is_up`: the batch system sees it. `is_open`: jobs may start there. `busy`: slots
    that jobs have there. `since`: when it came into its state. `window_ends`: None: it is not known. `given_to`: the
    server to which this one has given it; it can start only there. `came_from`: the server that gives it to this one,
    and may still have it; it cannot start here yet."""

    name: str
    need: Need
    state: State = State.OFF
    type: str = ""
    doing: Doing | None = None
    is_up: bool = False
    is_open: bool = False
    busy: int = 0
    always_on: bool = False
    since: float = 0.0
    window_ends: float | None = None
    given_to: str = ""
    came_from: str = ""

    @property
    def is_counted(self) -> bool:
        """Whether it takes room on its server. One that was given away and is on all the same, by hand, does."""
        is_coming = not self.given_to and self.doing in (Doing.STARTING, Doing.CLONING)
        return is_coming or self.state != State.OFF

    @property
    def is_still(self) -> bool:
        """It is off, nothing is done with it, and it is here."""
        return self.state == State.OFF and self.doing is None and not self.given_to and not self.came_from

    @property
    def is_running(self) -> bool:
        """It is on, and the batch system sees it."""
        return self.state == State.ON and self.is_up and self.doing is None


class Server(NamedTuple):
    """`mhz`: of its processors. `is_reachable`: its agent has answered lately; if not, the machines are those of its
    last answer. `asked_at`: when it was asked for this answer. `is_drained`: no machine starts there, and those that
    are idle are stopped."""

    name: str
    capacity: Capacity
    mhz: int = 0
    machines: tuple[Machine, ...] = ()
    is_reachable: bool = True
    asked_at: float = 0.0
    is_drained: bool = False


class Job(NamedTuple):
    """A job that waits. `slots`: of one task. `tasks`: of an array that are alike."""

    id: str
    queue: str
    slots: int = 1
    tasks: int = 1


class Want(NamedTuple):
    """A job, or a part of one, for which there has to be a machine of this type with so many slots."""

    job: str
    type: str
    slots: int = 1


def used_by(machines: Iterable[Machine]) -> Capacity:
    """What machines take together."""
    used = NOTHING
    for each in machines:
        if each.is_counted:
            used = used.more(each.need)
    return used


def room_of(server: Server) -> Capacity:
    """What is left on a server; below 0 where it is overbooked."""
    used = used_by(server.machines)
    have = server.capacity
    return Capacity(
        have.cores - used.cores, have.memory - used.memory, have.disk - used.disk, have.slots - used.slots
    )


def lack(room: Capacity, need: Need) -> str:
    """What a machine with this need lacks in this room, in words; "": it fits."""
    found = []
    for what, have, wanted in (
        ("cores", room.cores, need.cores),
        ("MiB of memory", room.memory, need.memory),
        ("MiB of disk", room.disk, need.disk),
        ("slots for machines", room.slots, 1),
    ):
        if wanted and have < wanted:
            found.append(f"{max(0, have)} of {wanted} {what}")
    return f"{' and '.join(found)} are free" if found else ""
