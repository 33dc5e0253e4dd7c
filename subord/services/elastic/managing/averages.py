"""Averages over the jobs that ended last: how long they ran, and how long they had waited.

Input are records of the batch system's accounting, which may come twice; output are two means. Invariant: at most
JOBS_MAX jobs are kept, those that ended last, and none from before the window that looks back.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Final, NamedTuple

JOBS_MAX: Final = 200


class Ended(NamedTuple):
    """A job, or a task of an array, by a name that no other has. Seconds since 1970."""

    job: str
    submitted: float
    started: float
    ended: float


class Averages:
    """The jobs of one queue."""

    def __init__(self) -> None:
        self._jobs: dict[str, Ended] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, jobs: Iterable[Ended], since: float) -> None:
        """`since`: jobs that ended earlier do not count any more. Clocks that differ make no time negative."""
        found = {**self._jobs, **{each.job: each for each in jobs}}
        kept = sorted((each for each in found.values() if each.ended >= since), key=lambda each: each.ended)
        self._jobs = {each.job: each for each in kept[-JOBS_MAX:]}

    @property
    def duration_s(self) -> float:
        """0: no job has ended."""
        return fmean(max(0.0, each.ended - each.started) for each in self._jobs.values()) if self._jobs else 0.0

    @property
    def wait_s(self) -> float:
        """0: no job has ended."""
        return fmean(max(0.0, each.started - each.submitted) for each in self._jobs.values()) if self._jobs else 0.0
