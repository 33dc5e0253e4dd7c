"""The jobs of this cluster that run in the other one, or are to, in the memory of the home side. Pure.

Invariant: the caller writes the changes to the disk before it does, tells or sends anything that follows from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from msgspec.structs import replace

from subord.services.transfer.exchange import Stage, State
from subord.services.transfer.jobs import Key
from subord.services.transfer.states import HomeRecord, HomeState

RECORDS_MAX: Final = 100_000


@dataclass(slots=True)
class Memo:
    """What is known of a job in this life. `is_here`: its starter is connected; `left_at`: since when it is not.
    `is_over`: nothing waits for its outcome. `is_sure`: if its record says that it was never sent, it never was; an
    older copy of the records may say so of a job that was. `may_have_run`: the batch system says that it was started
    before. `wanted_at`: when it was last told what is wanted, `cared_at`: when the other side was last asked.
    `is_binding`: the batch system at home is being told; `is_bound`: it was told in this life."""

    waits_since: float
    is_here: bool = False
    left_at: float = -inf
    is_over: bool = False
    is_sure: bool = True
    may_have_run: bool = False
    wanted_at: float = -inf
    cared_at: float = -inf
    is_binding: bool = False
    is_bound: bool = False


class Strange(NamedTuple):
    """A job that the other side has, and of which there is no record here. No more of it is remembered, because the
    other side says how many there are."""

    stage: Stage
    since: float


class Desk:
    def __init__(self, records: Iterable[HomeRecord], now: float) -> None:
        self.records = dict[Key, HomeRecord]()
        self.memos = dict[Key, Memo]()
        self.strange = dict[Key, Strange]()
        self.strange_left_out = 0
        """How often one was told for which there was no room."""
        self.open = set[Key]()
        """Those without an outcome."""
        self.forgetting = set[Key]()
        """Those whose outcome is told, and which the other side still has to forget."""
        self.news = dict[Key, None]()
        """Those of which the starter is to be told something."""
        self._attempts = defaultdict[tuple[str, int], set[Key]](set)
        self._dirty = dict[Key, HomeRecord | None]()
        for each in records:
            self.memos[each.key] = Memo(now, left_at=now, is_sure=False)
            self._keep(each)
        for each in list(self.records.values()):
            if each.key != self.newest(each.key.work):
                self.memos[each.key].is_over = True

    @property
    def is_full(self) -> bool:
        return len(self.records) >= RECORDS_MAX

    def put(self, record: HomeRecord) -> None:
        if self.records.get(record.key) != record:
            self._keep(record)
            self._dirty[record.key] = record

    def add(self, record: HomeRecord, memo: Memo) -> None:
        self.memos[record.key] = memo
        self.strange.pop(record.key, None)
        self.put(record)

    def _keep(self, record: HomeRecord) -> None:
        key = record.key
        self.records[key] = record
        self._attempts[key.work].add(key)
        is_final = record.state.is_final
        (self.open.discard if is_final else self.open.add)(key)
        (self.forgetting.add if is_final and record.is_told else self.forgetting.discard)(key)

    def drop(self, key: Key) -> None:
        if self.records.pop(key, None) is not None:
            del self.memos[key]
            self._dirty[key] = None
        self.strange.pop(key, None)
        self.open.discard(key)
        self.forgetting.discard(key)
        self.news.pop(key, None)
        self._attempts[key.work].discard(key)
        if not self._attempts[key.work]:
            del self._attempts[key.work]

    def wonder(self, state: State, now: float) -> bool:
        """The other side has a job that is not known here. False: there is no room to remember it."""
        before = self.strange.get(state.key)
        if before is None and len(self.strange) >= RECORDS_MAX:
            self.strange_left_out += 1
            return False
        self.strange[state.key] = Strange(state.stage, now if before is None else before.since)
        self._attempts[state.key.work].add(state.key)
        return True

    def changes(self) -> dict[Key, HomeRecord | None]:
        """Since the last call. None: it is to be deleted."""
        found, self._dirty = self._dirty, {}
        return found

    # -- attempts of one job ----------------------------------------------------------------------------------------

    def newest(self, work: tuple[str, int]) -> Key | None:
        """Of those with records."""
        known = [each for each in self._attempts.get(work, ()) if each in self.records]
        return max(known, default=None)

    def attempts(self, work: tuple[str, int]) -> list[Key]:
        return sorted(self._attempts.get(work, ()))

    def is_blocked(self, key: Key) -> bool:
        """Whether an earlier attempt may still run."""
        return any(self._may_run(each) for each in self._attempts[key.work] if each < key)

    def _may_run(self, key: Key) -> bool:
        if key in self.records:
            return key in self.open
        return not self.strange[key].stage.is_final

    # -- outcomes ---------------------------------------------------------------------------------------------------

    def finish(self, record: HomeRecord, state: HomeState, **changes: object) -> None:
        """It is told when it is not bound any more."""
        user = record.user if record.spec is None else record.spec.user
        self.put(replace(record, state=state, spec=None, user=user, **changes))
        self.settle(record.key)

    def settle(self, key: Key) -> None:
        """It has an outcome, and may not be bound any more, and its results may be here."""
        if self.records[key].is_bound or self.records[key].brings:
            return
        self.news[key] = None
        if self.memos[key].is_over:
            self.told(key)

    def is_to_be_let_go(self, key: Key) -> bool:
        """It has ended, its results are here, and it is bound."""
        return self.records[key].is_bound and not self.records[key].brings and key not in self.open

    def told(self, key: Key) -> None:
        """Nothing here needs its outcome any more."""
        record = self.records.get(key)
        if record is None or not record.state.is_final or record.is_bound or record.brings:
            return
        if record.first_life is None:
            self.drop(key)  # the other side has never heard of it
        else:
            self.put(replace(record, is_told=True))
