"""Blobs in every node of a simulated cluster: a drawn node puts one, all others fetch it, whatever happens meanwhile.

Inputs are the actions of the blobs and lives of nodes; outputs are events for them, or a Violation. What must hold:
no disk has a chunk under a wrong name or more than its bound (C4), in a settled tree every node gets the blob of a
source that lives (C12), and nothing is wanted when no node needs it (C4).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from subord.core.carriage.blobs.blobs import Blobs
from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.core.carriage.blobs.interface import (
    Check,
    Checked,
    Evict,
    Fetch,
    Fetched,
    Held,
    Read,
    ReadEnded,
    Release,
    Wrong,
)
from subord.core.carriage.blobs.manifests import Manifest, Name, name_of
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.interface import PartEvent
from subord.core.roster_tree import RosterTree
from subord.core.view import Position
from subord.sim.violation import Violation
from subord.sim.world.world import World

DISK_S: Final = 0.002
SHARE: Final = 0.5  # of the seeds that have a blob
PUT_S: Final = (3.0, 30.0)
SIZES: Final = (0, 1000, CHUNK_BYTES_MAX + 1)
CACHE_BYTES_MAX: Final = 1 << 20
SIZES_MAX: Final = {
    "blob wants": 1024,
    "blob reading": 128,
    "blob fetches": 64,
    "blob chunks": 3,  # two of the largest blob, and its manifest
    "blob cache bytes": CACHE_BYTES_MAX,
    "blob calls": 4096,
}

Disk = dict[Name, bytes]
Feed = Callable[[Position, Engine, PartEvent], None]


class BlobSide:
    """Blobs of one world. `feed` gives an event to an engine that still lives."""

    actions = (Check, Read, Evict, Fetched, Wrong)
    sizes_max = SIZES_MAX

    def __init__(self, world: World, chance: Random, feed: Feed) -> None:
        self._world = world
        self._chance = chance
        self._feed = feed
        self.engine_of: Callable[[Position], Engine | None]
        self._disks: dict[Position, Disk] = {}
        self._content: Disk = {}
        self._blob: Name = b""
        self._source: Position = 0
        self._fetched: dict[Position, Engine] = {}

    def begin(self, able: Callable[[], list[Position]]) -> None:
        """Plan the blob of this seed, if it has one. `able`: the nodes that run."""
        if self._chance.random() < SHARE:
            self._world.after(self._chance.uniform(*PUT_S), self._put, able)

    def _put(self, able: Callable[[], list[Position]]) -> None:
        if not able():
            return
        self._source = self._chance.choice(able())
        content = self._chance.randbytes(self._chance.choice(SIZES))
        chunks = [content[at : at + CHUNK_BYTES_MAX] for at in range(0, len(content), CHUNK_BYTES_MAX)]
        manifest = Manifest(len(content), tuple(map(name_of, chunks))).encode()
        self._content = {name_of(each): each for each in (*chunks, manifest)}
        self._blob = name_of(manifest)
        self._disks.setdefault(self._source, {}).update(self._content)
        for each in sorted(self._world.nodes):
            self._use(each)

    def _use(self, position: Position) -> None:
        """A service of this node needs the blob."""
        engine = self.engine_of(position)
        if engine is None or not self._blob:
            return
        disk = self._disks.setdefault(position, {})
        if position == self._source and self._content.keys() <= disk.keys():
            self._feed(position, engine, Held(tuple((each, len(disk[each])) for each in self._content), self._blob))
        else:
            self._feed(position, engine, Fetch(self._blob, self._source))

    # -- lives and disks ----------------------------------------------------------------------------------

    def part_of(self, position: Position, tree: RosterTree) -> Blobs:
        self._world.after(DISK_S, self._begun, position)
        return Blobs(tree, CACHE_BYTES_MAX)

    def _begun(self, position: Position) -> None:
        engine, disk = self.engine_of(position), self._disks.get(position, {})
        if engine is not None:
            self._feed(position, engine, Held(tuple((each, len(chunk)) for each, chunk in disk.items())))
            self._use(position)

    def lose(self, position: Position) -> None:
        self._disks.pop(position, None)

    def carry_out(self, position: Position, engine: Engine, action: Any) -> None:
        if isinstance(action, Fetched):
            if action.reason:
                raise Violation("C12", self._world.now, f"{position} does not get a blob: {action.reason}")
            self._fetched[position] = engine
        elif isinstance(action, Wrong):
            raise Violation("C12", self._world.now, f"{position} says that {action.peer} has sent a wrong chunk")
        else:
            self._world.after(DISK_S, self._use_disk, position, engine, action)

    def _use_disk(self, position: Position, engine: Engine, action: Check | Read | Evict) -> None:
        if self.engine_of(position) is not engine:
            return
        disk = self._disks.setdefault(position, {})
        if isinstance(action, Evict):
            disk.pop(action.name, None)
        elif isinstance(action, Read):
            self._feed(position, engine, ReadEnded(action.name, disk.get(action.name)))
        else:
            if self._content.get(action.name) != action.chunk:
                raise Violation("C12", self._world.now, f"{position} got other bytes under a name")
            disk[action.name] = action.chunk
            self._feed(position, engine, Checked(action.name, ok=True))

    # -- what must hold -----------------------------------------------------------------------------------

    def handled(self, position: Position) -> None: ...

    def waiting(self) -> list[Position]:
        """Living nodes without the blob, if its source lives and has it."""
        has_source = self._content.keys() <= self._disks.get(self._source, {}).keys()
        if not self._blob or self.engine_of(self._source) is None or not has_source:
            return []
        living = [each for each in sorted(self._world.nodes) if self.engine_of(each) is not None]
        return [each for each in living if self._fetched.get(each) is not self.engine_of(each)]

    def demand_whole(self) -> None:
        """C12: what was told to be here is here."""
        living = [each for each in self._fetched if self.engine_of(each) is self._fetched[each]]
        for position in living:
            if self._content != self._disks[position]:
                raise Violation("C12", self._world.now, f"{position} was told of a blob that it has not")

    def release(self) -> None:
        """No node needs the blob any more."""
        blob, self._blob = self._blob, b""
        for each in sorted(self._world.nodes):
            engine = self.engine_of(each)
            if blob and engine is not None:
                self._feed(each, engine, Release(blob))

    def demand_empty(self, position: Position, engine: Engine) -> None:
        """C4: after a release nothing is wanted."""
        for table in ("blob wants", "blob reading", "blob fetches", "blob calls"):
            if engine.parts.sizes[table]:
                raise Violation("C4", self._world.now, f"{position} still keeps {table}")
