"""The ledger in every node of a simulated cluster: spools and sinks on their disks, writers, and what must hold (C8).

Inputs are records of drawn writers and the actions of the ledgers; outputs are events for them, or a Violation. The
rules here are arithmetic of their own: every record is a text that occurs once, so a sink that has one twice, or a
spool that deletes one that no sink has, is seen at once.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.interface import PartEvent
from subord.core.carriage.ledger.batching import fitting, has_room
from subord.core.carriage.ledger.bodies import Key, Record
from subord.core.carriage.ledger.interface import Oldest, SinkIs, Spooled, Store, StoreEnded, Take, Taken
from subord.core.carriage.ledger.ledger import Ledger
from subord.core.roster_tree import RosterTree
from subord.core.view import Incarnation, Position
from subord.sim.violation import Violation
from subord.sim.world.world import World

DISK_S: Final = 0.002
FAILS: Final = 0.03  # of the uses of a disk
COST_BYTES: Final = 64  # of a record, besides kind and body
SIZES_MAX: Final = {
    "ledger sinks": 8 * 4096,
    "ledger storing": 256,
    "ledger storing bytes": 8 << 20,
    "ledger batch": 1024,
}

Row = tuple[Incarnation, int, Record]
Feed = Callable[[Position, Engine, PartEvent], None]


class MemorySpool:
    """The spool of one node (core/carriage/ledger/interface.py), which outlives its process."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.life = self._last = 0
        self.rows: list[Row] = []

    def begin(self, life: Incarnation) -> None:
        self.life, self._last = life, 0

    @property
    def used_bytes(self) -> int:
        return sum(each.cost_bytes for _, _, each in self.rows)

    @property
    def count(self) -> int:
        return len(self.rows)

    def append(self, records: tuple[Record, ...]) -> bool:
        if not has_room(self.used_bytes, self.bytes_max, records):
            return False
        for each in records:
            self._last += 1
            self.rows.append((self.life, self._last, each))
        return True

    def delete(self, key: Key) -> None:
        wanted = range(key.first, key.first + key.count)
        self.rows = [row for row in self.rows if row[0] != key.life or row[1] not in wanted]

    def oldest(self) -> Oldest | None:
        if not self.rows:
            return None
        life, first, _ = self.rows[0]
        run = [each for number, each in enumerate(self.rows) if each[:2] == (life, first + number)]
        records = tuple(each for _, _, each in run)
        return Oldest(life, first, records[: fitting(records)])


class LedgerSide:
    """Ledgers of one world. `feed` gives an event to an engine that still lives."""

    actions = (Take, Store)
    sizes_max = SIZES_MAX

    def __init__(self, world: World, chance: Random, sinks: set[Position], spool_bytes_max: int, feed: Feed) -> None:
        self._world = world
        self._chance = chance
        self.sinks = sinks
        self._spool_bytes_max = spool_bytes_max
        self._feed = feed
        self.engine_of: Callable[[Position], Engine | None]
        self.spools: dict[Position, MemorySpool] = {}
        self._tables: dict[Position, dict[tuple[Position, Incarnation, int], bytes]] = {}
        self._written = 0
        self.accepted: set[bytes] = set()
        self.stored: set[bytes] = set()
        """In a sink, or in one whose disk is lost."""
        self.full = 0

    # -- lives --------------------------------------------------------------------------------------------

    def part_of(self, position: Position, tree: RosterTree) -> Ledger:
        spool = self.spools.setdefault(position, MemorySpool(self._spool_bytes_max))
        spool.begin(tree.incarnation)
        self._world.after(DISK_S, self._begun, position)
        return Ledger(tree)

    def _begun(self, position: Position) -> None:
        engine = self.engine_of(position)
        if engine is None:
            return
        if self.spools[position].rows:
            self._feed(position, engine, Spooled())
        if position in self.sinks:
            self._feed(position, engine, SinkIs(able=True))

    def lose(self, position: Position) -> None:
        """What only this disk had is lost with it."""
        spool = self.spools.pop(position, None)
        if spool is not None:
            self.accepted.difference_update(each.body for _, _, each in spool.rows)
        self._tables.pop(position, None)

    # -- writers ------------------------------------------------------------------------------------------

    def write(self, position: Position) -> None:
        """A writer of a node gives some records."""
        engine, spool, chance = self.engine_of(position), self.spools[position], self._chance
        assert engine is not None
        records = []
        for _ in range(chance.choice((1, 1, 3, 20))):
            self._written += 1
            records.append(Record("drawn", b"%d " % self._written + bytes(chance.choice((0, 100, 3000)))))
        if spool.append(tuple(records)):
            self.accepted.update(each.body for each in records)
            self._feed(position, engine, Spooled())
        else:
            self.full += 1
        used = sum(COST_BYTES + len(each.kind) + len(each.body) for _, _, each in spool.rows)
        if used > self._spool_bytes_max:
            raise Violation("C4", self._world.now, f"the spool of {position} has {used} bytes")

    # -- disks --------------------------------------------------------------------------------------------

    def carry_out(self, position: Position, engine: Engine, action: Take | Store) -> None:
        work = self._take if isinstance(action, Take) else self._store
        self._world.after(DISK_S, work, position, engine, action)

    def _take(self, position: Position, engine: Engine, take: Take) -> None:
        if self.engine_of(position) is not engine:
            return
        if self._chance.random() < FAILS:
            self._feed(position, engine, Taken(ok=False))
            return
        spool = self.spools[position]
        if take.stored is not None:
            before = {each.body for _, _, each in spool.rows}
            spool.delete(take.stored)
            lost = before - {each.body for _, _, each in spool.rows} - self.stored
            if lost:
                raise Violation("C8", self._world.now, f"{position} deletes {len(lost)} records that no sink has")
        oldest = spool.oldest()
        self._feed(position, engine, Taken() if oldest is None else Taken(*oldest))

    def _store(self, position: Position, engine: Engine, store: Store) -> None:
        if self.engine_of(position) is not engine:
            return
        ok = self._chance.random() >= FAILS
        if ok:
            self._insert(position, store)
        self._world.after(DISK_S, self._feed, position, engine, StoreEnded(store.key, ok))

    def _insert(self, position: Position, store: Store) -> None:
        """As `INSERT OR IGNORE` does."""
        table, key = self._tables.setdefault(position, {}), store.key
        for number, record in enumerate(store.records):
            name = key.origin, key.life, key.first + number
            if name in table:
                if table[name] != record.body:
                    raise Violation("C8", self._world.now, f"two records have the name {name}")
                continue
            if record.body in table.values():
                raise Violation("C8", self._world.now, f"{position} has {record.body[:9]!r} twice")
            table[name] = record.body
            self.stored.add(record.body)

    # -- what must hold -----------------------------------------------------------------------------------

    def handled(self, position: Position) -> None: ...

    def waiting(self) -> list[Position]:
        """Living nodes with records that no sink has acknowledged."""
        return [each for each, spool in sorted(self.spools.items()) if spool.rows and self.engine_of(each)]

    def demand_kept(self) -> None:
        """C8: no accepted record is lost, whatever has happened."""
        spooled = {each.body for spool in self.spools.values() for _, _, each in spool.rows}
        lost = self.accepted - spooled - self.stored
        if lost:
            raise Violation("C8", self._world.now, f"{len(lost)} accepted records are lost")
