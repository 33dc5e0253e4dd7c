"""What shares cost the daemons of a large cluster, and how close it comes, with agents that are played.

The same cluster is measured at rest before the first document, and then with shares. The last class has work on three
nodes of ten. Then all classes have work everywhere, and the first one stops and returns some times.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any, Final

from netlab.common.results import Record
from netlab.common.tables import Column
from netlab.errors import LabError
from netlab.experiments import figures as costs
from netlab.experiments.figures import Reading
from netlab.lab import Lab
from netlab.shares import figures, operating
from netlab.shares.figures import Sample
from netlab.shares.operating import CLASSES, WANTED
from netlab.shares.stand_ins import StandIns

ROLES: Final = ("root", "interior", "leaf")
SETTLE_ROUNDS: Final = 20
PAUSE_ROUNDS: Final = 5
BACK_ROUNDS_MAX: Final = 20
BACK_AIM: Final = 4
"""Rounds, with noise."""
MEAN_MIN, MEAN_MAX, STD_MAX = 8.5, 10.5, 0.8
"""Of the last class, on 100 nodes: as in the simulator."""
SOME: Final = (1, 2, 3)
"""Of ten nodes, those with the last class."""


def uneven(positions: Iterable[int]) -> dict[int, list[bool]]:
    return {each: [True, True, each % 10 in SOME] for each in positions}


def even(positions: Iterable[int], *, first: bool = True) -> dict[int, list[bool]]:
    return {each: [first, True, True] for each in positions}


def measure(lab: Lab, stand_ins: StandIns, round_s: float, seconds: float, times: int) -> Record:
    """Raises LabError."""
    stand_ins.load(uneven(lab.positions))
    lab.progress("measuring without shares")
    found: Record = {"without": of_roles(lab, *_at_rest(lab, seconds))}
    lab.progress("waiting until all nodes obey")
    found["followed_s"] = round(operating.publish(lab, round_s), 2)
    time.sleep(SETTLE_ROUNDS * round_s)
    lab.progress("measuring with shares")
    before, samples = costs.read(lab), sampled(stand_ins, round_s, round(seconds / round_s))
    found["with"] = of_roles(lab, before, costs.read(lab))
    found["added"] = added(found["without"], found["with"])
    told, asked = operating.told_of(lab, operating.root_of(lab))
    found |= {
        "classes": figures.of_classes(samples, CLASSES),
        "rounds": len(samples) - 1,
        "told": told,
        "asked": asked,
    }
    return found | {"back_rounds": [_paused(lab, stand_ins, round_s, number) for number in range(1, times + 1)]}


def _at_rest(lab: Lab, seconds: float) -> tuple[Reading, Reading]:
    before = costs.read(lab)
    time.sleep(seconds)
    return before, costs.read(lab)


def sampled(stand_ins: StandIns, round_s: float, rounds: int) -> list[Sample]:
    """What all nodes have served, once in a round."""
    began, samples = time.monotonic(), [sample(stand_ins)]
    for number in range(1, rounds + 1):
        time.sleep(max(0.0, began + number * round_s - time.monotonic()))
        samples.append(sample(stand_ins))
    return samples


def sample(stand_ins: StandIns) -> Sample:
    at = time.monotonic()
    return Sample(at, stand_ins.served())


# -- costs -----------------------------------------------------------------------------------------------------------


def roles_of(lab: Lab) -> dict[str, list[str]]:
    """The addresses of each. Raises LabError: there is not exactly one root."""
    cluster = lab.look()
    roots = [node.address for node in cluster.roots()]
    if len(roots) != 1:
        raise LabError(f"{len(roots)} roots while costs were measured.")
    leaders = set(cluster.subordinates())
    live = [node.address for node in cluster.live()]
    interior = [each for each in live if each in leaders and each not in roots]
    return dict(zip(ROLES, (roots, interior, [each for each in live if each not in leaders]), strict=True))


def of_roles(lab: Lab, before: Reading, after: Reading) -> dict[str, dict[str, float]]:
    """Of a node of each kind, sent and brought together, with headers; processor time of the daemon alone."""
    return {role: _of_nodes(nodes, before, after) for role, nodes in roles_of(lab).items() if nodes}


def _of_nodes(nodes: Sequence[str], before: Reading, after: Reading) -> dict[str, float]:
    seconds = after.mono - before.mono

    def rate(place: int) -> float:
        """0: bytes, 1: packets."""
        ways = ((before.sent, after.sent), (before.brought, after.brought))
        return fmean(sum(new[each][place] - old[each][place] for old, new in ways) for each in nodes) / seconds

    cpu = fmean(after.cpu_s[each] - before.cpu_s[each] for each in nodes) / seconds
    return {
        "packets_per_s": round(rate(1), 1),
        "bytes_per_s": round(rate(0)),
        "cpu_percent": round(100 * cpu, 2),
        "nodes": len(nodes),
    }


def added(without: dict[str, Any], others: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        role: {key: round(others[role][key] - without[role][key], 2) for key in COSTS}
        for role in others
        if role in without
    }


# -- a pause ---------------------------------------------------------------------------------------------------------


def _paused(lab: Lab, stand_ins: StandIns, round_s: float, number: int) -> int | None:
    """Rounds until the shares are back after the first class had no work for some."""
    lab.progress(f"a class stops and returns, {number}")
    stand_ins.load(even(lab.positions))
    time.sleep(SETTLE_ROUNDS * round_s)
    stand_ins.load(even(lab.positions, first=False))
    time.sleep(PAUSE_ROUNDS * round_s)
    stand_ins.load(even(lab.positions))
    rows = figures.rounds(sampled(stand_ins, round_s, BACK_ROUNDS_MAX))
    return figures.back_in(rows, WANTED, figures.within_of(len(lab.positions)))


def faults_of(record: Record) -> list[str]:
    last, nodes = record["classes"][CLASSES[-1]], record["nodes"]
    is_large = nodes >= 100
    slow = [each for each in record["back_rounds"] if each is None or each > BACK_AIM]
    bad = {
        f"{CLASSES[-1]} has {last['mean']:.1f} %": is_large and not MEAN_MIN <= last["mean"] <= MEAN_MAX,
        f"{CLASSES[-1]} deviates by {last['std']:.2f}": is_large and last["std"] > STD_MAX,
        f"{record['told']} of {nodes} nodes are in the decisions": record["told"] != nodes,
        f"shares were back after {slow} rounds": slow,
    }
    return [words for words, holds in bad.items() if holds]


COLUMNS: Final = (
    *(Column(f"{name}_mean", f"{name}, %", 1) for name in CLASSES),
    *(Column(f"{name}_std", f"{name}, std", 2) for name in CLASSES),
    Column("followed_s", "all obey after, s", 1),
    Column("back_rounds", "back after a pause, rounds", 0),
)
COSTS: Final = ("packets_per_s", "bytes_per_s", "cpu_percent")
"""Of a node of each of ROLES, `without` shares, and `with`."""
