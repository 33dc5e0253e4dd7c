"""Everything that is measured trembles by 30 %, and nobody may move for that.

Intuition: a table that is knocked at for ten minutes; a house of cards that is well built does not mind.
"""

from __future__ import annotations

import random
import time
from heapq import heapify, heapreplace

from netlab.common.results import Record
from netlab.eventlog import leader_changes
from netlab.experiments import figures
from netlab.lab import READ_INTERVAL_S, Lab
from netlab.mappings.base import Ground, await_calm
from netlab.mappings.multisite import await_wide
from netlab.mappings.performance import performances

SHARE = 0.3  # up and down
EACH_S = (5.0, 10.0)  # a node keeps what it was given for so long (links: crossing.TREMBLE_S)
LOOK_S = 0.5
NAMED_MAX = 100


def measure_one(ground: Ground) -> Record:
    """One lab. Raises LabError."""
    with ground.lab() as lab:
        try:
            ground.begin(lab)
            by_latency = ground.mapping == "latency"
            calm = await_wide(lab, ground.long_quiet_s) if by_latency else await_calm(lab, ground.quiet_s)
            assert lab.events is not None
            since, mark, begin = leader_changes.baseline(lab.look()), len(lab.events), time.monotonic()
            ground.progress(f"everything trembles for {ground.seconds:g} s", 0, 0)
            changes = tremble_links(lab, ground.seconds) if by_latency else tremble_nodes(lab, ground)
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
            ground.keep(lab)


def tremble_links(lab: Lab, seconds: float) -> int | None:
    """The relay draws anew by itself; how often, it does not tell."""
    lab.tremble(SHARE)
    _look_until(lab, time.monotonic() + seconds)
    lab.tremble(0.0)
    return None


def tremble_nodes(lab: Lab, ground: Ground) -> int:
    """Every node by its own clock; how often somebody was given another performance."""
    chance = random.Random(f"trembling/{ground.number}")
    exact = performances(lab)
    until, begin, changes = time.monotonic() + ground.seconds, time.monotonic(), 0
    agenda = [(begin + EACH_S[1] * chance.random(), position) for position in lab.positions]
    heapify(agenda)
    while agenda[0][0] < until:
        at, position = agenda[0]
        _look_until(lab, at)
        jobs = exact[lab.address(position)] * (1 + SHARE * (2 * chance.random() - 1))
        lab.set_performance(position, jobs)
        changes += 1
        heapreplace(agenda, (max(at, time.monotonic()) + chance.uniform(*EACH_S), position))
    _look_until(lab, until)
    return changes


def _look_until(lab: Lab, until: float) -> None:
    """The log is read meanwhile, so that it never becomes long."""
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
