"""What follows a try of the work of a stage. Pure.

Inputs are a record, what came of the work, and the time; output is the next record. Invariants: each way ends at
SERVING, or at no record; a node that is not SERVING in time is removed by the four stages, and one that is removed
for that, or is lost, never serves again; a removal never gives up, and hosts tables that cannot be published hold it
up for `wait_s` at most, because the node is paid for.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from subord.services.elastic.stages import ADDING, REMOVING, Record, Stage

FIRST_S: Final = 2.0
BACKOFF_S_MAX: Final = 60.0
WAITING_S_MAX: Final = 10.0
"""While a node comes up."""
HOLD_OFF_S: Final = 300.0
HOLD_OFF_S_MAX: Final = 3600.0
"""After nodes that could not be added, until the next one is begun."""
FAULT_CHARS_MAX: Final = 400
DOUBLINGS_MAX: Final = 16


class Done(NamedTuple):
    """`address`, `paid_since`: of a node that the supplier has started. `prepared`: the mark of a plan whose users it
    has got."""

    address: str = ""
    paid_since: float | None = None
    prepared: str = ""


class Again(NamedTuple):
    """The work is not done. `fault`: whose fault it is, what is unchanged, what to do."""

    fault: str


class Back(NamedTuple):
    """A node that was to be removed is needed."""


Outcome: TypeAlias = Done | Again | Back


def begun(name: str, number: int, kind: str, slots: int, now: float, *, is_wanted: bool = False) -> Record:
    """Of a node that is to be added."""
    return Record(
        name=name,
        number=number,
        kind=kind,
        slots=slots,
        stage=Stage.STARTING,
        entered_at=now,
        began_at=now,
        is_wanted=is_wanted,
    )


def removed(record: Record, now: float, reason: str, *, is_undone: bool = False, is_lost: bool = False) -> Record:
    """It is to be removed. `is_lost`: it has vanished, or does not answer, so it does not serve again."""
    return replace(
        _entered(record, Stage.DRAINING, now),
        began_at=now,
        reason=reason[:FAULT_CHARS_MAX],
        is_undone=is_undone,
        is_lost=is_lost,
    )


def registered_again(record: Record, now: float) -> Record:
    """The batch system has lost a node that serves."""
    return replace(_entered(record, Stage.REGISTERING, now), began_at=now, reason=LOST)


def served_again(record: Record, now: float) -> Record:
    """It was to be removed, and is not."""
    return replace(_entered(record, Stage.SERVING, now), reason="")


LOST: Final = "the batch system did not have it any more, so it is registered again"


def after(record: Record, outcome: Outcome, now: float, wait_s: float) -> Record | None:
    """`wait_s`: elastic.wait_s. None: the node is gone."""
    match outcome:
        case Again(fault):
            failed = replace(record, tries=record.tries + 1, fault=fault[:FAULT_CHARS_MAX])
            if record.stage in ADDING and now - record.began_at >= wait_s:
                return _undone(failed, now, wait_s)
            is_name_left = record.stage == Stage.UNNAMING and now - record.entered_at >= wait_s
            return _unnamed_later(failed, now) if is_name_left else failed
        case Back():
            return served_again(record, now)
        case Done(address, paid_since, prepared):
            following = _following(record.stage)
            if following is None:
                return None
            entered = replace(_entered(record, following, now), prepared=prepared or record.prepared)
            return replace(entered, address=address, paid_since=paid_since) if address else entered


def delay_s(record: Record) -> float:
    """Before the work of its stage is tried again."""
    most = WAITING_S_MAX if record.stage in (Stage.JOINING, Stage.REGISTERING) else BACKOFF_S_MAX
    return min(most, FIRST_S * 2.0 ** min(DOUBLINGS_MAX, max(0, record.tries - 1)))


class Failing(NamedTuple):
    """Nodes that could not be added since one was. `rounds`: how often that was found; nodes that were begun before
    it was found last are of the same round. `at`: when."""

    rounds: int = 0
    at: float = -inf
    reason: str = ""

    def with_undone(self, record: Record, now: float) -> Failing:
        rounds = self.rounds + 1 if record.began_at >= self.at else self.rounds
        return Failing(rounds, now, f"{record.name}: {record.reason}")

    def not_after(self, now: float) -> Failing:
        """The clock may have been set back."""
        return self._replace(at=min(self.at, now))

    @property
    def until(self) -> float:
        """No node is begun before: each is paid for, and what hindered the last ones may last."""
        doubled = HOLD_OFF_S * 2.0 ** min(DOUBLINGS_MAX, self.rounds - 1)
        return self.at + min(HOLD_OFF_S_MAX, doubled) if self.rounds else -inf


def _undone(record: Record, now: float, wait_s: float) -> Record:
    reason = f"it could not be added in {wait_s:.0f} s: {record.stage}: {record.fault}"
    return removed(record, now, reason, is_undone=True)


def _unnamed_later(record: Record, now: float) -> Record:
    """It is paid for until its last stage, and the next table has not its name anyway."""
    left = f"its name stays in tables of hosts until the next one is published: {record.fault}"
    return replace(_entered(record, Stage.UNEXPORTING, now), reason=f"{record.reason}; {left}"[:FAULT_CHARS_MAX])


def _entered(record: Record, stage: Stage, now: float) -> Record:
    return replace(record, stage=stage, entered_at=now, tries=0, fault="")


def _following(stage: Stage) -> Stage | None:
    if stage in REMOVING:
        return REMOVING[REMOVING.index(stage) + 1] if stage != REMOVING[-1] else None
    return (*ADDING, Stage.SERVING)[ADDING.index(stage) + 1]
