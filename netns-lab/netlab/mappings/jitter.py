"""Parts `trembling-*`: everything that is measured changes by 30 %, and no node may move for that."""

from __future__ import annotations

import random
import time
from heapq import heapify, heapreplace

from netlab.common.results import Record
from netlab.eventlog import leader_changes
from netlab.experiments import figures
from netlab.lab import READ_INTERVAL_S, Lab
from netlab.mappings.base import MappingRun, await_quiet, performances
from netlab.mappings.multisite import await_wide

SHARE = 0.3  # up and down
EACH_S = (5.0, 10.0)  # a node keeps a performance for so long (links: wan.REDRAW_S)
LOOK_S = 0.5
NAMED_MAX = 100


def measure_one(run: MappingRun) -> Record:
    """One lab. Raises LabError."""
    with run.lab() as lab:
        try:
            run.begin(lab)
            by_latency = run.mapping == "latency"
            calm = await_wide(lab, run.long_quiet_s) if by_latency else await_quiet(lab, run.quiet_s)
            assert lab.events is not None
            since, mark, begin = leader_changes.baseline(lab.look()), len(lab.events), time.monotonic()
            run.progress(f"jitter for {run.seconds:g} s", 0, 0)
            changes = _of_links(lab, run.seconds) if by_latency else _of_nodes(lab, run)
            moved = leader_changes.moves(lab.look(), since)
            places = [each for each in lab.events[mark:] if each["event"] == "place"]
            return {
                "calm_before": calm,
                "trembled_s": time.monotonic() - begin,
                "share": SHARE,
                "changes": changes,
                "moves": sum(moved.values()),
                "moved": len(moved),
                "places": len(places),
                "places_who": [[round(each["mono"] - begin, 1), each["node"]] for each in places[:NAMED_MAX]],
                **figures.of_tree(lab.cluster),
            }
        finally:
            run.keep(lab)


def _of_links(lab: Lab, seconds: float) -> int | None:
    """The relay draws delays anew by itself; how often is not counted."""
    lab.jitter(SHARE)
    _look_until(lab, time.monotonic() + seconds)
    lab.jitter(0.0)
    return None


def _of_nodes(lab: Lab, run: MappingRun) -> int:
    """Every node at moments of its own; how often a node was given another performance."""
    chance = random.Random(f"trembling/{run.number}")
    exact = performances(lab)
    until, begin, changes = time.monotonic() + run.seconds, time.monotonic(), 0
    due = [(begin + EACH_S[1] * chance.random(), position) for position in lab.positions]
    heapify(due)
    while due[0][0] < until:
        at, position = due[0]
        _look_until(lab, at)
        lab.set_performance(position, exact[lab.address(position)] * (1 + SHARE * (2 * chance.random() - 1)))
        changes += 1
        heapreplace(due, (max(at, time.monotonic()) + chance.uniform(*EACH_S), position))
    _look_until(lab, until)
    return changes


def _look_until(lab: Lab, until: float) -> None:
    """Read the log meanwhile, so that it never becomes long."""
    while (left_s := until - time.monotonic()) > 0:
        if left_s > READ_INTERVAL_S:
            lab.look()
        time.sleep(max(0.0, min(LOOK_S, until - time.monotonic())))


def faults_of(record: Record) -> list[str]:
    """What must not be, in words."""
    bad = {
        "it was not calm before": not record["calm_before"],
        f"{record['places']} changes of place": record["places"],
    }
    return [words for words, holds in bad.items() if holds]
