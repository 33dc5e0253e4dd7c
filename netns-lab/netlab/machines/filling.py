"""12 servers with 216 cores that are full, with a real Grid Engine: jobs start in the order of their priorities, and
a type whose queue is never empty keeps its room no longer than its window.

Each machine takes half of a server, or all of one, so that few execds fill all cores.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from random import Random
from statistics import median
from typing import Final

from netlab.common.results import Record
from netlab.elastic.hosted import USER
from netlab.machines import journal
from netlab.machines.cluster import Kind, MachinesLab, Server

CORES: Final = 18
"""Of each of 12 servers, 216 together."""
RED, BLUE = Kind("red", cores=CORES // 2), Kind("blue", cores=CORES // 2)
WIDE_SLOTS: Final = 2
JOB_S: Final = 8.0
ORDER_JOB_S: Final = 25.0
"""More than two periods: until a machine is seen to be busy, and is closed, the batch system may start the next job
of its queue there."""
SECONDS_MAX: Final = 900.0
LOOK_S: Final = 0.3


def servers(number: int) -> list[Server]:
    """Each with two machines of each of the two types, of which two can be on."""
    return [
        Server(CORES, 2000, tuple(kind.machine(2 * each + place) for kind in (RED, BLUE) for place in (1, 2)))
        for each in range(number)
    ]


def guests(number: int) -> list[str]:
    return [kind.machine(each).name for kind in (RED, BLUE) for each in range(1, 2 * number + 1)]


def in_order(lab: MachinesLab, jobs: int, seed: int) -> list[journal.Ran]:
    """What became of so many jobs of both types with priorities that are drawn. Raises LabError."""
    drawn = Random(seed)
    wanted = [(drawn.choice((RED, BLUE)), -drawn.randrange(1000)) for _ in range(jobs)]
    kinds, priorities = dict[str, Kind](), dict[str, int]()
    for kind, priority in wanted:
        job = lab.submit(kind, ORDER_JOB_S, priority, is_held=True)
        kinds[job], priorities[job] = kind, priority
    submitted = time.time()
    lab.engine.release(USER)
    lab.await_that(lambda: _told(lab, kinds), f"{jobs} jobs end", SECONDS_MAX, lab.facts)
    ranks = sorted(kinds, key=lambda job: (-priorities[job], int(job)))
    return [_ran(lab, each, kinds, ranks, submitted) for each in lab.engine.ended() if each["jobnumber"] in kinds]


def _ran(
    lab: MachinesLab, told: Mapping[str, str], kinds: Mapping[str, Kind], ranks: list[str], submitted: float
) -> journal.Ran:
    job = told["jobnumber"]
    started, ended = (lab.engine.seconds(told[key]) for key in ("start_time", "end_time"))
    return journal.Ran(job, kinds[job].name, ranks.index(job), submitted, started, ended, told["hostname"])


def _told(lab: MachinesLab, submitted: Collection[str]) -> bool:
    counted = len(lab.engine.lines())
    lab.lab.progress(f"{counted} of {len(submitted)} jobs have not ended")
    return not counted and {each["jobnumber"] for each in lab.engine.ended()} >= set(submitted)


def of_order(jobs: list[journal.Ran], lab: MachinesLab) -> Record:
    overtaken = journal.overtaken_s(jobs)
    times = journal.times(lab.watch.changes)
    began = [each.started for each in jobs if each.started is not None]
    return {
        "jobs": len(jobs),
        "served_s": round(max(began) - min(each.submitted for each in jobs), 1),
        "starts": len(times),
        "on_most": most_on(times),
        "overtaken_s": round(median(overtaken), 1),
        "overtaken_s_max": round(max(overtaken), 1),
    }


def most_on(times: list[journal.Time]) -> int:
    """At one instant."""
    return max(
        (sum(each.since <= at.since < (each.until or at.since + 1) for each in times) for at in times), default=0
    )


# -- windows ---------------------------------------------------------------------------------------------------------


def wide(window_s: int) -> Kind:
    return Kind("wide", cores=CORES, slots=WIDE_SLOTS, window_s=window_s)


def wide_servers(number: int, window_s: int) -> list[Server]:
    """Each with a machine that takes all of it, and one of another type."""
    return [Server(CORES, 2000, (wide(window_s).machine(each + 1), RED.machine(each + 1))) for each in range(number)]


def wide_guests(number: int) -> list[str]:
    return [kind.machine(each).name for kind in (wide(0), RED) for each in range(1, number + 1)]


def starved_s(lab: MachinesLab, kind: Kind, servers: int, seconds: float) -> float | None:
    """How long the job with the highest priority waits, while the queue of the other type is never empty; None: it
    has not started within `seconds`. Raises LabError."""
    full = servers * kind.slots
    feed(lab, kind, 2 * full)
    lab.await_that(lambda: len(running(lab)) >= full, "all servers are full", SECONDS_MAX, lab.facts)
    submitted = time.time()
    job = lab.submit(RED, JOB_S, 0)
    while time.time() - submitted < seconds:
        feed(lab, kind, 2 * full)
        waits_s = time.time() - submitted
        if job in running(lab) or any(each["jobnumber"] == job for each in lab.engine.ended()):
            return waits_s
        lab.lab.progress(f"the first job waits for {waits_s:.0f} s")
        time.sleep(LOOK_S)
    return None


def feed(lab: MachinesLab, kind: Kind, number: int) -> None:
    """So many jobs of this type are there."""
    there = sum(len(line) > 4 for line in lab.engine.lines("-q", kind.name)) if number else 0
    for _ in range(number - there):
        lab.submit(kind, JOB_S, -500)


def running(lab: MachinesLab) -> set[str]:
    return {line[0] for line in lab.engine.lines("-s", "r")}
