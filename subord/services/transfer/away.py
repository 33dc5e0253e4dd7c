"""The away side: jobs of the other cluster come here, run, and their ends go home. Pure.

Inputs are messages of home, and what `watching` takes from the batch system; outputs are answers, changes of records,
and work. The caller writes the changes to the disk before it sends the answer or does the work. Invariants: there are
never more foreign jobs and permits than the plan allows; a job is taken only with a permit of this life; a message
that is older than one that was heeded changes nothing; of a job that is not known here, and was sent to an earlier
life, it is not said that it is not here before the batch system and its accounting were asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from subord.services.batch.records import Refused, Unavailable
from subord.services.transfer.cells.interface import Being, Ended, Look, Sought, Submitted
from subord.services.transfer.exchange import ENTRIES_MAX, RELEASE, Answer, Care, Message, Stage, Submit
from subord.services.transfer.jobs import NO_FILES, Key, Spec, Wanted, archive_bytes_max
from subord.services.transfer.mapping import Stays, local_user
from subord.services.transfer.permits import Permits, Room, margin
from subord.services.transfer.plan import Plan
from subord.services.transfer.sides.book import RECORDS_MAX, Book, finished
from subord.services.transfer.sides.watching import Watching, Work
from subord.services.transfer.states import AwayRecord
from subord.services.transfer.thresholds import STALE_POLLS


class Kept(NamedTuple):
    """What was on the disk at the start. `written`: how often it had been written. `restored_life`: see Watching."""

    records: tuple[AwayRecord, ...] = ()
    written: int = 0
    restored_life: int = 0


class Changes(NamedTuple):
    """To be written together. None: the record is to be deleted. `restored_life`: None: as before."""

    records: Mapping[Key, AwayRecord | None]
    restored_life: int | None = None


class Away:
    """`life`: of this process, above that of every earlier one."""

    def __init__(self, plan: Plan, life: int, kept: Kept, now: float) -> None:
        self.plan = plan
        self.life = life
        self.permits = Permits()
        self.refused = 0
        """Jobs that were not taken since there was no room for their records."""
        self.book = Book(kept.records, now)
        self.watching = Watching(self.book, plan)
        self.watching.restored_life = kept.restored_life
        self.written = kept.written
        """How often the records were written; the caller sets it after each time."""
        self._written_at_start = kept.written
        self._told_restored_life = kept.restored_life
        self._home_life = self._number = 0
        for record in list(self.book.records.values()):
            if record.stage == Stage.TAKEN:  # it may have been submitted, since the record may be an older copy
                self.book.put(replace(record, stage=Stage.SOUGHT), now)

    def follow(self, plan: Plan) -> None:
        """Another version of the plan. Jobs that are here go on."""
        self.plan = plan
        self.watching.plan = plan

    def changes(self) -> Changes:
        """Since the last call."""
        life = self.watching.restored_life
        is_new = life != self._told_restored_life
        self._told_restored_life = life
        return Changes(self.book.changes(), life if is_new else None)

    # -- the batch system -------------------------------------------------------------------------------------------

    def looked(self, look: Look, began: float, now: float) -> None:
        self.watching.looked(look, began, now)

    def submitted(self, key: Key, outcome: Submitted | Refused | Unavailable, now: float) -> None:
        self.watching.submitted(key, outcome, now)

    def accounted(self, asked: Iterable[Sought], ended: Sequence[Ended], began: float, now: float) -> None:
        self.watching.accounted(asked, ended, began, now)

    def due(self, now: float, submits_max: int) -> Work:
        return self.watching.due(now, submits_max)

    # -- room -------------------------------------------------------------------------------------------------------

    def room(self, now: float) -> Room:
        plan, watching = self.plan, self.watching
        age_s = inf if watching.looked_at is None else now - watching.looked_at
        is_known = age_s <= STALE_POLLS * plan.poll_s and not plan.is_off
        return Room(
            slots_max=plan.slots_max,
            idle_pending_max=plan.idle,
            foreign=len(self.book.live),
            pending=watching.pending if is_known else None,
            coming=sum(map(_is_uncounted, self.book.alive())),
            records=RECORDS_MAX - len(self.book),
        )

    def offer(self, now: float) -> int:
        """How many permits could be granted now."""
        self.permits.expire(now)
        return margin(self.room(now), len(self.permits))

    # -- home -------------------------------------------------------------------------------------------------------

    def hear(self, message: Message, now: float) -> Answer:
        refused = self._refusal(message)
        if refused:
            return self._answer(message, refused=refused)
        if message.life != self._home_life:
            self._home_life = message.life
            self.book.hear_all()
            self.permits.keep(())
        self._number = message.number
        self._compare(message)
        if message.to_life == self.life:
            self.book.heard(message.heard)
        for submit in message.submits:
            self._submit(submit, message.to_life, now)
        for care in message.cares:
            self._care(care, now)
        forgotten = tuple(each for each in message.forgets if self._forget(each, now))
        self.permits.keep(message.holds if message.to_life == self.life else ())
        grants = self.permits.grant(message.permits, self.room(now), now, self.plan.lease_s)
        states, changed, is_more = self.book.news(ENTRIES_MAX)
        looked_at = self.watching.looked_at
        return replace(
            self._answer(message),
            offer=self.offer(now),
            pending=None if looked_at is None else self.watching.pending,
            pending_age_s=0.0 if looked_at is None else now - looked_at,
            files_bytes_max=self.plan.takes_bytes_max,
            grants=grants,
            lease_s=float(self.plan.lease_s),
            states=states,
            changed=changed,
            is_more=is_more,
            forgotten=forgotten,
        )

    def _answer(self, message: Message, refused: str = "") -> Answer:
        return Answer(
            cluster=self.plan.cluster,
            life=self.life,
            home_life=message.life,
            number=message.number,
            written=self.written,
            refused=refused,
            newest=max(self._home_life, message.life if not refused else 0),
        )

    def _refusal(self, message: Message) -> str:
        plan = self.plan
        if message.release > RELEASE:
            return "this cluster has an earlier release of the exchange"
        if plan.is_off or message.cluster != plan.peer_name:
            return f"the plan of {plan.cluster} does not name {message.cluster} as its peer"
        if message.to != plan.cluster:
            return f"this cluster is {plan.cluster}, and not {message.to}: correct the name of the peer in your plan"
        keys = [each.key for each in message.submits] + [each.key for each in message.cares] + list(message.forgets)
        if any(key.cluster != message.cluster for key in keys):
            return "the message is of jobs of another cluster"
        if (message.life, message.number) <= (self._home_life, self._number):
            return "a later message was heeded before"
        return ""

    def _compare(self, message: Message) -> None:
        """Home has heard of a later state of the records than they were in at the start: an older copy of them was
        restored."""
        if message.to_life != self.life and message.written > self._written_at_start:
            self.watching.restored_life = self.life
        self.watching.has_heard = True

    def _submit(self, submit: Submit, to_life: int, now: float) -> None:
        record = self.book.records.get(submit.key)
        if to_life != self.life or (record is not None and record.stage != Stage.ABSENT):
            self._care(Care(submit.key, submit.wanted, to_life, False), now)
        elif self.book.is_full and record is None:
            self.refused += 1
        elif not self.permits.use(submit.permit, now):
            self.book.put(AwayRecord(key=submit.key, stage=Stage.ABSENT), now)
            self.book.touch(submit.key)
        else:
            self._take(submit, now)

    def _take(self, submit: Submit, now: float) -> None:
        record = AwayRecord(key=submit.key, stage=Stage.TAKEN, wanted=submit.wanted, life=self.life, spec=submit.spec)
        user = local_user(self.plan, submit.spec.user)
        if isinstance(user, Stays):
            self.book.put(finished(record, Stage.GONE, user.reason), now)
            return
        most = max(1, self.plan.slots_max)  # 0: the permit is of an earlier plan
        if submit.spec.slots > most:
            reason = f"it needs {submit.spec.slots} slots, and the other cluster takes jobs of at most {most}"
            self.book.put(finished(record, Stage.GONE, reason), now)
            return
        if reason := self._too_much(submit.spec):
            self.book.put(finished(record, Stage.GONE, reason), now)
            return
        spec = replace(submit.spec, project=self.plan.project)
        self.book.put(replace(record, user=user, spec=spec), now)
        self.watching.attend(submit.key)

    def _too_much(self, spec: Spec) -> str:
        """Why its files do not come here; "": they may."""
        if spec.files is None:
            return ""
        most = self.plan.takes_bytes_max
        if not most:
            return NO_FILES
        if spec.files.size > archive_bytes_max(most, self.plan.files_max) or spec.files.count > self.plan.files_max:
            return (
                f"its {spec.files.count} files have {spec.files.size} bytes packed, and the other cluster takes at "
                f"most {self.plan.files_max} with {most}"
            )
        return ""

    def _care(self, care: Care, now: float) -> None:
        record = self.book.records.get(care.key)
        if record is None and self.book.is_full:
            self.refused += 1
            return
        if record is None or (record.stage == Stage.ABSENT and care.is_abroad):
            self._seek(care, now)
        elif record.stage == Stage.ABSENT:
            if care.wanted == Wanted.DELETED:
                self.book.put(finished(record, Stage.GONE, "it was never submitted"), now)
        elif not record.stage.is_final:
            wanted = record.wanted if record.wanted == Wanted.DELETED else care.wanted
            is_lost = care.is_abroad and record.stage == Stage.SOUGHT and record.spec is None
            must_exist = record.must_exist or is_lost
            was_stopped = record.was_stopped or care.was_stopped
            self.book.put(replace(record, wanted=wanted, must_exist=must_exist, was_stopped=was_stopped), now)
            self.watching.attend(care.key)
        self.book.touch(care.key)

    def _seek(self, care: Care, now: float) -> None:
        """This life knows all that was sent to it; what was sent before may have been forgotten."""
        record = AwayRecord(
            key=care.key, stage=Stage.SOUGHT, wanted=care.wanted, life=care.life, was_stopped=care.was_stopped
        )
        if care.life == self.life and not care.is_abroad:
            is_deleted = care.wanted == Wanted.DELETED
            record = finished(record, Stage.GONE if is_deleted else Stage.ABSENT, "it was never submitted")
        self.book.put(replace(record, must_exist=care.is_abroad), now)
        self.book.memos[care.key].since = now

    def _forget(self, key: Key, now: float) -> bool:
        """Whether nothing is left of it. What still runs, of which home has had an end before, is ended first."""
        record = self.book.records.get(key)
        if record is None or not record.is_live:
            self.book.drop(key)
            return True
        self.book.memos[key].forgets = True
        self.book.put(replace(record, wanted=Wanted.DELETED), now)
        self.watching.attend(key)
        return False


def _is_uncounted(record: AwayRecord) -> bool:
    """Whether it waits, or is going to, and a look has not counted it among those that wait."""
    if record.wanted == Wanted.DELETED:
        return False
    return record.stage != Stage.HERE or record.being in (None, Being.HELD)
