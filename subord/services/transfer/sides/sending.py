"""The messages of the home side, and what the answers say of its jobs. Pure.

Invariants: a job is in one message as something new, and then only asked for; an answer counts only if it is to the
last message; nothing is sent before this life knows all that the other side has of this cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import inf
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from subord.services.transfer.exchange import (
    ENTRIES_MAX,
    SPECS_BYTES_MAX,
    Answer,
    Care,
    Message,
    Stage,
    State,
    Submit,
)
from subord.services.transfer.jobs import KILL, End, Files, Key, Wanted
from subord.services.transfer.permits import PERMITS_MAX, Held
from subord.services.transfer.plan import Plan
from subord.services.transfer.sides.desk import Desk
from subord.services.transfer.states import HomeRecord, HomeState

AUDIT_S: Final = 60.0
"""So often the other side is asked whether it still has a job."""
ORPHAN_S: Final = 600.0
"""A job of which no record is left here is ended after this time, in which its starter may come back."""


class Sending:
    def __init__(self, desk: Desk, plan: Plan, life: int, peer_life: int, peer_written: int) -> None:
        self.desk = desk
        self.plan = plan
        self.life = life
        self.peer_life = peer_life
        self.peer_written = peer_written
        self.number = 0
        self.held = Held()
        self.is_synced = False
        """All that the other side has of this cluster was heard in this life."""
        self.refused = ""
        """Why the other side has not heeded the last message."""
        self.offer = 0
        self.pending: int | None = None
        self.pending_at = -inf
        self.files_bytes_max = 0
        """What a job may bring along to the other side, as it said last."""
        self._heard = 0
        self._sent_at = -inf
        self._written_peer = (peer_life, peer_written)

    def peer_change(self) -> tuple[int, int] | None:
        """Since the last call."""
        now = self.peer_life, self.peer_written
        is_new = now != self._written_peer
        self._written_peer = now
        return now if is_new else None

    # -- messages ---------------------------------------------------------------------------------------------------

    def message(self, now: float) -> Message:
        self.number += 1
        self._sent_at = now
        urgent = [each for each in sorted(self.desk.open) if self._is_urgent(each, now)]
        cares = [self._care(each, now) for each in urgent[:ENTRIES_MAX]]
        submits = self._submits(ENTRIES_MAX - len(cares), now)
        forgets = tuple(islice(self._forgets(now), ENTRIES_MAX - len(cares) - len(submits)))
        rest = ENTRIES_MAX - len(cares) - len(submits) - len(forgets)
        cares += [self._care(each, now) for each in islice(self._audits(now), rest)]
        may_hold = min(len(self._waiting()), PERMITS_MAX)
        self.held.limit(may_hold)
        holds = self.held.numbers(now)
        return Message(
            cluster=self.plan.cluster,
            to=self.plan.peer_name,
            life=self.life,
            number=self.number,
            to_life=self.peer_life,
            heard=self._heard,
            written=self.peer_written,
            permits=may_hold - len(holds),
            holds=holds,
            submits=submits,
            cares=tuple(cares),
            forgets=forgets,
        )

    def _is_urgent(self, key: Key, now: float) -> bool:
        """Whether the other side does not know what is wanted, or this side whether it has the job."""
        record, memo = self.desk.records[key], self.desk.memos[key]
        if record.state == HomeState.SENDING:
            return now >= memo.cared_at + self.plan.poll_s or record.wanted != record.seen_wanted
        return record.state == HomeState.ABROAD and record.wanted != record.seen_wanted

    def _care(self, key: Key, now: float) -> Care:
        record = self.desk.records[key]
        self.desk.memos[key].cared_at = now
        return Care(key, record.wanted, record.first_life or 0, record.state == HomeState.ABROAD, record.was_stopped)

    def _audits(self, now: float) -> Iterator[Key]:
        for key in sorted(self.desk.open, key=lambda each: (self.desk.memos[each].cared_at, each)):
            if now < self.desk.memos[key].cared_at + AUDIT_S:
                return
            if self.desk.records[key].state == HomeState.ABROAD:
                yield key

    def _forgets(self, now: float) -> Iterator[Key]:
        """Also jobs of which nothing is known here, when their starter has not come, or another attempt has."""
        yield from sorted(self.desk.forgetting)
        for key, strange in self.desk.strange.items():  # in the order in which they were told
            newest = self.desk.newest(key.work)
            if now >= strange.since + ORPHAN_S or (newest is not None and newest > key):
                yield key

    def ready(self) -> list[Key]:
        """Those that may be sent when they are bound, in the order in which they came."""
        if not self.is_synced:
            return []
        desk = self.desk
        found = [each for each in desk.open if self._may_leave(each)]
        return sorted(found, key=lambda each: (desk.memos[each].waits_since, each))

    def _waiting(self) -> list[Key]:
        """Those that want a permit."""
        return [each for each in self.ready() if self.desk.memos[each].is_bound]

    def _may_leave(self, key: Key) -> bool:
        record, memo = self.desk.records[key], self.desk.memos[key]
        is_ready = record.state == HomeState.WAITING and record.wanted == Wanted.RUN
        is_ready = is_ready and record.spec is not None and not record.spec.lacks_files
        return is_ready and memo.is_here and memo.is_sure and not self.desk.is_blocked(key)

    def _submits(self, most: int, now: float) -> tuple[Submit, ...]:
        found = list[Submit]()
        bytes_left = SPECS_BYTES_MAX
        for key in self._waiting():
            record = self.desk.records[key]
            bytes_left -= len(msgspec.msgpack.encode(record.spec))
            if len(found) >= most or bytes_left < 0:
                break
            permit = self.held.spend(now)
            if permit is None or record.spec is None:
                break
            found.append(Submit(key, permit, record.wanted, record.spec))
            self.desk.put(replace(record, state=HomeState.SENDING, first_life=self.held.life))
            self.desk.memos[key].cared_at = now
            self.desk.news[key] = None
        return tuple(found)

    # -- answers ----------------------------------------------------------------------------------------------------

    def heard(self, answer: Answer, now: float) -> bool:
        if (answer.home_life, answer.number) != (self.life, self.number):
            return False
        self.refused = answer.refused
        if answer.refused:
            if answer.newest >= self.life and answer.newest > 0:
                self.life, self.number = answer.newest + 1, 0
            return True
        self.held.meet(answer.life)
        if answer.life != self.peer_life:
            self._heard = 0
        self.peer_life, self.peer_written = answer.life, answer.written
        for key in answer.forgotten:
            if key in self.desk.forgetting or key in self.desk.strange:
                self.desk.drop(key)
        is_kept = [self._hear(each, now) for each in answer.states]
        if all(is_kept):
            self._heard = answer.changed
            self.is_synced = self.is_synced or not answer.is_more
        else:  # it tells them again, and until there is room for all, nothing is sent
            self.is_synced = False
        self.held.take(answer.life, answer.grants, self._sent_at, answer.lease_s)
        self.offer, self.pending = answer.offer, answer.pending
        self.pending_at = now - answer.pending_age_s
        self.files_bytes_max = answer.files_bytes_max
        return True

    def _hear(self, state: State, now: float) -> bool:
        """Whether there is room for what it says."""
        record = self.desk.records.get(state.key)
        if record is not None:
            self._apply(record, state, now)
        elif state.key.cluster == self.plan.cluster and state.stage != Stage.ABSENT:
            return self.desk.wonder(state, now)
        return True

    def _apply(self, record: HomeRecord, state: State, now: float) -> None:
        desk = self.desk
        if record.state.is_final:
            if record.first_life is None and state.stage != Stage.ABSENT:
                desk.put(replace(record, first_life=0))  # the other side has to forget it
            return
        record = replace(record, seen=state.stage, seen_wanted=state.wanted, being=state.being, id=state.id)
        match state.stage:
            case Stage.TAKEN | Stage.HERE:
                desk.put(
                    replace(record, state=HomeState.ABROAD, first_life=record.first_life or 0, reason=state.reason)
                )
            case Stage.SOUGHT:
                is_waiting = record.state == HomeState.WAITING
                desk.put(replace(record, state=HomeState.SENDING, first_life=0) if is_waiting else record)
            case Stage.ABSENT:
                self._absent(record, now)
            case Stage.ENDED:
                directory = record.spec.directory if record.spec is not None and record.spec.files else ""
                first_life = record.first_life or 0
                desk.finish(record, HomeState.ENDED, first_life=first_life, end=state.end, brings=directory)
            case Stage.GONE:
                self._gone(replace(record, first_life=record.first_life or 0), state.reason)
            case Stage.UNKNOWN:
                desk.finish(record, HomeState.UNKNOWN, first_life=record.first_life or 0, reason=state.reason)
            case _:
                assert_never(state.stage)

    def _absent(self, record: HomeRecord, now: float) -> None:
        """It has not arrived, and may be sent with another permit, unless it is deleted."""
        memo = self.desk.memos[record.key]
        if record.state == HomeState.ABROAD:
            memo.cared_at = -inf
            return
        memo.is_sure, memo.waits_since = True, now
        spec = record.spec
        if spec is not None and spec.files is not None:  # the archive may be gone since the other side had it
            spec = replace(spec, files=Files())
        record = replace(
            record, state=HomeState.WAITING, first_life=None, seen=None, seen_wanted=Wanted.RUN, spec=spec
        )
        self.desk.put(record)
        self.desk.news[record.key] = None
        if record.wanted == Wanted.DELETED:
            self.deleted(record)

    def _gone(self, record: HomeRecord, reason: str) -> None:
        if record.wanted == Wanted.DELETED:
            self.deleted(record)
        else:
            self.desk.finish(record, HomeState.RETURNING, is_marked=True, reason=reason)

    def deleted(self, record: HomeRecord) -> None:
        """It was deleted before it started."""
        end = End(signal=KILL, failed="it was deleted before it started")
        self.desk.finish(record, HomeState.ENDED, end=end)
