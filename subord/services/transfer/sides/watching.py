"""Foreign jobs and the batch system of this cluster: what a look and the accounting show, and what is done. Pure.

Inputs are looks, outcomes of submissions, and entries of the accounting; outputs are changes of the book, and Work. A
job is submitted held, and released when its number is on the disk. Invariants: a job that was never released has
never run; one that may have run is not submitted again; a deed follows from what was seen and what home wants, so it
is repeated until it shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from subord.services.batch.records import Refused, Unavailable
from subord.services.transfer.cells.interface import (
    IDS_MAX,
    Being,
    Deed,
    Ended,
    Foreign,
    Look,
    Sought,
    Submitted,
)
from subord.services.transfer.exchange import Stage
from subord.services.transfer.jobs import KILL, End, Key, Wanted, key_of
from subord.services.transfer.mapping import is_taken_as
from subord.services.transfer.plan import Plan
from subord.services.transfer.sides.book import Book, Memo, finished
from subord.services.transfer.states import AwayRecord, Doom

LAG_S: Final = 60.0
"""After so long the accounting has what has ended; Grid Engine writes it every 15 s."""
LOST_S: Final = 600.0
"""After so long without an entry it is not known how a job has ended."""
TRIES_MAX: Final = 5
ERROR_STATUS: Final = 100
"""With which a job of Grid Engine puts itself into the state of an error."""

EXPECTED: Final = {
    Deed.RELEASE: Being.QUEUED,
    Deed.HOLD: Being.HELD,
    Deed.SUSPEND: Being.SUSPENDED,
    Deed.RESUME: Being.RUNNING,
    Deed.DELETE: Being.ENDING,
}


class Work(NamedTuple):
    """To be done in this order, when the changes of the book are on the disk. The next look begins when it is done;
    `submits` may go on longer."""

    submits: tuple[AwayRecord, ...] = ()
    deeds: tuple[tuple[Deed, tuple[str, ...]], ...] = ()
    searches: tuple[Sought, ...] = ()


class Watching:
    """`restored_life`: jobs that came before this life may have been forgotten, since an older copy of the records
    was restored; 0: no."""

    def __init__(self, book: Book, plan: Plan) -> None:
        self.book = book
        self.plan = plan
        self.restored_life = 0
        self.has_heard = False
        """Of home, in this life: it tells whether the records are an older copy."""
        self.looked_at: float | None = None
        self.pending = 0
        self.forged = 0
        """Jobs of the last look whose marks count for nothing, because their users are others."""
        self._strays = list[str]()
        self._is_fresh = False
        self._attention = set[Key]()

    # -- what the batch system shows --------------------------------------------------------------------------------

    def looked(self, look: Look, began: float, now: float) -> None:
        """`began`: when the query was started."""
        found = defaultdict[Key, list[Foreign]](list)
        self.forged = 0
        for each in look.foreign:
            key = key_of(each.mark)
            if key is None or key.cluster != self.plan.peer_name:
                continue
            if self._is_true(key, each):
                found[key].append(each)
            else:
                self.forged += 1
        missing = [each for each in self.book.alive() if each.key not in found]
        for key in sorted(found):
            self._found(key, found[key], began, now)
        for record in missing:
            self._missing(record, began, now)
        self.looked_at, self.pending, self._is_fresh = began, look.pending, True
        self._attention |= self.book.live

    def _is_true(self, key: Key, job: Foreign | Ended) -> bool:
        """Whether the job has the mark from this side. The number that the cell gave for a job says enough; of a job
        whose user no record has, it must be one as whom jobs come."""
        record = self.book.records.get(key)
        if record is not None and record.id and record.id == job.id:
            return True
        if record is not None and record.user:
            return record.user == job.owner
        return is_taken_as(self.plan, job.owner)

    def _found(self, key: Key, entries: list[Foreign], began: float, now: float) -> None:
        record = self.book.records.get(key)
        first = min(entries, key=lambda each: (each.being == Being.HELD, len(each.id), each.id))
        if record is None or record.stage == Stage.ABSENT:
            record = self._adopted(AwayRecord(key=key, stage=Stage.SOUGHT, wanted=_unasked(first)), first, now)
        elif record.stage.is_final:
            if began > self.book.memos[key].since:
                self._strays += [each.id for each in entries if each.being != Being.ENDING]
            return
        elif record.stage == Stage.SOUGHT or (record.stage == Stage.TAKEN and not self.book.memos[key].is_submitting):
            record = self._adopted(record, first, now)
        if record.stage == Stage.HERE:
            own = next((each for each in entries if each.id == record.id), None)
            self._strays += [each.id for each in entries if each is not own and each.being == Being.HELD]
            if own is None:
                self._missing(record, began, now)
            else:
                self._seen(record, own, now)

    def _adopted(self, record: AwayRecord, found: Foreign, now: float) -> AwayRecord:
        """It was submitted before, by a process that has died, or by a submission of this one that seemed to fail;
        only in the second case it is known that it was not released."""
        here = replace(
            record,
            stage=Stage.HERE,
            id=found.id,
            user=record.user or found.owner,
            spec=None,
            is_released=record.stage != Stage.TAKEN or found.being != Being.HELD,
            was_stopped=record.was_stopped or found.being == Being.SUSPENDED,
        )
        self.book.put(here, now)
        self.book.memos[record.key].since = now
        return here

    def _seen(self, record: AwayRecord, found: Foreign, now: float) -> None:
        memo = self.book.memos[record.key]
        memo.missing_at = memo.expected = None
        has_run = record.has_run or found.being in (Being.RUNNING, Being.SUSPENDED)
        record = replace(
            record, being=found.being, has_run=has_run, is_released=record.is_released or found.being != Being.HELD
        )
        if found.being == Being.ERROR and record.doom is None:
            doom = Doom.UNSTARTED if found.is_unstarted and not has_run else Doom.FAILED
            record = replace(record, doom=doom, reason=f"in error: {found.reason}"[:300])
        self.book.put(record, now)

    def _missing(self, record: AwayRecord, began: float, now: float) -> None:
        memo = self.book.memos[record.key]
        if began <= memo.since or memo.is_submitting:
            return
        if record.stage == Stage.TAKEN:
            memo.may_submit = True
        elif memo.missing_at is None:
            memo.missing_at = began
        if record.stage != Stage.HERE:
            return
        if record.doom is not None:
            self._doomed(record, now)
        elif not record.is_released and not memo.is_loaded:
            self._gone(record, "it was deleted before it started", now)

    def _doomed(self, record: AwayRecord, now: float) -> None:
        if record.doom == Doom.UNSTARTED:
            self._gone(record, record.reason, now)
        else:
            self._ended(record, End(status=ERROR_STATUS, failed=record.reason), now)

    # -- submissions ------------------------------------------------------------------------------------------------

    def submitted(self, key: Key, outcome: Submitted | Refused | Unavailable, now: float) -> None:
        record, memo = self.book.records.get(key), self.book.memos.get(key)
        if record is None or memo is None:
            return
        memo.is_submitting, memo.since = False, now
        self._attention.add(key)
        if record.stage != Stage.TAKEN:
            return
        match outcome:
            case Submitted(number):
                self.book.put(replace(record, stage=Stage.HERE, id=number, being=Being.HELD, spec=None), now)
            case Refused(reason):
                self._gone(record, reason, now)
            case Unavailable(_, reason):
                memo.tries, memo.may_submit = memo.tries + 1, False
                if memo.tries >= TRIES_MAX:
                    self._gone(record, f"it could not be submitted in {TRIES_MAX} tries: {reason}", now)

    # -- the accounting ---------------------------------------------------------------------------------------------

    def accounted(self, asked: Iterable[Sought], ended: Sequence[Ended], began: float, now: float) -> None:
        """`ended`: those of `asked` that the accounting has, which was read at `began`."""
        by_key = defaultdict[Key, list[Ended]](list)
        for each in ended:
            key = key_of(each.mark)
            if key is not None:
                by_key[key].append(each)
        for sought in asked:
            key = key_of(sought.mark)
            record = None if key is None else self.book.records.get(key)
            if key is None or record is None or self.book.memos[key].missing_at is None or not record.is_live:
                continue
            entries = [
                each
                for each in by_key[key]
                if (record.stage != Stage.HERE or each.id == record.id) and self._is_true(key, each)
            ]
            if entries:
                self._entered(record, max(entries, key=lambda each: each.has_run), now)
            else:
                self._not_entered(record, began, now)

    def _entered(self, record: AwayRecord, found: Ended, now: float) -> None:
        record = replace(record, id=found.id)
        if found.has_run:
            self._ended(record, found.end, now)
        else:
            self._gone(record, found.end.failed or "it was deleted before it started", now)

    def _not_entered(self, record: AwayRecord, began: float, now: float) -> None:
        memo = self.book.memos[record.key]
        assert memo.missing_at is not None
        if began < memo.missing_at + LAG_S or (memo.is_loaded and not self.has_heard):
            return
        is_doubtful = record.life < self.restored_life
        if record.stage == Stage.SOUGHT:
            self._not_found(record, is_doubtful=is_doubtful or record.must_exist, now=now)
        elif not record.is_released:
            verdict = self._unknown if is_doubtful else self._gone
            verdict(record, "it is not in the batch system, and not in its accounting", now)
        elif record.wanted == Wanted.DELETED:
            if record.has_run:
                self._ended(record, End(signal=KILL, failed="it was deleted"), now)
            else:
                self._gone(record, "it was deleted before it started", now)
        elif began >= memo.missing_at + LOST_S:
            self._unknown(record, "it has left the batch system, and its accounting has no entry of it", now)

    def _not_found(self, record: AwayRecord, *, is_doubtful: bool, now: float) -> None:
        if is_doubtful:
            self._unknown(record, "it is not in the batch system, and not in its accounting", now)
        elif record.wanted == Wanted.DELETED:
            self._gone(record, "it was never submitted", now)
        elif record.spec is not None:
            self.book.put(replace(record, stage=Stage.TAKEN), now)
            self.book.memos[record.key].since = now
            self.attend(record.key)
        else:
            self.book.put(replace(record, stage=Stage.ABSENT), now)

    # -- ends -------------------------------------------------------------------------------------------------------

    def _gone(self, record: AwayRecord, reason: str, now: float) -> None:
        self._finish(finished(record, Stage.GONE, reason), now)

    def _unknown(self, record: AwayRecord, reason: str, now: float) -> None:
        self._finish(finished(record, Stage.UNKNOWN, reason), now)

    def _ended(self, record: AwayRecord, end: End, now: float) -> None:
        self._finish(replace(finished(record, Stage.ENDED), end=end), now)

    def _finish(self, record: AwayRecord, now: float) -> None:
        self.book.put(record, now)
        memo = self.book.memos[record.key]
        memo.since = now
        if memo.forgets:
            self.book.drop(record.key)

    # -- what is to be done -----------------------------------------------------------------------------------------

    def attend(self, key: Key) -> None:
        """What home wants of it may have changed."""
        self._attention.add(key)

    def due(self, now: float, submits_max: int) -> Work:
        """The caller writes the changes of the book before it does this."""
        deeds = defaultdict[Deed, list[str]](list)
        deeds[Deed.DELETE] = self._strays
        self._strays = []
        submits = list[AwayRecord]()
        left = set[Key]()
        for key in sorted(self._attention):
            record = self.book.records.get(key)
            if record is None or not record.is_live:
                continue
            if record.stage == Stage.TAKEN:
                if not self._is_to_be_submitted(record, now):
                    continue
                if len(submits) < submits_max:
                    submits.append(record)
                    self.book.memos[key].is_submitting = True
                else:
                    left.add(key)
            elif record.stage == Stage.HERE:
                deed = self._deed(record, now)
                if deed is not None:
                    deeds[deed].append(record.id)
        self._attention = left
        return Work(tuple(submits), tuple(_portions(deeds)), self._searches(now))

    def _is_to_be_submitted(self, record: AwayRecord, now: float) -> bool:
        memo = self.book.memos[record.key]
        if memo.is_submitting:
            return False
        if record.wanted == Wanted.DELETED:
            self._gone(record, "it was deleted before it was submitted", now)
            return False
        return memo.may_submit

    def _deed(self, record: AwayRecord, now: float) -> Deed | None:
        memo = self.book.memos[record.key]
        deed = deed_of(record, memo.expected or record.being)
        if deed is None:
            return None
        memo.expected = EXPECTED[deed]
        self.book.put(
            replace(
                record,
                is_released=record.is_released or deed == Deed.RELEASE,
                was_stopped=record.was_stopped or deed == Deed.SUSPEND,
            ),
            now,
        )
        return deed

    def _searches(self, now: float) -> tuple[Sought, ...]:
        """Once after each look, those that were looked for the longest ago."""
        if not self._is_fresh:
            return ()
        self._is_fresh = False
        memos = self.book.memos
        lost = [each for each in self.book.alive() if _is_missing(each, memos[each.key])]
        lost.sort(key=lambda each: memos[each.key].searched_at)
        for each in lost[:IDS_MAX]:
            memos[each.key].searched_at = now
        return tuple(Sought(each.key.mark, each.id) for each in lost[:IDS_MAX])


def deed_of(record: AwayRecord, being: Being | None) -> Deed | None:
    """What is done with a job that is in this state, so that it becomes what home wants."""
    if record.doom is not None or record.wanted == Wanted.DELETED:
        return None if being == Being.ENDING else Deed.DELETE
    if record.wanted == Wanted.SUSPENDED:
        return {Being.RUNNING: Deed.SUSPEND, Being.QUEUED: Deed.HOLD}.get(being) if being else None
    if being == Being.HELD:
        return Deed.RELEASE
    return Deed.RESUME if being == Being.SUSPENDED and record.was_stopped else None


def _portions(deeds: Mapping[Deed, list[str]]) -> Iterator[tuple[Deed, tuple[str, ...]]]:
    """At most IDS_MAX jobs each."""
    for deed in Deed:
        ids = deeds.get(deed, [])
        for begin in range(0, len(ids), IDS_MAX):
            yield deed, tuple(ids[begin : begin + IDS_MAX])


def _is_missing(record: AwayRecord, memo: Memo) -> bool:
    return memo.missing_at is not None and record.stage in (Stage.HERE, Stage.SOUGHT)


def _unasked(found: Foreign) -> Wanted:
    """Of a job of which no record is left: it stays as it is until home says what it wants."""
    return Wanted.SUSPENDED if found.being in (Being.HELD, Being.SUSPENDED) else Wanted.RUN
