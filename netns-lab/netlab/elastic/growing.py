"""A run of an elastic cluster: jobs come, nodes are added and removed, and what was seen meanwhile.

Inputs are jobs and a cluster that manages itself; output is a Run. What nodes exist is read from the
supplier, and what ran from the accounting of the batch system, so a manager that errs about itself is found.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from netlab.elastic.cluster import Bought, ElasticLab
from netlab.errors import LabError
from subord.services.elastic.stages import ADDING, Record, Stage

LOOK_S: Final = 0.1
FEED_S: Final = 1.0


class Sample(NamedTuple):
    """`paid`: nodes of the supplier. `stages`: how many records are in which."""

    at: float
    paid: int
    stages: Counter[Stage]


@dataclass
class Run:
    """`began_at`: by the clock of the machine, like all times but those of `polled`: which nodes were added, and at
    which poll each, by the clock of the manager."""

    began_at: float
    ended_at: float = 0.0
    jobs: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    polled: dict[str, float] = field(default_factory=dict)
    bill: list[Bought] = field(default_factory=list)
    ended: list[dict[str, str]] = field(default_factory=list)

    @property
    def most(self) -> int:
        """Nodes of the supplier at one time."""
        return max((each.paid for each in self.samples), default=0)

    @property
    def most_serving(self) -> int:
        return max((each.stages[Stage.SERVING] for each in self.samples), default=0)

    @property
    def most_at_once(self) -> int:
        """Nodes that were added for one poll. On a busy machine the supplier may start those of the next poll at once
        after them, so its bill does not tell."""
        return max(Counter(self.polled.values()).values(), default=0)

    @property
    def killed(self) -> list[dict[str, str]]:
        return killed(self.ended)


Feed = Callable[[Run], Iterable[str]]
"""The scripts of the jobs that come now, called every FEED_S; none: no job comes any more."""


def until_largest(waiting: int, added: int, takes_s: float) -> Feed:
    """So many jobs come at the begin, and one a second until all nodes that may be added serve: the queue is long
    enough for that, on a slow machine too."""

    def feed(run: Run) -> Iterable[str]:
        if not run.jobs:
            return [sleeper(takes_s)] * waiting
        return [sleeper(takes_s)] if run.most_serving < added else ()

    return feed


def sleeper(seconds: float) -> str:
    return f"exec sleep {seconds:g}"


def run(cluster: ElasticLab, feed: Feed, seconds: float, look: Callable[[Run], None] = lambda _run: None) -> Run:
    """Until no job comes any more, all have ended, and no node of the supplier is left. `look` is called all the
    time. Raises LabError after `seconds`."""
    found, began, fed_at, is_fed = Run(time.time()), time.monotonic(), -inf, True
    while True:
        if is_fed and time.monotonic() - fed_at >= FEED_S:
            fed_at = time.monotonic()
            come = list(feed(found))
            found.jobs += map(cluster.submit, come)
            is_fed = bool(come)
        records = cluster.records()
        found.samples.append(Sample(time.time(), len(cluster.supplied()), _stages(records)))
        for name, record in records.items():
            if record.stage in (*ADDING, Stage.SERVING):
                found.polled.setdefault(name, record.began_at)
        look(found)
        if not is_fed and is_at_rest(cluster) and not cluster.engine.lines():
            break
        if time.monotonic() - began > seconds:
            raise LabError(f"The cluster was not at rest after {seconds:g} s: {facts(cluster)}")
        time.sleep(LOOK_S)
    found.ended_at = time.time()
    cluster.engine.await_that(
        lambda: {each["jobnumber"] for each in cluster.engine.ended()} >= set(found.jobs), "all jobs are accounted"
    )
    found.bill = [each for each in cluster.bill() if each.ended_at is None or each.ended_at > found.began_at]
    found.ended = [each for each in cluster.engine.ended() if each["jobnumber"] in found.jobs]
    return found


def killed(ended: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Runs of jobs that did not end by themselves."""
    return [each for each in ended if each["failed"].split()[0] != "0" or each["exit_status"] != "0"]


def _stages(records: Mapping[str, Record]) -> Counter[Stage]:
    return Counter(each.stage for each in records.values())


def is_at_rest(cluster: ElasticLab) -> bool:
    """No node of the supplier is left, and no record of one."""
    return not cluster.records() and not cluster.supplied()


def faults(cluster: ElasticLab) -> list[str]:
    """Where the supplier, the records, the batch system and the bill differ, in words."""
    supplied, records, hosts = cluster.supplied(), cluster.records(), set(cluster.engine.hosts())
    others = hosts - cluster.permanent
    found = [f"{name} is paid for, and has no record" for name in sorted(set(supplied) - set(records))]
    found += [f"{name} has a record, and is no node" for name in sorted(set(records) - set(supplied))]
    found += [f"{name} is in stage {each.stage}" for name, each in records.items() if each.stage != Stage.SERVING]
    found += [f"the batch system knows {name}, which has no record" for name in sorted(others - set(records))]
    found += [f"the batch system does not know {name}" for name in sorted(set(records) - others)]
    bought, known = len(cluster.bill()), cluster.counters()["removed"] + len(records)
    if bought > known:
        found.append(f"{bought} nodes were paid for, and there were {known} records")
    return found


def facts(cluster: ElasticLab) -> str:
    records = ", ".join(
        f"{name} {each.stage} ({each.tries} tries: {each.fault})" for name, each in cluster.records().items()
    )
    jobs = Counter(line[4] for line in cluster.engine.lines() if len(line) > 4)
    return f"nodes {sorted(cluster.supplied())}, records {records or 'none'}, jobs {dict(jobs)}"
