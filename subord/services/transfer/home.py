"""The home side: jobs of this cluster that are in a transfer queue are sent, followed, and brought to an end. Pure.

Inputs are calls of the queue's methods, looks at the own batch system, and answers of the other side; outputs are
messages, outcomes for starters, and changes of records. The caller writes the changes to the disk, then tells
starters the news, then sends the message. Invariants: each job is sent once for each permit; it goes back to the own
batch system only if it was never sent, or the other side has said that it will never run there; an attempt is neither
sent nor goes back while an earlier attempt may still run. A job whose starter has died with its host goes on: the
starter that the batch system starts next waits for the same attempt, also if that has ended meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from signal import SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU
from typing import Final, NamedTuple, assert_never

from msgspec.structs import replace

from subord.services.transfer.cells.interface import Leaving
from subord.services.transfer.exchange import Answer, Message
from subord.services.transfer.jobs import KILL, NO_FILES, REASON_MAX, End, Files, Key, Spec, Wanted
from subord.services.transfer.mapping import Stays, mapped
from subord.services.transfer.plan import Plan
from subord.services.transfer.sides.desk import Desk, Memo
from subord.services.transfer.sides.sending import Sending
from subord.services.transfer.sides.watching import ERROR_STATUS
from subord.services.transfer.states import HomeRecord, HomeState

ABSENT_S: Final = 60.0
"""Starters connect again within this time, when the agent starts anew."""
STRANDED_MAX: Final = 50
"""Jobs that are put back after one look, each by a command."""
STOPS: Final = frozenset({SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU})
"""A starter that was stopped would not end."""
AGAIN_STATUS: Final = 99
"""With which a job of Grid Engine is rescheduled."""


class Start(NamedTuple):
    """A starter calls. `at_ms`: by the clock of this node. `attempt`: 0: this is its first call; otherwise what it
    was told then. `was_sent`: it was told that its job is being sent. `may_have_run`: the batch system says that the
    job was started before."""

    job: str
    task: int
    queue: str
    spec: Spec | Stays
    at_ms: int
    attempt: int = 0
    was_sent: bool = False
    may_have_run: bool = False


class Verb(StrEnum):
    """What a starter does at last."""

    EXIT = "exit"
    """It ends with the status."""
    KILL = "kill"
    """It ends by the signal."""
    AGAIN = "again"
    """The job waits again, and may leave again."""
    STAY = "stay"
    """The job is marked so that it does not leave, and waits again."""
    ERROR = "error"
    """The job is in error, until a person has looked at it."""


class Verdict(NamedTuple):
    verb: Verb
    number: int = 0
    reason: str = ""


class Kept(NamedTuple):
    """What was on the disk at the start. `peer_life`, `peer_written`: of the last answer."""

    records: tuple[HomeRecord, ...] = ()
    peer_life: int = 0
    peer_written: int = 0


class Changes(NamedTuple):
    """To be written together. None: the record is to be deleted, or `peer` (its life, and how often it has written)
    is as before."""

    records: dict[Key, HomeRecord | None]
    peer: tuple[int, int] | None = None


class Home:
    """`life`: of this process, above that of every earlier one."""

    def __init__(self, plan: Plan, life: int, kept: Kept, now: float) -> None:
        self.plan = plan
        self.refused = 0
        """Jobs that were sent back since there was no room for their records."""
        self._running: frozenset[tuple[str, int]] | None = None
        """Jobs that the last look has shown in a transfer queue, and that do not end; None: there was none."""
        self._loose = set[Key]()
        """Jobs that are to be bound again."""
        self._stranded = list[tuple[str, int]]()
        self._unseen = {each.key for each in kept.records}
        """Jobs of an earlier process that no look has shown in a transfer queue: until then no starter is heard."""
        self.desk = Desk(kept.records, now)
        self.sending = Sending(self.desk, plan, life, kept.peer_life, kept.peer_written)

    def follow(self, plan: Plan) -> None:
        """Another version of the plan. Jobs that are abroad go on."""
        self.plan = self.sending.plan = plan

    def changes(self) -> Changes:
        """Since the last call."""
        return Changes(self.desk.changes(), self.sending.peer_change())

    # -- the methods of the transfer queue --------------------------------------------------------------------------

    def start(self, start: Start, now: float) -> Key | None:
        """None: there is no room for another record; the job waits again."""
        work = start.job, start.task
        newest = self.desk.newest(work)
        attempt = start.attempt
        if not attempt and newest is not None and self._goes_on(newest):
            self._again(newest, start)
            return newest
        if not attempt:
            last = max((each.attempt for each in self.desk.attempts(work)), default=0)
            attempt = max(start.at_ms, last + 1)
        key = Key(self.plan.cluster, *work, attempt)
        if key in self.desk.records:
            self._again(key, start)
            return key
        if self.desk.is_full:
            self.refused += 1
            return None
        memo = Memo(now, is_here=True, wanted_at=now, may_have_run=start.may_have_run or bool(start.attempt))
        record = HomeRecord(key=key, state=HomeState.WAITING, queue=start.queue)
        spec = start.spec if isinstance(start.spec, Stays) else mapped(self.plan, start.queue, start.spec)
        if start.was_sent:
            is_spec = isinstance(spec, Spec)
            record = replace(record, state=HomeState.SENDING, first_life=0, spec=spec if is_spec else None)
            self.desk.add(record, memo)
        elif isinstance(spec, Stays):
            self.desk.add(record, memo)
            self.desk.finish(record, HomeState.RETURNING, is_marked=True, reason=spec.reason[:300])
        else:
            self.desk.add(replace(record, spec=spec), memo)
        if newest is not None and newest < key:
            self._supersede(key)
        return key

    def _again(self, key: Key, start: Start) -> None:
        """The starter has connected again, since this process, or the connection, is another one."""
        memo, record = self.desk.memos[key], self.desk.records[key]
        memo.is_here, memo.is_over = True, False
        if record.state == HomeState.WAITING and not memo.is_sure:
            memo.is_sure = not start.was_sent
            if start.was_sent:
                self.desk.put(replace(record, state=HomeState.SENDING, first_life=0))
        self.desk.news[key] = None

    def _goes_on(self, key: Key) -> bool:
        """Whether a starter that is new waits for an attempt that was sent before: it may run, or has ended, and
        nothing has deleted it."""
        record, memo = self.desk.records[key], self.desk.memos[key]
        may_have_run = record.state in (HomeState.SENDING, HomeState.ABROAD, HomeState.ENDED, HomeState.UNKNOWN)
        return may_have_run and record.wanted != Wanted.DELETED and not memo.is_here and not record.is_told

    def _supersede(self, key: Key) -> None:
        """The batch system has started the job anew, so nothing waits for earlier attempts."""
        for each in self.desk.attempts(key.work):
            if each < key and each in self.desk.records:
                self._abandon(each)

    def _abandon(self, key: Key) -> None:
        memo = self.desk.memos[key]
        memo.is_here, memo.is_over = False, True
        self.desk.news.pop(key, None)
        if self.desk.records[key].state.is_final:
            self.desk.told(key)
        else:
            self._want(key, Wanted.DELETED)

    def leave(self, key: Key, now: float) -> None:
        """The connection of a starter has ended."""
        memo = self.desk.memos.get(key)
        if memo is not None:
            memo.is_here, memo.left_at = False, now

    def told(self, key: Key) -> None:
        """The starter has taken its verdict."""
        self.desk.told(key)

    def want(self, job: str, task: int, wanted: Wanted, now: float) -> bool:
        """What the suspend, resume and terminate methods say. False: there is no such job."""
        key = self.desk.newest((job, task))
        if key is None or key not in self.desk.open:
            return False
        self.desk.memos[key].wanted_at = now
        self._want(key, wanted)
        return True

    def _want(self, key: Key, wanted: Wanted) -> None:
        record, memo = self.desk.records[key], self.desk.memos[key]
        if record.wanted in (wanted, Wanted.DELETED):
            return
        was_stopped = record.was_stopped or wanted == Wanted.SUSPENDED
        record = replace(record, wanted=wanted, was_stopped=was_stopped)
        self.desk.put(record)
        if wanted != Wanted.DELETED or record.state != HomeState.WAITING:
            return
        if memo.is_sure:
            self.sending.deleted(record)
        else:
            self.desk.put(replace(record, state=HomeState.SENDING, first_life=0))

    # -- the own batch system ---------------------------------------------------------------------------------------

    def looked(
        self,
        leaving: Iterable[Leaving],
        began: float,
        restarting: Iterable[tuple[str, int]] = (),
        loose: Iterable[tuple[str, int]] = (),
    ) -> None:
        """At the jobs that are in a transfer queue; the query was started at `began`. It tells what calls of
        methods have missed. `restarting`: jobs that were started before, and wait: their next starter goes on with
        what is abroad. `loose`: as in Look."""
        present, waiting = {(each.job, each.task): each for each in leaving}, set(restarting)
        self._running = frozenset(work for work, each in present.items() if not each.is_ending)
        self._see_loose(loose)
        self._stranded = []
        for key in sorted(self.desk.records):
            memo, record = self.desk.memos[key], self.desk.records[key]
            there = present.get(key.work)
            if there is None or key != self.desk.newest(key.work):
                if key.work in waiting and key == self.desk.newest(key.work) and self._goes_on(key):
                    if key in self.desk.open and began > memo.wanted_at:
                        self._want(key, Wanted.RUN)  # nothing that waits is suspended
                    continue
                if not memo.is_here and not record.is_told and began >= memo.left_at + ABSENT_S:
                    self._abandon(key)
            elif key in self.desk.open and began > memo.wanted_at:
                suspended = Wanted.SUSPENDED if there.is_suspended else Wanted.RUN
                self._want(key, Wanted.DELETED if there.is_ending else suspended)
            if there is not None and not there.is_ending and key == self.desk.newest(key.work):
                self._see_stranded(key, there, began)

    def _see_loose(self, works: Iterable[tuple[str, int]]) -> None:
        """The batch system has forgotten their bonds, since it has died before it wrote them down."""
        for key in filter(None, map(self.desk.newest, works)):
            memo = self.desk.memos[key]
            if self.desk.records[key].is_bound and not memo.is_binding:
                memo.is_bound = False
                self._loose.add(key)

    def _see_stranded(self, key: Key, there: Leaving, began: float) -> None:
        """The batch system takes it for running, and its starter is gone: its host has died."""
        memo, record = self.desk.memos[key], self.desk.records[key]
        if key in self._unseen:
            self._unseen.discard(key)
            memo.left_at = max(memo.left_at, began)
        if memo.is_here or record.is_told:
            return
        if there.is_suspended:  # a starter that is stopped cannot connect
            memo.left_at = max(memo.left_at, began)
        elif began >= memo.left_at + ABSENT_S:
            if self._goes_on(key) and not memo.is_bound:
                self.desk.put(replace(record, is_bound=True))
                self._loose.add(key)
            elif not memo.is_binding and len(self._stranded) < STRANDED_MAX:
                memo.left_at = began
                self._stranded.append(key.work)

    def stranded(self) -> list[tuple[str, int]]:
        """Jobs that are to be put back, since the last look: their starters are gone, and the batch system has not
        noticed. What is abroad of them is bound."""
        found, self._stranded = self._stranded, []
        return found

    # -- bonds ------------------------------------------------------------------------------------------------------

    def bonds(self) -> tuple[list[Key], list[Key]]:
        """Jobs that the own batch system has to bind before they are sent, and those that it has to let go. The
        caller writes the changes before it does it, and then calls `bound` and `let_go`."""
        desk = self.desk
        to_let_go = [each for each in sorted(desk.records) if self._may_let_go(each)]
        loose = {each for each in self._loose if each in desk.records and desk.records[each].is_bound}
        ready = self.sending.ready()
        wanted = [*ready, *sorted(loose.difference(ready, to_let_go))]
        to_bind = [each for each in wanted if _is_free(desk.memos[each])]
        self._loose.clear()
        for key in to_bind:
            desk.put(replace(desk.records[key], is_bound=True))
        for key in (*to_bind, *to_let_go):
            desk.memos[key].is_binding = True
        return to_bind, to_let_go

    def _may_let_go(self, key: Key) -> bool:
        """Not while the batch system takes it for running, although its starter is gone: it could not be kept from
        other queues then, and would start there when the batch system notices."""
        memo = self.desk.memos[key]
        if memo.is_binding or not self.desk.is_to_be_let_go(key):
            return False
        if memo.is_here or memo.is_over or key != self.desk.newest(key.work):
            return True
        return self._running is not None and key.work not in self._running

    def recalls(self, works: Iterable[tuple[str, int]]) -> dict[str, list[str]]:
        """Of jobs that are to be let go, by their transfer queues, those that have ended away without a starter: they
        must not start anywhere else. Not tasks of arrays, whose other tasks would be kept from other queues."""
        found = dict[str, list[str]]()
        for work in works:
            key = self.desk.newest(work)
            if key is not None and not key.task and not self.desk.memos[key].is_here and self._goes_on(key):
                found.setdefault(self.desk.records[key].queue.partition("@")[0], []).append(key.job)
        return found

    def bound(self, keys: Iterable[Key], *, is_done: bool) -> None:
        for memo in (self.desk.memos[each] for each in keys if each in self.desk.memos):
            memo.is_binding, memo.is_bound = False, is_done

    def let_go(self, keys: Iterable[Key], *, is_done: bool) -> None:
        for key in keys:
            memo, record = self.desk.memos[key], self.desk.records[key]
            memo.is_binding = False
            if is_done:
                memo.is_bound = False
                self.desk.put(replace(record, is_bound=False))
                self.desk.settle(key)

    def forgotten_bonds(self, bound: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Jobs that the batch system has bound, and of which nothing is known, or only how they ended, since an older
        copy of the records was restored: they are let go."""
        if not self.sending.is_synced:
            return []
        return [each for each in bound if not any(map(self._needs_bond, self.desk.attempts(each)))]

    def _needs_bond(self, key: Key) -> bool:
        record = self.desk.records.get(key)
        return record is None or record.is_bound or not record.state.is_final

    # -- files ------------------------------------------------------------------------------------------------------

    def to_pack(self) -> list[HomeRecord]:
        """Jobs whose files are to be packed before they are sent."""
        found = (self.desk.records[each] for each in sorted(self.desk.open))
        return [each for each in found if _lacks_files(each) and each.wanted == Wanted.RUN]

    def packed(self, key: Key, files: Files | Stays) -> None:
        """What came of it."""
        record = self.desk.records.get(key)
        if record is None or record.spec is None or not _lacks_files(record):
            return
        if isinstance(files, Stays):
            self.desk.finish(record, HomeState.RETURNING, is_marked=True, reason=files.reason[:REASON_MAX])
        else:
            self.desk.put(replace(record, spec=replace(record.spec, files=files)))

    def to_bring(self) -> list[HomeRecord]:
        """Jobs that have ended away, and whose results are to be brought."""
        return [self.desk.records[each] for each in sorted(self.desk.records) if self.desk.records[each].brings]

    def brought(self, key: Key, reason: str = "") -> None:
        """Its results are in its working directory, or it is told why they are not."""
        record = self.desk.records.get(key)
        if record is not None and record.brings:
            self.desk.put(replace(record, brings="", reason=reason[:REASON_MAX]))
            self.desk.settle(key)

    # -- the other side ---------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Jobs that have waited for too long go back."""
        desk = self.desk
        for key in sorted(desk.open):
            memo, record = desk.memos[key], desk.records[key]
            if record.state != HomeState.WAITING or not memo.is_here or record.wanted != Wanted.RUN:
                continue
            is_refused = _lacks_files(record) and not self.sending.files_bytes_max
            if desk.is_blocked(key) or (_lacks_files(record) and not is_refused):
                memo.waits_since = now
            is_safe = memo.is_sure and (self.sending.is_synced or not memo.may_have_run)
            if is_safe and now >= memo.waits_since + self.plan.permit_s:
                reason = NO_FILES if is_refused else f"it had no permit within {self.plan.permit_s} s"
                desk.finish(record, HomeState.RETURNING, is_marked=is_refused, reason=reason)

    def message(self, now: float) -> Message | None:
        """The next one. None: the plan names no other side."""
        self.tick(now)
        return None if self.plan.is_off else self.sending.message(now)

    def heard(self, answer: Answer, now: float) -> bool:
        """False: it does not answer the last message, and is left alone."""
        return self.sending.heard(answer, now)

    # -- starters ---------------------------------------------------------------------------------------------------

    def news(self) -> list[HomeRecord]:
        """Those whose starter is to be told that the job is being sent, or its verdict, since the last call."""
        found = [self.desk.records[each] for each in self.desk.news if self.desk.memos[each].is_here]
        self.desk.news.clear()
        return found


def verdict_of(record: HomeRecord) -> Verdict | None:
    """None: it has no outcome yet, or the batch system has not let it go."""
    if record.is_bound or record.brings:
        return None
    match record.state:
        case HomeState.ENDED:
            return _ended(record.end or End(signal=KILL))
        case HomeState.RETURNING:
            return Verdict(Verb.STAY if record.is_marked else Verb.AGAIN, AGAIN_STATUS, record.reason)
        case HomeState.UNKNOWN:
            return Verdict(Verb.ERROR, ERROR_STATUS, f"how it ended is not known: {record.reason}")
        case HomeState.WAITING | HomeState.SENDING | HomeState.ABROAD:
            return None
        case _:
            assert_never(record.state)


def _lacks_files(record: HomeRecord) -> bool:
    return record.state == HomeState.WAITING and record.spec is not None and record.spec.lacks_files


def _is_free(memo: Memo) -> bool:
    return not memo.is_bound and not memo.is_binding


def _ended(end: End) -> Verdict:
    if end.signal:
        return Verdict(Verb.KILL, KILL if end.signal in STOPS else end.signal, end.failed)
    return Verdict(Verb.EXIT, end.status or int(bool(end.failed)), end.failed)
