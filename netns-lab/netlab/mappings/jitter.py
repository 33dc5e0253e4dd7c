"""Parts `trembling-*`: everything that is measured changes by 30 %, and no node may move for that."""

from __future__ import annotations

import random
import time
from heapq import heapify, heapreplace

from netlab.common.results import Record
from netlab.eventlog import changes as log_changes
from netlab.experiments import figures
from netlab.lab import READ_INTERVAL_S, Lab
from netlab.mappings.base import await_quiet, long_quiet_s, performances, quiet_s
from netlab.mappings.multisite import await_wide

SHARE = 0.3  # up and down
EACH_S = (5.0, 10.0)  # a node keeps a performance for so long (links: wan.REDRAW_S)
LOOK_S = 0.5
NAMED_MAX = 100


def measure_one(lab: Lab, number: int, seconds: float) -> Record:
    """So many seconds of jitter. Raises LabError."""
    by_latency = lab.options.mapping == "latency"
    calm = await_wide(lab, long_quiet_s(lab)) if by_latency else await_quiet(lab, quiet_s(lab))
    since, mark, begin = log_changes.baseline(lab.look()), len(lab.events), time.monotonic()
    lab.progress(f"jitter for {seconds:g} s")
    changes = _of_links(lab, seconds) if by_latency else _of_nodes(lab, number, seconds)
    moved = log_changes.moves(lab.look(), since)
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


def _of_links(lab: Lab, seconds: float) -> int | None:
    """The relay draws delays anew by itself; how often is not counted."""
    lab.jitter(SHARE)
    _look_until(lab, time.monotonic() + seconds)
    lab.jitter(0.0)
    return None


def _of_nodes(lab: Lab, number: int, seconds: float) -> int:
    """Every node at moments of its own; how often a node was given another performance."""
    chance = random.Random(f"trembling/{number}")
    exact = performances(lab)
    begin, changes = time.monotonic(), 0
    until = begin + seconds
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


def faults_of(record: Record) -> dict[str, object]:
    return {
        "it was not calm before": not record["calm_before"],
        f"{record['places']} changes of place": record["places"],
    }
