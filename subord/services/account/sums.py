"""Sums up records of jobs, and says what the sums cover.

Inputs are records with their names, and a period; outputs are a row for each user, day or the like, and counts of
what was read. The period is that of the end of a job, so each job is in one. Invariants: every record that was read
is in a row, or outside the period, or counted as unreadable or repeated; a job with records of several hosts counts
once.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import groupby
from math import inf
from typing import Final, NamedTuple

from subord.services.account.reading import Stored
from subord.services.account.record import Job, is_late, read
from subord.services.account.times import day

SLACK_S: Final = 86_400.0
"""A record is stored after its job has ended, by the clock of the sink, which may be wrong by this much."""


DIGEST_BYTES: Final = 16
_EARLIEST: Final = -float(1 << 62)
"""Of the integers of databases."""


class Period(NamedTuple):
    """Jobs that ended from `since` on and before `until`, in seconds since 1970."""

    since: float = -inf
    until: float = inf

    @property
    def stored_since(self) -> float:
        """All records of the period were stored then or later."""
        return max(_EARLIEST, self.since - SLACK_S)

    def covers(self, at: float) -> bool:
        return self.since <= at < self.until


class Sums:
    """Of the jobs of one row."""

    def __init__(self) -> None:
        self._jobs = set[tuple[str, str, float]]()
        self._failed = set[tuple[str, str, float]]()
        self.wall_s = self.slot_s = self.cpu_s = 0.0

    def add(self, job: Job) -> None:
        key, wall_s = job.key, job.wall_s
        self._jobs.add(key)
        if job.has_failed:
            self._failed.add(key)
        self.wall_s += wall_s
        self.slot_s += wall_s * job.slots
        self.cpu_s += job.cpu_s or 0.0

    def merge(self, other: Sums) -> None:
        """A job of both counts once."""
        self._jobs |= other._jobs
        self._failed |= other._failed
        self.wall_s += other.wall_s
        self.slot_s += other.slot_s
        self.cpu_s += other.cpu_s

    @property
    def jobs(self) -> int:
        return len(self._jobs)

    @property
    def failed(self) -> int:
        return len(self._failed)


class Report:
    """`records` and `unreadable`: of the period. `repeated`: records of the period that their node had written
    before, alike in every field; a writer gives a record again when it had no answer. `late`: stored more than a day
    after the end of their jobs. `without_start`, `without_cpu`, `without_status`: records that do not say it, and
    count as 0 there."""

    def __init__(self, by: str, period: Period) -> None:
        self.rows = defaultdict[str, Sums](Sums)
        self.records = self.unreadable = self.repeated = self.late = 0
        self.without_start = self.without_cpu = self.without_status = 0
        self._name_of = _naming(by)
        self._period = period
        self._seen = set[bytes]()
        """Digests of the records of the period."""

    def add(self, stored: Stored) -> None:
        """A record, which was not added before."""
        job = read(stored.body)
        if job is None:
            self.unreadable += self._period.covers(stored.stored_at)
        elif self._period.covers(job.ended):
            if self._is_repeated(stored):
                self.repeated += 1
                return
            self.records += 1
            self.late += is_late(job, stored.stored_at)
            self.without_start += job.started is None
            self.without_cpu += job.cpu_s is None
            self.without_status += job.status is None and job.signal is None
            self.rows[self._name_of(stored, job)].add(job)

    def _is_repeated(self, stored: Stored) -> bool:
        digest = blake2b(stored.node.encode() + b"\0" + stored.body, digest_size=DIGEST_BYTES).digest()
        is_known = digest in self._seen
        self._seen.add(digest)
        return is_known

    def total(self) -> Sums:
        """Of all rows."""
        found = Sums()
        for each in self.rows.values():
            found.merge(each)
        return found

    def sorted_rows(self) -> list[tuple[str, Sums]]:
        """The greatest first; days in their order."""
        return sorted(self.rows.items(), key=lambda row: (-row[1].slot_s, -row[1].jobs, row[0]))


def _naming(by: str) -> Callable[[Stored, Job], str]:
    """The row of a record."""
    if by == "host":
        return lambda stored, job: job.host or stored.node
    if by == "day":
        return lambda _, job: day(job.ended)
    return lambda _, job: str(getattr(job, by))


def _identity(stored: Stored) -> tuple[object, ...]:
    return *stored.name, stored.body


def each_once(sources: list[Iterable[Stored]]) -> Iterator[Stored]:
    """Records of several databases, each in the order of their names: of equal ones the first. Two with one name and
    different bodies are of two clusters, and both count."""
    if len(sources) == 1:
        yield from sources[0]
        return
    merged = heapq.merge(*sources, key=_identity)
    for _, same in groupby(merged, key=_identity):
        yield next(same)
