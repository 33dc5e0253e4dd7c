"""The rate of completed jobs as an exponentially weighted average. Pure.

A job counts half after each half-life. The average of a short history is corrected by the weight of the time before
its beginning. An idle node is not slow: after IDLE_HALF_LIVES without a job, time does not count until the next job.
Else the ranks of a cluster would change every night at random, by the order of the last jobs.
"""

from __future__ import annotations

from math import log
from typing import Literal, NamedTuple

S_PER_HOUR = 3600.0
IDLE_HALF_LIVES = 0.25  # time counts this long after a job; the rate falls by 16 %, less than two classes
SILENT_HALF_LIVES = 0.1  # the rate is not known this long after the beginning
PER_HOUR_MIN, PER_HOUR_MAX = 1e-6, 1e12  # bounds of the result: above 0 and finite

Kind = Literal["counter", "gauge"]


class Rate(NamedTuple):
    """The state at time `at`. All times are seconds of one monotonic clock."""

    half_life_s: float
    began: float
    at: float
    busy_until: float  # time counts until here, unless a job is completed
    level: float = 0.0
    """Jobs a second, weighted by age, without the correction for the time before `began`."""

    @classmethod
    def begun(cls, half_life_s: float, now: float) -> Rate:
        return cls(half_life_s, now, now, now + IDLE_HALF_LIVES * half_life_s)

    def after_job(self, weight: float, now: float) -> Rate:
        """The state after a job that was completed now."""
        passed = self._passed(min(now, self.busy_until), now)
        return passed._replace(
            level=passed.level + weight * log(2) / self.half_life_s,
            busy_until=passed.at + IDLE_HALF_LIVES * self.half_life_s,
        )

    def after_steady(self, per_s: float, now: float) -> Rate:
        """The state after a steady `per_s` jobs a second since `at`."""
        if per_s <= 0:
            return self._passed(min(now, self.busy_until), now)
        passed = self._passed(now, now)
        return passed._replace(
            level=passed.level + per_s * (1 - self._left(now)),
            busy_until=passed.at + IDLE_HALF_LIVES * self.half_life_s,
        )

    @property
    def per_hour(self) -> float | None:
        """Jobs an hour at `at`. None: it is too early, or no job was completed yet."""
        half_lives = (self.at - self.began) / self.half_life_s
        if half_lives < SILENT_HALF_LIVES or self.level <= 0:
            return None
        jobs = self.level / (1 - 0.5**half_lives) * S_PER_HOUR
        return float(min(max(jobs, PER_HOUR_MIN), PER_HOUR_MAX))

    def _passed(self, counted_until: float, now: float) -> Rate:
        """The state at `now` without new jobs. Time after `counted_until` does not count: `began` moves by it."""
        now = max(self.at, now)
        counted_s = min(max(counted_until - self.at, 0.0), now - self.at)
        skipped_s = now - self.at - counted_s
        level = self.level * self._left(self.at + counted_s)
        return self._replace(level=level, at=now, began=self.began + skipped_s)

    def _left(self, now: float) -> float:
        """The factor by which the weights of `at` have decayed."""
        return float(0.5 ** (max(now - self.at, 0.0) / self.half_life_s))


class Reading(NamedTuple):
    """The value of a source: jobs completed so far (a counter), or jobs an hour (a gauge)."""

    kind: Kind
    value: float


class SampledRate(NamedTuple):
    """The rate of a source that is read repeatedly."""

    rate: Rate
    last: Reading

    @classmethod
    def begun(cls, half_life_s: float, first: Reading, now: float) -> SampledRate:
        return cls(Rate.begun(half_life_s, now), first)

    def after(self, reading: Reading, now: float) -> SampledRate:
        """The state after a new reading. Jobs since the last reading count as evenly spread. A counter that decreased
        restarted at 0.
        """
        if reading.kind != self.last.kind:  # the source was replaced: earlier values do not apply
            return SampledRate.begun(self.rate.half_life_s, reading, now)
        passed_s = now - self.rate.at
        if passed_s <= 0:
            return self
        per_s = reading.value / S_PER_HOUR
        if reading.kind == "counter":
            restarted = reading.value < self.last.value
            per_s = (reading.value - (0 if restarted else self.last.value)) / passed_s
        return SampledRate(self.rate.after_steady(per_s, now), reading)
