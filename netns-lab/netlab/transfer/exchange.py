"""Jobs that come to two clusters unevenly, while daemons die: a schedule, and what became of the jobs.

Inputs are the slots of the clusters and the lines of their accounting; outputs are pure functions of these. The same
schedule is used whether the clusters exchange jobs or not, or are one cell. Invariant: what a run is told is read
from the accounting of the cell where the job was submitted.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from statistics import median
from typing import Final, NamedTuple

from netlab.common.results import Record

BUSY: Final = 1.6
QUIET: Final = 0.2
"""Work that comes to a cluster in a phase, as parts of its slots: together they have nine tenths of all slots."""
BUCKET_S: Final = 30


class Arrival(NamedTuple):
    """`at_s`: since the begin. `side`: 0 or 1. `status`: with which the job ends."""

    at_s: float
    side: int
    status: int


class Lived(NamedTuple):
    """A job of the accounting, by the clock of the machine, in whole seconds."""

    submitted_at: int
    ended_at: int


def schedule(slots: int, job_s: float, phase_s: float, seconds: float, seed: int) -> list[Arrival]:
    """Jobs of `job_s` that come to two clusters of so many slots each. One of them is busy in a phase, the other one
    in the next."""
    chance = random.Random(seed)
    found: list[Arrival] = []
    for side in (0, 1):
        at_s = 0.0
        while True:
            is_busy = int(at_s / phase_s) % 2 == side
            at_s += chance.expovariate((BUSY if is_busy else QUIET) * slots / job_s)
            if at_s >= seconds:
                break
            found.append(Arrival(at_s, side, chance.randrange(8)))
    return sorted(found)


def of_jobs(lived: Sequence[Lived], job_s: float, began_at: float) -> Record:
    """What the users saw: jobs that ended a minute, and how long a job took beyond its own time."""
    if not lived:
        return {"ended": 0, "per_min": 0.0, "extra_s": None, "extra_s_high": None, "last_s": None, "ends": []}
    extra = sorted(each.ended_at - each.submitted_at - job_s for each in lived)
    last_s = max(each.ended_at for each in lived) - began_at
    return {
        "ended": len(lived),
        "per_min": round(60 * len(lived) / last_s, 2),
        "extra_s": round(median(extra), 1),
        "extra_s_high": round(extra[ceil(0.95 * len(extra)) - 1], 1),
        "last_s": round(last_s, 1),
        "ends": list(_ends(lived, began_at)),
    }


def _ends(lived: Iterable[Lived], began_at: float) -> Iterator[int]:
    """How many jobs ended in each BUCKET_S."""
    buckets = [int((each.ended_at - began_at) // BUCKET_S) for each in lived]
    for bucket in range(max(buckets) + 1):
        yield buckets.count(bucket)
