"""How many jobs an hour, lately? A rate that forgets by halves. Pure: time comes in.

Intuition: a leaking bucket under the conveyor belt. Each job adds some water and in each half-life half of it leaks
away, so how full it stands says how many jobs came lately. A bucket that was only just put there is still filling:
how full it would stand by now under a steady belt is known, and is divided out.
"""

from __future__ import annotations

from math import log
from typing import Literal, NamedTuple

S_PER_HOUR = 3600.0
SILENT_HALF_LIVES = 0.1  # so long after the beginning the rate is mere chance, and not told
PER_HOUR_MIN, PER_HOUR_MAX = 1e-6, 1e12  # what is told: above 0 also after a long rest, and finite

Kind = Literal["counter", "gauge"]


class Rate(NamedTuple):
    """As it stood at `at`; seconds are those of one monotonic clock."""

    half_life_s: float
    began: float
    at: float
    level: float = 0.0
    """Jobs a second, weighted by age; too low by what the time before `began` would have added."""

    @classmethod
    def begun(cls, half_life_s: float, now: float) -> Rate:
        return cls(half_life_s, now, now)

    def after_job(self, weight: float, now: float) -> Rate:
        """A job was completed now."""
        added = weight * log(2) / self.half_life_s
        return self._replace(level=self.level * self._left(now) + added, at=max(self.at, now))

    def after_steady(self, per_s: float, now: float) -> Rate:
        """Since `at` so many jobs were completed each second."""
        left = self._left(now)
        return self._replace(level=self.level * left + per_s * (1 - left), at=max(self.at, now))

    @property
    def per_hour(self) -> float | None:
        """At `at`. None: it is too early to tell, or no job was ever completed."""
        half_lives = (self.at - self.began) / self.half_life_s
        if half_lives < SILENT_HALF_LIVES or self.level <= 0:
            return None
        jobs = self.level / (1 - 0.5**half_lives) * S_PER_HOUR
        return float(min(max(jobs, PER_HOUR_MIN), PER_HOUR_MAX))

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
