"""The jobs of the other cluster that are here, in the memory of the away side. Pure.

Each change is kept until it is written (`changes`) and until home has heard of it (`unheard`). Invariant: the caller
writes the changes to the disk before it does or sends anything that follows from them; a job of the stage ABSENT is
not on the disk, since it is nothing to be remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from subord.services.transfer.cells.interface import Being
from subord.services.transfer.exchange import Stage, State
from subord.services.transfer.jobs import Key
from subord.services.transfer.states import AwayRecord

RECORDS_MAX: Final = 100_000


@dataclass(slots=True)
class Memo:
    """What is known of a job in this life. `since`: looks count that began later. `missing_at`: the first of the
    looks that have not shown it. `expected`: what a deed has made of it since the last look. `is_loaded`: its record
    was read from the disk, which may have been an older copy. `forgets`: it is forgotten as soon as it has ended."""

    since: float
    missing_at: float | None = None
    expected: Being | None = None
    is_loaded: bool = False
    is_submitting: bool = False
    may_submit: bool = True
    tries: int = 0
    forgets: bool = False
    searched_at: float = float("-inf")


class Book:
    def __init__(self, records: Iterable[AwayRecord], now: float) -> None:
        self.records = dict[Key, AwayRecord]()
        self.memos = dict[Key, Memo]()
        self.live = set[Key]()
        self._dirty = dict[Key, AwayRecord | None]()
        self._unheard = dict[Key, int]()
        self._changes = 0
        for each in records:
            self._keep(each, Memo(now, is_loaded=True))
        self.hear_all()

    def __len__(self) -> int:
        return len(self.records)

    @property
    def is_full(self) -> bool:
        return len(self.records) >= RECORDS_MAX

    def put(self, record: AwayRecord, now: float) -> None:
        """A new one, or a changed one."""
        before = self.records.get(record.key)
        if before == record:
            return
        self._keep(record, self.memos.get(record.key) or Memo(now))
        self._dirty[record.key] = None if record.stage == Stage.ABSENT else record
        if before is None or _told(before) != _told(record):
            self.touch(record.key)

    def _keep(self, record: AwayRecord, memo: Memo) -> None:
        self.records[record.key] = record
        self.memos[record.key] = memo
        (self.live.add if record.is_live else self.live.discard)(record.key)

    def drop(self, key: Key) -> None:
        record = self.records.pop(key, None)
        if record is not None:
            del self.memos[key]
            self.live.discard(key)
            self._unheard.pop(key, None)
            if record.stage != Stage.ABSENT:
                self._dirty[key] = None

    def changes(self) -> dict[Key, AwayRecord | None]:
        """Since the last call. None: it is to be deleted."""
        found, self._dirty = self._dirty, {}
        return found

    def alive(self) -> Iterator[AwayRecord]:
        """In the order of their keys, so that equal runs are equal."""
        return (self.records[each] for each in sorted(self.live))

    # -- what home has heard ----------------------------------------------------------------------------------------

    def touch(self, key: Key) -> None:
        """Home is told of it, even if nothing has changed."""
        self._changes += 1
        self._unheard.pop(key, None)
        self._unheard[key] = self._changes

    def hear_all(self) -> None:
        """Home knows nothing of what it was told."""
        for each in sorted(self.records):
            self.touch(each)

    def heard(self, number: int) -> None:
        """It has what was told up to this change. What is not here need not be remembered any longer."""
        for each in list(self._unheard):
            if self._unheard[each] > number:
                break
            del self._unheard[each]
            if self.records[each].stage == Stage.ABSENT:
                self.drop(each)

    def news(self, most: int) -> tuple[tuple[State, ...], int, bool]:
        """What home has not heard of, the oldest first; the number of the last change; whether there is more."""
        found = list[State]()
        last = 0
        for key, number in self._unheard.items():
            if len(found) == most:
                return tuple(found), last, True
            found.append(_told(self.records[key]))
            last = number
        return tuple(found), last or self._changes, False


def _told(record: AwayRecord) -> State:
    being = record.being if record.stage == Stage.HERE else None
    return State(record.key, record.stage, record.wanted, record.id, being, record.reason, record.end)


def finished(record: AwayRecord, stage: Stage, reason: str = "") -> AwayRecord:
    """Without what only a job that is still to be run has."""
    return replace(record, stage=stage, reason=(reason or record.reason)[:300], spec=None)
