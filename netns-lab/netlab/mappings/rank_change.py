"""Part `performance`: how well the tree is ordered, and what happens when one node becomes slower, or faster.

That node shall change its level, and no other node shall move.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from netlab.common.results import Record
from netlab.errors import LabError
from netlab.eventlog import changes as log_changes
from netlab.eventlog.tree import depth_optimum
from netlab.experiments import figures
from netlab.lab import Lab
from netlab.mappings import ranking
from netlab.mappings.base import await_quiet, performances, quiet_s, statuses
from subord.core.quantize import class_of

TIMES = 8.0  # slower, and faster
NAMED_MAX = 40


def measure_one(lab: Lab, number: int) -> Record:
    """The order of the tree, and the two changes. Raises LabError."""
    await_quiet(lab, quiet_s(lab))
    found: Record = {
        "last_move_s": lab.cluster.last_place_at - lab.cluster.last_fork_at,
        "places_per_node": statistics.fmean(node.places for node in lab.cluster.live()),
        **figures.of_tree(lab.cluster),
        "depth_optimum": depth_optimum(len(lab.positions), lab.options.fanout),
        **judged(lab),
        **_reported(lab),
    }
    chance = random.Random(f"promotion/{number}")
    for way, times in (("slow", 1 / TIMES), ("fast", TIMES)):
        victim = victim_of(lab, times, chance, leads=(number % 2 == 0) == (way == "slow"))
        lab.progress(f"{victim} becomes {TIMES:g} times as {way}")
        found[way] = change(lab, victim, times)
    return found | {f"{name}_after": value for name, value in (judged(lab) | _reported(lab)).items()}


def judged(lab: Lab) -> Record:
    """How well the tree is in order, by what the nodes are configured with."""
    leaders, exact = lab.look().leaders(), performances(lab)
    classes = {node: class_of(jobs) for node, jobs in exact.items()}
    standing, by_class = ranking.levels(leaders), {node: float(each) for node, each in classes.items()}
    pairs = list(ranking.below_slower(leaders, classes))
    best = max(classes.values())
    return {
        "spearman": ranking.order(exact, standing),
        "spearman_best": ranking.best_order(exact, lab.options.fanout),
        "spearman_class": ranking.order(by_class, standing),
        "spearman_class_best": ranking.best_order(by_class, lab.options.fanout),
        "above_faster": len(pairs),
        "above_faster_who": [[above, below] for above, below in pairs[:NAMED_MAX]],
        "root_is_best": all(classes[root.address] == best for root in lab.cluster.roots()),
        "on_levels": ranking.on_levels(standing),
    }


def _reported(lab: Lab) -> Record:
    """What the daemons report: is their rank by what they measure, and their level that which the root wants?"""
    reported: list[dict[str, Any]] = [each["ranking"] for each in statuses(lab).values()]
    off = [abs(each["level"] - each["wanted_level"]) for each in reported if each["wanted_level"] is not None]
    return {
        "standing_differs": sum(each["standing_class"] != each["performance_class"] for each in reported),
        "level_off_max": max(off, default=None),
        "level_off_nodes": sum(each > 0 for each in off),
        "moves_held": sum(each["moves_held"] for each in reported),
    }


def victim_of(lab: Lab, times: float, chance: random.Random, *, leads: bool) -> str:
    """A node that can change by so much within the range that there is, not the root; if possible a leader, or none.

    Raises LabError.
    """
    exact, cluster = performances(lab), lab.look()
    low, high = min(exact.values()), max(exact.values())
    roots, leaders = {root.address for root in cluster.roots()}, cluster.subordinates()
    some = sorted(node for node, jobs in exact.items() if low <= jobs * times <= high and node not in roots)
    if not some:
        raise LabError(f"No node can become {times:g} times as fast within what there is: take more --nodes.")
    return chance.choice([node for node in some if (node in leaders) == leads] or some)


def change(lab: Lab, victim: str, times: float) -> Record:
    """Its level before and after, how long that took, and which other nodes have another leader now."""
    cluster, exact = lab.look(), performances(lab)
    leaders, since, mark = cluster.leaders(), log_changes.baseline(cluster), len(lab.events)
    led, level = cluster.subordinates().get(victim, []), ranking.levels(leaders)[victim]
    changed_at = time.monotonic()
    lab.set_performance(lab.position(victim), exact[victim] * times)
    await_quiet(lab, quiet_s(lab))
    moved = log_changes.moves(lab.look(), since)
    now = ranking.levels(lab.cluster.leaders())[victim]
    reached_at = log_changes.since(log_changes.level(lab.events[mark:], victim, leaders), now)
    others = sorted(set(moved) - {victim, *led})
    return {
        "node": victim,
        "was_leader_of": len(led),
        "class_before": class_of(exact[victim]),
        "class_after": class_of(exact[victim] * times),
        "level_before": level,
        "level_after": now,
        "level_best": best_level(lab, victim),
        "reached_s": None if reached_at is None or not moved.get(victim) else reached_at - changed_at,
        "last_move_s": max(0.0, lab.cluster.last_place_at - changed_at) if moved else None,
        "own_moves": moved.get(victim, 0),
        "led_moved": sum(node in moved for node in led),
        "others_moved": len(others),
        "others": others[:NAMED_MAX],
    }


def best_level(lab: Lab, node: str) -> int:
    """Its level if all nodes stood in order, with it as the first of its class."""
    classes = {each: class_of(jobs) for each, jobs in performances(lab).items()}
    better = sum(each > classes[node] for each in classes.values())
    return ranking.levels_in_order(better + 1, lab.options.fanout)[better]


def faults_of(record: Record) -> dict[str, object]:
    return {
        f"{record['above_faster']} stand above a node two classes faster": record["above_faster"],
        f"{record['above_faster_after']} do so after the changes": record["above_faster_after"],
        "the root is not of the best class": not record["root_is_best"],
        f"{record['standing_differs']} do not stand by what they measure": record["standing_differs"],
        f"{record['standing_differs_after']} do not after the changes": record["standing_differs_after"],
        "the slower one does not stand lower": record["slow"]["level_after"] <= record["slow"]["level_before"],
        "the faster one does not stand higher": record["fast"]["level_after"] >= record["fast"]["level_before"],
    }
