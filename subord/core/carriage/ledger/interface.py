"""What goes into the ledger of a node and what comes out: its events and actions, and the spool.

The spool and the store of a sink are on a disk, so the driver uses them off the event loop, and answers each action
with an event. At most one Take is under way, and at most one Store of one key.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from subord.core.carriage.engine.interface import PartAction, PartEvent
from subord.core.carriage.ledger.bodies import Key, Record
from subord.core.view import Incarnation


class Spooled(PartEvent, frozen=True):
    """The spool may have got records."""


class Taken(PartEvent, frozen=True):
    """The answer to Take. No `records`: the spool is empty. `ok` False: the disk failed, and nothing was deleted."""

    life: Incarnation = 0
    first: int = 0
    records: tuple[Record, ...] = ()
    ok: bool = True


class SinkIs(PartEvent, frozen=True):
    """Whether this node is a sink that can store."""

    able: bool


class StoreEnded(PartEvent, frozen=True):
    """The answer to Store. `ok`: all records of the key are on the disk of the sink."""

    key: Key
    ok: bool = True


class Take(PartAction, frozen=True):
    """Delete what a sink has stored from the spool, then read its oldest records."""

    stored: Key | None = None


class Store(PartAction, frozen=True):
    """Store records on the disk of this sink; those that it has already are not stored again."""

    key: Key
    records: tuple[Record, ...]


class Oldest(NamedTuple):
    """The oldest records of a spool: one life, sequences without gap."""

    life: Incarnation
    first: int
    records: tuple[Record, ...]


class Spool(Protocol):
    """Records of one node, on its disk, in the order of writing. Invariant: `used_bytes` never exceeds its bound."""

    @property
    def used_bytes(self) -> int: ...
    @property
    def count(self) -> int: ...

    def append(self, records: tuple[Record, ...]) -> bool:
        """All of them, durably; False: there is no room for all, and none is kept."""

    def delete(self, key: Key) -> None:
        """Those that a sink has stored."""

    def oldest(self) -> Oldest | None:
        """The next batch, within the bounds of one."""
