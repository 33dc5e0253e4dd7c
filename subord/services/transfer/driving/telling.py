"""What the agent tells: one State of both sides, the batch system and the link. Pure.

Invariant: of many jobs those that need a person come first, then those that are on their way, the oldest first; the
newest of those that are over come last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import chain
from math import isfinite
from types import MappingProxyType
from typing import Final, NamedTuple

from subord.runtime.log.formats import printable
from subord.runtime.transfer.state import COMES, JOBS_MAX, LEAVES, TRANSFERS, JobState, State
from subord.services.transfer.away import Away
from subord.services.transfer.exchange import Stage
from subord.services.transfer.home import Home
from subord.services.transfer.jobs import End, Key, Usage
from subord.services.transfer.linking.counts import Counts
from subord.services.transfer.states import AwayRecord, HomeRecord, HomeState

BAD: Final = frozenset((str(HomeState.UNKNOWN), str(Stage.UNKNOWN), str(Stage.SOUGHT)))
OVER: Final = frozenset(map(str, (HomeState.ENDED, HomeState.RETURNING, Stage.ENDED, Stage.GONE, Stage.ABSENT)))
ENDS_KEPT: Final = 100
"""Places for jobs that are over, however many cross."""
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
    key_fault: str = ""
    sensor_fault: str = ""
    unit_fault: str = ""
    starters: int = 0
    files: Mapping[str, int] = MappingProxyType({})
    """Bytes of files of jobs, by `sent` and `received`."""
    file_failures: Mapping[str, int] = MappingProxyType({})
    """Jobs whose files have not crossed, by cause."""
    directories: int = 0
    waiting: Mapping[str, int] = MappingProxyType({})
    spool: Mapping[str, int] = MappingProxyType({})
    """These two as State has them."""
    file_fault: str = ""
    file_fault_at: float = 0.0


class Both(NamedTuple):
    """The sides, and what they have counted. `now`: by their clock. `over`: jobs of this cluster whose end was told,
    which may be forgotten."""

    home: Home
    away: Away
    left: Mapping[str, int]
    taken: Mapping[str, int]
    now: float
    over: tuple[HomeRecord, ...] = ()


def state_of(both: Both, seen: Seen, counts: Counts, version: int, batch: str) -> State:
    """Of a transfer host."""
    of_home, of_away, left, taken, now, over = both
    plan = of_home.plan
    room = of_away.room(now)
    offer = of_away.offer(now)
    jobs = jobs_of(of_home, of_away, over)
    records = len(of_home.desk.records) + len(of_away.book)
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
        key_fault=seen.key_fault,
        sensor_fault=seen.sensor_fault,
        unit_fault=seen.unit_fault,
        refused_last=counts.refused_last,
        refused_at=counts.refused_at,
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
        left=dict(left),
        taken=dict(taken),
        full=of_home.refused + of_home.desk.strange_left_out + of_away.refused,
        forged=of_away.watching.forged,
        looks=seen.looks,
        calls_failed=seen.calls_failed,
        messages=dict(counts.messages),
        bytes=dict(counts.bytes),
        refusals=dict(counts.refused),
        failures=dict(counts.failed),
        files=dict(seen.files),
        file_failures=dict(seen.file_failures),
        directories=seen.directories,
        waiting=dict(seen.waiting),
        spool=dict(seen.spool),
        file_fault=seen.file_fault,
        file_fault_at=seen.file_fault_at,
        jobs=jobs,
        left_out=records - sum(not each.is_over for each in jobs),
    )


def jobs_of(of_home: Home, of_away: Away, over: Iterable[HomeRecord] = ()) -> tuple[JobState, ...]:
    """Of both directions, at most JOBS_MAX, some of them for those that are over: of many records only these are
    spelled out."""
    leaving, coming = of_home.desk.records, of_away.book.records
    gone = {each.key: each for each in over if each.key not in leaving}
    ranked = chain(
        ((_rank(each.state, key), True, key) for key, each in leaving.items()),
        ((_rank(each.stage, key), False, key) for key, each in coming.items()),
    )
    chosen = nsmallest(JOBS_MAX - min(len(gone), ENDS_KEPT), ranked)
    found = [_leaving(leaving[key]) if leaves else _coming(coming[key]) for _, leaves, key in chosen]
    newest = sorted(gone, key=lambda key: key.attempt, reverse=True)
    found += [_leaving(gone[key], is_over=True) for key in newest[: JOBS_MAX - len(found)]]
    return tuple(found)


def _rank(word: str, key: Key) -> tuple[bool, bool, int]:
    return word not in BAD, word in OVER, key.attempt


def _by_state(words: Iterator[str]) -> dict[str, int]:
    return {str(word): number for word, number in Counter(words).items()}


def _stage(record: AwayRecord) -> str:
    """A job that is here has the state in which it was seen."""
    return record.being if record.stage == Stage.HERE and record.being is not None else record.stage


def _leaving(each: HomeRecord, *, is_over: bool = False) -> JobState:
    return _job(LEAVES, each, each.user if each.spec is None else each.spec.user, each.state, is_over=is_over)


def _coming(each: AwayRecord) -> JobState:
    return _job(COMES, each, each.user, each.stage)


def _job(way: str, each: HomeRecord | AwayRecord, user: str, state: str, *, is_over: bool = False) -> JobState:
    usage = Usage() if each.end is None else each.end.usage
    return JobState(
        way=way,
        job=each.key.job,
        task=each.key.task,
        user=user,
        state=state,
        id=each.id,
        being=each.being or "",
        wanted=each.wanted,
        since=each.key.attempt / MILLISECONDS,
        reason=each.reason,
        end=_end(each.end),
        host=usage.host,
        wall_s=_amount(usage.wall_s),
        cpu_s=_amount(usage.cpu_s),
        memory_bytes=_size(usage.memory_bytes),
        is_over=is_over,
    )


def _amount(seconds: float | None) -> float | None:
    """None: it is no amount, whatever the other cluster has said."""
    return seconds if seconds is not None and isfinite(seconds) and seconds >= 0 else None


def _size(number: int | None) -> int | None:
    return number if number is not None and number >= 0 else None


def ending_text(record: HomeRecord) -> str:
    """`job 12 is 1001 in the other cluster: ended, status 7, on run1, 12.5 s of processor time`: one line, whatever
    the other cluster has written into its parts."""
    key, end = record.key, record.end
    job = f"job {key.job}.{key.task}" if key.task else f"job {key.job}"
    there = f" is {record.id} in the other cluster" if record.id else " was not in the other cluster"
    usage = Usage() if end is None else end.usage
    cpu_s, memory = _amount(usage.cpu_s), _size(usage.memory_bytes)
    parts = [
        str(record.state),
        _end(end),
        f"on {usage.host}" if usage.host else "",
        "" if cpu_s is None else f"{cpu_s:.1f} s of processor time",
        "" if memory is None else f"{memory >> 20} MiB of virtual memory",
        record.reason,
    ]
    return printable(f"{job}{there}: {', '.join(filter(None, parts))}")


def _end(end: End | None) -> str:
    """`status 7`, `signal 9`; "": it has not ended, or that is not known."""
    if end is None:
        return ""
    return f"signal {end.signal}" if end.signal else f"status {end.status}"
