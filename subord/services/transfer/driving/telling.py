"""What the agent tells: one State of both sides, the batch system and the link. Pure.

Invariant: of many jobs those that need a person come first, then those that are on their way, the oldest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from subord.runtime.transfer.state import COMES, JOBS_MAX, LEAVES, TRANSFERS, JobState, State
from subord.services.transfer.away import Away
from subord.services.transfer.driving.writing import Sides
from subord.services.transfer.exchange import Stage
from subord.services.transfer.home import Home
from subord.services.transfer.jobs import End, Key
from subord.services.transfer.linking.counts import Counts
from subord.services.transfer.states import AwayRecord, HomeRecord, HomeState

BAD: Final = frozenset((str(HomeState.UNKNOWN), str(Stage.UNKNOWN), str(Stage.SOUGHT)))
OVER: Final = frozenset(map(str, (HomeState.ENDED, HomeState.RETURNING, Stage.ENDED, Stage.GONE, Stage.ABSENT)))
MILLISECONDS: Final = 1000.0


class Seen(NamedTuple):
    """What the parts of the driver know beside the sides. Times are seconds since 1970, 0: never."""

    at: float = 0.0
    fault: str = ""
    looks: int = 0
    calls_failed: int = 0
    heard_at: float = 0.0
    asked_at: float = 0.0
    link_fault: str = ""
    listening_fault: str = ""
    starters: int = 0


def state_of(sides: Sides, seen: Seen, counts: Counts, version: int, batch: str) -> State:
    """Of a transfer host."""
    of_home, of_away = sides.home, sides.away
    plan, now = of_home.plan, sides.clock()
    room = of_away.room(now)
    offer = of_away.offer(now)
    jobs = jobs_of(of_home, of_away)
    return State(
        word=TRANSFERS,
        version=version,
        batch=batch,
        cluster=plan.cluster,
        peer=plan.peer_name,
        slots_max=plan.slots_max,
        idle_max=plan.idle,
        poll_s=plan.poll_s,
        at=seen.at,
        fault=seen.fault,
        heard_at=seen.heard_at,
        asked_at=seen.asked_at,
        link_fault=seen.link_fault,
        listening_fault=seen.listening_fault,
        refused_last=counts.refused_last,
        is_up=counts.is_up,
        peer_pending=of_home.sending.pending,
        offer=of_home.sending.offer,
        pending=room.pending,
        room=offer,
        permits_given=len(of_away.permits),
        permits_held=len(of_home.sending.held),
        starters=seen.starters,
        leaving=_by_state(each.state for each in of_home.desk.records.values()),
        coming=_by_state(map(_stage, of_away.book.records.values())),
        left=dict(sides.counts.home),
        taken=dict(sides.counts.away),
        full=of_home.refused + of_away.refused,
        looks=seen.looks,
        calls_failed=seen.calls_failed,
        messages=dict(counts.messages),
        bytes=dict(counts.bytes),
        refusals=dict(counts.refused),
        failures=dict(counts.failed),
        jobs=jobs[:JOBS_MAX],
        left_out=max(0, len(jobs) - JOBS_MAX),
    )


def jobs_of(of_home: Home, of_away: Away) -> tuple[JobState, ...]:
    """Of both directions."""
    found = [*_leaving(of_home.desk.records), *_coming(of_away.book.records)]
    found.sort(key=lambda each: (each.state not in BAD, each.state in OVER, each.since))
    return tuple(found)


def _by_state(words: Iterator[str]) -> dict[str, int]:
    return {str(word): number for word, number in Counter(words).items()}


def _stage(record: AwayRecord) -> str:
    """A job that is here has the state in which it was seen."""
    return record.being if record.stage == Stage.HERE and record.being is not None else record.stage


def _leaving(records: Mapping[Key, HomeRecord]) -> Iterator[JobState]:
    for key, each in records.items():
        yield JobState(
            way=LEAVES,
            job=key.job,
            task=key.task,
            user="" if each.spec is None else each.spec.user,
            state=each.state,
            id=each.id,
            being=each.being or "",
            wanted=each.wanted,
            since=key.attempt / MILLISECONDS,
            reason=each.reason,
            end=_end(each.end),
        )


def _coming(records: Mapping[Key, AwayRecord]) -> Iterator[JobState]:
    for key, each in records.items():
        yield JobState(
            way=COMES,
            job=key.job,
            task=key.task,
            user=each.user,
            state=each.stage,
            id=each.id,
            being=each.being or "",
            wanted=each.wanted,
            since=key.attempt / MILLISECONDS,
            reason=each.reason,
            end=_end(each.end),
        )


def _end(end: End | None) -> str:
    """`status 7`, `signal 9`; "": it has not ended, or that is not known."""
    if end is None:
        return ""
    return f"signal {end.signal}" if end.signal else f"status {end.status}"
