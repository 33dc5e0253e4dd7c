"""`evaluate stability`, the paper's second test: does the tree come to rest, and when?

Source: HPCS 2015, "Evaluation on virtual network". Every change of place is recorded for half a minute from the first
start, whatever happens.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from netlab.common.results import Record
from netlab.common.tables import Column, comparison
from netlab.eventlog.tree import depth_optimum
from netlab.experiments import figures
from netlab.experiments.evaluate import Evaluation, Run, is_measured

LOOK_INTERVAL_S = 0.2
FIRST_START_S_MAX = 30.0
COLUMNS = (
    Column("last_change_s", "last change, s", 2),
    Column("last_change_after_last_start_s", "after last start, s", 2),
    Column("leader_changes_per_node", "changes a node", 3),
)


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """All sizes with all fan-outs, `repeat` times; each run is recorded for `seconds` from the first start."""

    fanout: tuple[int, ...]
    seconds: float = 30.0

    def runs(self) -> Iterator[Run]:
        return self.by_turns(measure_one, fanout=self.fanout)


def measure_one(plan: Plan, nodes: int, number: int, fanout: int) -> Record:
    log = f"stability-{nodes}-{fanout}-{number}"
    with plan.raised(nodes, fanout, log=log, seed=1 + number, arp_proxy=True) as lab:
        lab.touch_memory()
        lab.progress(f"starting daemons, recording for {plan.seconds:g} s")
        lab.start_all()
        lab.wait(lambda cluster: cluster.first_fork_at is not None, FIRST_START_S_MAX)
        begun_at = lab.cluster.first_fork_at or 0.0
        while time.monotonic() < begun_at + plan.seconds:
            lab.look()
            time.sleep(LOOK_INTERVAL_S)
        cluster = lab.look()
        seen = [event["mono"] - begun_at for event in lab.events if event["event"] == "place"]
        changes = [at for at in seen if at <= plan.seconds]
        by_second = Counter(map(int, changes))
        return {
            "filmed_s": plan.seconds,
            "started_within_s": cluster.last_fork_at - begun_at,
            "last_change_s": max(changes, default=0.0),
            "last_change_after_last_start_s": max(changes, default=0.0) + begun_at - cluster.last_fork_at,
            "places_per_node": len(changes) / nodes,
            "places_by_second": [by_second[second] for second in range(max(by_second, default=-1) + 1)],
            "placed": sum(node.place is not None for node in cluster.live()),
            **figures.of_tree(cluster),
            "depth_optimum": depth_optimum(nodes, fanout),
        }


def is_whole(record: Record) -> bool:
    return is_measured(record) and (record["roots"], record["placed"]) == (1, record["nodes"])


table = partial(
    comparison, keys=("nodes", "fanout"), columns=COLUMNS, is_whole=is_whole, counted="one root", measured=is_measured
)
