"""A full queue of many servers is served, while nodes die. With the lab's own batch system.

Inputs are a lab, jobs with priorities, and what is done to nodes meanwhile; output is what an observer of libvirt and
the batch system have seen. Invariant: no verdict depends on what the service says of itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any, Final, NamedTuple

from netlab.common.results import Record
from netlab.elastic.hosted import HEAD, ROOT
from netlab.errors import LabError
from netlab.machines import journal
from netlab.machines.cluster import Kind, MachinesLab, Server
from netlab.machines.rounds import Rounds, summary

RED, BLUE = Kind("red"), Kind("blue")
MACHINES: Final = 20
"""Of a server, half of each type; off."""
CORES: Final = 3
"""Of a server, so that only some of its machines can be on at once, and jobs wait."""
LOOK_S: Final = 1.0
DO_AT: Final = 0.3
INTERIOR: Final = 3
DEAD_S: Final = 15.0
"""A killed node stays away for so long."""


class Wanted(NamedTuple):
    """A job. `priority`: the higher one first."""

    kind: Kind
    priority: int
    lasts_s: float


def servers(number: int) -> list[Server]:
    """No two have machines of one name."""
    half = MACHINES // 2
    found = []
    for each in range(number):
        first = each * half + 1
        machines = (kind.machine(first + place) for kind in (RED, BLUE) for place in range(half))
        found.append(Server(CORES, 2000 + each, tuple(machines)))
    return found


def jobs(number: int, lasts_s: float, seed: int) -> list[Wanted]:
    """Of both types, with priorities that are drawn."""
    drawn = Random(seed)
    return [
        Wanted(drawn.choice((RED, BLUE)), drawn.randrange(1000), lasts_s * drawn.uniform(0.5, 1.5))
        for _ in range(number)
    ]


@dataclass
class Served:
    """`on`: how long machines were on. `dead`: positions that were killed meanwhile."""

    began_at: float
    ended_at: float = 0.0
    ran: list[journal.Ran] = field(default_factory=list)
    changes: list[journal.Change] = field(default_factory=list)
    rounds: Rounds = field(default_factory=Rounds)
    killed_jobs: int = 0
    dead: list[int] = field(default_factory=list)
    on_most: int = 0


Do = Callable[[MachinesLab, Served], None]
"""What happens when a part of the jobs has started."""


def serve(lab: MachinesLab, wanted: Sequence[Wanted], seconds: float, do: Do | None = None) -> Served:
    """Until all jobs have ended. `do`: called once when this part of the jobs has started. Raises LabError."""
    found = Served(time.time())
    numbers = [int(lab.submit(each.kind, each.lasts_s, each.priority)) for each in wanted]
    until, is_done = time.monotonic() + seconds, do is None
    while True:
        found.rounds.look(state_of(lab))
        works = [each for each in lab.batch.jobs() if each.number in numbers]
        found.on_most = max(found.on_most, sum(map(len, lab.watch.on().values())))
        if all(each.ended is not None for each in works):
            break
        started = sum(each.started is not None for each in works)
        lab.lab.progress(f"{started} of {len(works)} jobs have started")
        if do is not None and not is_done and started >= DO_AT * len(works):
            is_done = True
            do(lab, found)
        if time.monotonic() > until:
            raise LabError(f"Not all jobs had ended after {seconds:g} s: {lab.facts()}")
        time.sleep(LOOK_S)
    found.ended_at = time.time()
    lab.watch.settle()
    found.killed_jobs = sum(each.is_killed for each in works)
    found.ran = [each for each in lab.batch.ran() if int(each.job) in numbers]
    found.changes = list(lab.watch.changes)
    return found


def state_of(lab: MachinesLab) -> dict[str, Any]:
    """What the queue's node tells; {}: its daemon does not answer just now."""
    try:
        found: dict[str, Any] = lab.state()
    except LabError:
        return {}
    return found


# -- deaths ----------------------------------------------------------------------------------------------------------


def kill_leaders(lab: MachinesLab, served: Served, dead_s: float = DEAD_S) -> None:
    """The root and INTERIOR nodes that lead others, with their agents; they come back after a while."""
    leaders = Counter(leader for _, leader in lab.lab.places().values() if leader is not None)
    chosen = [each for each, _ in leaders.most_common() if each not in (ROOT, HEAD)][:INTERIOR]
    if len(chosen) < INTERIOR:
        raise LabError(f"Only {len(chosen)} nodes lead others: take more servers, or a lower fan-out.")
    killed = [ROOT, *chosen]
    lab.kill(*killed)
    time.sleep(dead_s)
    lab.lab.start(*killed)
    served.dead += killed


def kill_head_agent(lab: MachinesLab, served: Served) -> None:
    lab.kill_head_agent()
    served.dead.append(HEAD)


# -- figures ---------------------------------------------------------------------------------------------------------


def of_served(lab: MachinesLab, served: Served, slack_s: float) -> Record:
    """Times in seconds. `overtaken_s`: how long before a job one of a lower priority started at most, while both
    waited: median of all jobs, and the most. `surplus`: machines that were started though as many as jobs waited were
    on and free. `unused`: those where no job ran."""
    times = journal.times(served.changes)
    began = [each for each in served.ran if each.started is not None]
    waits = [each.started - each.submitted for each in began if each.started is not None]
    overtaken = journal.overtaken_s(served.ran)
    surplus = journal.surplus(times, served.ran, lambda name: name.partition("-")[0], slack_s)
    return {
        "jobs": len(served.ran),
        "served_s": round(served.ended_at - served.began_at, 1),
        "wait_s": round(median(waits), 1) if waits else None,
        "starts": len(times),
        "on_most": served.on_most,
        "surplus": len(surplus),
        "unused": len(journal.unused(times, served.ran)),
        "overtaken_s_max": round(max(overtaken, default=0.0), 1),
        "overtaken_s": round(median(overtaken), 1) if overtaken else None,
        "killed_jobs": served.killed_jobs,
        "dead": served.dead,
        **summary(served.rounds.all),
        "faults": [*journal.faults(served.changes, lab.have), *faults(served, surplus)],
    }


def faults(served: Served, surplus: Sequence[journal.Time]) -> list[str]:
    """What must not be, in words."""
    found = [f"{served.killed_jobs} jobs were killed"] if served.killed_jobs else []
    found += [f"{each.machine} was started on {each.server} for no job" for each in surplus]
    missing = [each.job for each in served.ran if each.ended is None]
    return [*found, f"the jobs {', '.join(missing)} have not ended"] if missing else found
