"""What there is for jobs: free slots of machines, machines that are off, and idle ones. Indexed, and nothing else.

Each index gives what a look at all machines would, in the same order, so that a decision over thousands of servers
takes no longer than its jobs need. Invariant: what was taken is not given again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from subord.services.machines.model import Machine


class Here(NamedTuple):
    server: str
    machine: Machine


class Image(NamedTuple):
    """Of a machine that is off."""

    size_mb: int
    name: str
    server: str
    type: str


class Slots:
    """Free slots by machine."""

    def __init__(self) -> None:
        self._free = dict[str, int]()
        self._heaps = dict[int, list[str]]()

    def __setitem__(self, name: str, free: int) -> None:
        self._free[name] = free
        heappush(self._heaps.setdefault(free, []), name)

    def __contains__(self, name: str) -> bool:
        return name in self._free

    def pop(self, name: str) -> int:
        """0: it has none."""
        return self._free.pop(name, 0)

    def take(self, slots: int) -> str:
        """The machine with the fewest free slots that are enough; ""."""
        for free in sorted(each for each in self._heaps if each >= slots):
            heap = self._heaps[free]
            while heap and self._free.get(heap[0]) != free:
                heappop(heap)
            if not heap:
                del self._heaps[free]
                continue
            name = heappop(heap)
            del self._free[name]
            if free > slots:
                self[name] = free - slots
            return name
        return ""


class Off:
    """Machines that are off, with their servers. `going`: where those start that are on their way. `fixed`: those
    that are not moved."""

    def __init__(self) -> None:
        self.servers = dict[str, str]()
        self._at: dict[str, list[str]] | None = None
        self._movable = list[str]()
        self._going = list[str]()

    def __setitem__(self, name: str, server: str) -> None:
        self.servers[name] = server

    def take(self, name: str) -> None:
        """It is off no more, or is deleted."""
        server = self.servers.pop(name)
        if self._at is not None and server in self._at and not self._first_at(server):
            del self._at[server]

    def index(self, going: Mapping[str, str], fixed: set[str], reachable: Mapping[str, bool]) -> None:
        """Before the methods below; the first time counts."""
        if self._at is not None:
            return
        at = defaultdict[str, list[str]](list)
        for name, server in self.servers.items():
            if not reachable[server]:
                continue
            if name in going:
                self._going.append(name)
                continue
            at[server].append(name)
            if name not in fixed:
                self._movable.append(name)
        for names in at.values():
            heapify(names)
        heapify(self._movable)
        self._going.sort()
        self._at = dict(at)

    @property
    def at(self) -> Mapping[str, list[str]]:
        """Servers where one can start without a move."""
        return self._at or {}

    def first_at(self, server: str) -> str:
        """The first by name; ""."""
        return self._first_at(server) if server in self.at else ""

    def first_movable(self) -> str:
        """As `first_at`, of all servers."""
        while self._movable and self._movable[0] not in self.servers:
            heappop(self._movable)
        return self._movable[0] if self._movable else ""

    def on_their_way(self) -> Iterator[str]:
        return (each for each in self._going if each in self.servers)

    def _first_at(self, server: str) -> str:
        assert self._at is not None
        names = self._at[server]
        while names and names[0] not in self.servers:
            heappop(names)
        return names[0] if names else ""


class Idle:
    """Machines of ours that could be stopped, by name and by server."""

    def __init__(self, versions: dict[str, int]) -> None:
        self._by_name = dict[str, Here]()
        self._at = defaultdict[str, dict[str, Here]](dict)
        self._versions = versions

    def add(self, here: Here) -> None:
        self._by_name[here.machine.name] = here
        self._at[here.server][here.machine.name] = here

    def pop(self, name: str) -> None:
        here = self._by_name.pop(name, None)
        if here is not None:
            del self._at[here.server][name]
            self._versions[here.server] += 1

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def values(self) -> Iterator[Here]:
        return iter(self._by_name.values())

    def at(self, server: str) -> Iterator[Here]:
        return iter(self._at[server].values()) if server in self._at else iter(())


class Supply:
    """What jobs of one type can have."""

    def __init__(self) -> None:
        self.open = Slots()
        self.closed = Slots()
        self.coming = Slots()
        self.off = Off()
        self.unsure = Off()
        """Machines that are off too, and have lately not come up: they are tried when nothing else is left."""
        self.on = 0
        """Machines that are on or come on, for the limit of the type."""

    @property
    def all_off(self) -> tuple[Off, Off]:
        return self.off, self.unsure

    def has_off(self, name: str) -> bool:
        return any(name in each.servers for each in self.all_off)

    def take_off(self, name: str) -> None:
        """As Off.take."""
        for each in self.all_off:
            if name in each.servers:
                each.take(name)
