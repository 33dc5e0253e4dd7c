"""How many jobs an hour, lately? A rate that forgets by halves. Pure: time comes in.

Intuition: a leaking bucket under the conveyor belt. Each job adds some water and in each half-life half of it leaks
away, so how full it stands says how many jobs came lately. A bucket that was only just put there is still filling:
how full it would stand by now under a steady belt is known, and is divided out.

Whoever has nothing to do is not slow: when no job has come for a quarter of a half-life, the bucket is closed until
the next one comes. Otherwise a cluster would change its ranks every night, by who happened to get the last job.
"""

from __future__ import annotations

from math import log
from typing import Literal, NamedTuple

S_PER_HOUR = 3600.0
IDLE_HALF_LIVES = 0.25  # so long after a job time counts; 16 % are lost by then, less than two neighbouring classes
SILENT_HALF_LIVES = 0.1  # so long after the beginning the rate is mere chance, and not told
PER_HOUR_MIN, PER_HOUR_MAX = 1e-6, 1e12  # what is told: above 0 also after a long rest, and finite

Kind = Literal["counter", "gauge"]


class Rate(NamedTuple):
    """As it stood at `at`; seconds are those of one monotonic clock."""

    half_life_s: float
    began: float
    at: float
    busy_until: float  # time that counts ends here, unless a job comes
    level: float = 0.0
    """Jobs a second, weighted by age; too low by what the time before `began` would have added."""

    @classmethod
    def begun(cls, half_life_s: float, now: float) -> Rate:
        return cls(half_life_s, now, now, now + IDLE_HALF_LIVES * half_life_s)

    def after_job(self, weight: float, now: float) -> Rate:
        """A job was completed now."""
        passed = self._passed(min(now, self.busy_until), now)
        return passed._replace(
            level=passed.level + weight * log(2) / self.half_life_s,
            busy_until=passed.at + IDLE_HALF_LIVES * self.half_life_s,
        )

    def after_steady(self, per_s: float, now: float) -> Rate:
        """Since `at` so many jobs were completed each second."""
        if per_s <= 0:
            return self._passed(min(now, self.busy_until), now)
        passed = self._passed(now, now)
        return passed._replace(
            level=passed.level + per_s * (1 - self._left(now)),
            busy_until=passed.at + IDLE_HALF_LIVES * self.half_life_s,
        )

    @property
    def per_hour(self) -> float | None:
        """At `at`. None: it is too early to tell, or no job was ever completed."""
        half_lives = (self.at - self.began) / self.half_life_s
        if half_lives < SILENT_HALF_LIVES or self.level <= 0:
            return None
        jobs = self.level / (1 - 0.5**half_lives) * S_PER_HOUR
        return float(min(max(jobs, PER_HOUR_MIN), PER_HOUR_MAX))

    def _passed(self, counted_until: float, now: float) -> Rate:
        """Time goes by: what lies behind `counted_until` is left out, as if we had begun so much later."""
        now = max(self.at, now)
        counted_s = min(max(counted_until - self.at, 0.0), now - self.at)
        skipped_s = now - self.at - counted_s
        level = self.level * self._left(self.at + counted_s)
        return self._replace(level=level, at=now, began=self.began + skipped_s)

    def _left(self, now: float) -> float:
        """What is left now of what there was at `at`."""
        return float(0.5 ** (max(now - self.at, 0.0) / self.half_life_s))


class Reading(NamedTuple):
    """A source was looked at: jobs completed so far (a counter), or jobs an hour (a gauge)."""

    kind: Kind
    value: float


class Followed(NamedTuple):
    """A source that is read again and again."""

    rate: Rate
    last: Reading

    @classmethod
    def begun(cls, half_life_s: float, first: Reading, now: float) -> Followed:
        return cls(Rate.begun(half_life_s, now), first)

    def after(self, reading: Reading, now: float) -> Followed:
        """A counter that went back began anew at 0. The time since the last reading counts as one steady stretch."""
        if reading.kind != self.last.kind:  # somebody exchanged the source: what was measured before is of no use
            return Followed.begun(self.rate.half_life_s, reading, now)
        passed_s = now - self.rate.at
        if passed_s <= 0:
            return self
        per_s = reading.value / S_PER_HOUR
        if reading.kind == "counter":
            began_anew = reading.value < self.last.value
            per_s = (reading.value - (0 if began_anew else self.last.value)) / passed_s
        return Followed(self.rate.after_steady(per_s, now), reading)
