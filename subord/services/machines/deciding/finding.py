"""The server for a need, of many: what placing.py says, without a look at all servers for each job.

Inputs are the rooms of an iteration; outputs are servers. Invariants: of the rooms of an iteration each only
shrinks, until machines are stopped, so what fits nowhere fits nowhere later; what is kept of a server counts as long
as nothing has changed there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Generic, Protocol, TypeVar

from subord.services.machines.model import Capacity, Need, Server
from subord.services.machines.placing import Place, lacking, place

Score = TypeVar("Score")


class Rooms(Protocol):
    """What is looked at of an iteration (picture.py)."""

    servers: dict[str, Server]
    room: dict[str, Capacity]
    coming: dict[str, Capacity]
    potential: dict[str, Capacity]
    versions: dict[str, int]
    has_freed: bool


class Finding:
    def __init__(self, picture: Rooms) -> None:
        self._picture = picture
        usable = (each for each in picture.servers.values() if each.is_reachable and not each.is_drained)
        self.servers = {each.name: each.mhz for each in sorted(usable, key=lambda each: (-each.mhz, each.name))}
        """Where machines may start, the fastest first."""
        self._groups = dict[int, list[str]]()
        for name, mhz in self.servers.items():
            self._groups.setdefault(mhz, []).append(name)
        self._full = set[Need]()
        """Nothing fits anywhere."""
        self._full_with_coming = set[Need]()
        self._tight = dict[Need, Kept[tuple[int, ...] | None]]()

    def server(
        self,
        need: Need,
        only: Collection[str] | None = None,
        preferred: Collection[str] = (),
        *,
        with_coming: bool = False,
    ) -> str | None:
        """As placing.place. `only`: of these; None: all. `with_coming`: with what machines that stop give back."""
        if with_coming and self._picture.has_freed:
            self._full_with_coming.clear()
            self._picture.has_freed = False
        full = self._full_with_coming if with_coming else self._full
        if need in full:
            return None
        room_of = self.room_with_coming if with_coming else self._picture.room.__getitem__
        for mhz, names in self._groups.items():
            places = (Place(each, mhz, room_of(each)) for each in names if only is None or each in only)
            if found := place(need, places, preferred):
                return found
        if only is None:
            full.add(need)
        return None

    def tightest(self, need: Need, only: Collection[str] | None = None) -> str | None:
        """As placing.tightest, of what machines that stop give back."""
        picture = self._picture

        def score(name: str) -> tuple[int, ...] | None:
            is_able = picture.potential[name].fits(need)
            return lacking(self.room_with_coming(name), need) if is_able else None

        kept = self._tight.setdefault(need, Kept(picture.versions, score))
        best, found = None, None
        for name in self.servers:
            if only is not None and name not in only:
                continue
            each = kept.of(name)
            if each is not None and (best is None or each < best):  # the fastest first, then by name
                best, found = each, name
        return found

    def room_with_coming(self, server: str) -> Capacity:
        return self._picture.room[server].plus(self._picture.coming[server])

    def places_with_coming(self) -> Iterator[Place]:
        return (Place(name, mhz, self.room_with_coming(name)) for name, mhz in self.servers.items())


class Kept(Generic[Score]):
    """What was found of a server, until something changes there."""

    def __init__(self, versions: dict[str, int], find: Callable[[str], Score]) -> None:
        self._versions = versions
        self._find = find
        self._kept = dict[str, tuple[int, Score]]()

    def of(self, server: str) -> Score:
        version = self._versions[server]
        kept = self._kept.get(server)
        if kept is None or kept[0] != version:
            kept = self._kept[server] = (version, self._find(server))
        return kept[1]
