"""Shares on nodes with real cgroups and busy loops: what the kernel has given to each class.

Cases: `even`, all classes have work everywhere; `uneven`, the last class has work on the last node alone; `static`,
the same with fixed weights and no document, as on a cluster without subord.
"""

from __future__ import annotations

import time
from statistics import fmean
from typing import Final

from netlab.common.measure import cpu_s
from netlab.common.results import Record
from netlab.common.tables import Column
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes.groups import Used
from netlab.services import processes
from netlab.shares import figures, operating
from netlab.shares.figures import Sample
from netlab.shares.operating import CLASSES, WANTED

EVEN, UNEVEN, STATIC = "even", "uneven", "static"
CASES: Final = (STATIC, UNEVEN, EVEN)
QUOTA: Final = 0.25
WINDOW_S: Final = 1.0
"""Two periods of the quota."""
SETTLE_ROUNDS: Final = 10
SETTLE_S_MIN: Final = 5.0
POINTS_MAX: Final = 2.0
WEIGHTS: Final = dict(zip(CLASSES, (6000, 3000, 1000), strict=True))


def measure(lab: Lab, case: str, round_s: float, seconds: float) -> Record:
    """The shares of a lab with groups, over these seconds. Raises LabError."""
    last = lab.positions[-1]
    for position in lab.positions:
        for name in CLASSES:
            if case == EVEN or name != CLASSES[-1] or position == last:
                lab.load(position, name)
    found: Record = {}
    if case == STATIC:
        for position in lab.positions:
            lab.weigh(position, WEIGHTS)
    else:
        lab.progress("waiting until all nodes obey")
        found["followed_s"] = round(operating.publish(lab, round_s), 2)
    time.sleep(max(SETTLE_ROUNDS * round_s, SETTLE_S_MIN))
    lab.progress("measuring")
    before = _agents_cpu_s(lab)
    samples = sampled(lab, seconds)
    found |= of_samples(lab, samples)
    if case == STATIC:
        return found
    spent = [after - before[each] for each, after in _agents_cpu_s(lab).items() if each in before]
    cpu = 100 * fmean(spent) / (samples[-1].at - samples[0].at) if spent else None
    return found | of_rows(lab) | {"agent_cpu_percent": None if cpu is None else round(cpu, 2)}


def _agents_cpu_s(lab: Lab) -> dict[int, float]:
    """By process: one that was started meanwhile does not count."""
    return {pid: cpu_s(pid) for pid in processes.agents(lab).values()}


def sampled(lab: Lab, seconds: float) -> list[Sample]:
    """What all nodes have used, once in a window."""
    samples = [_sample(lab.used())]
    began = time.monotonic()
    for number in range(1, max(1, round(seconds / WINDOW_S)) + 1):
        time.sleep(max(0.0, began + number * WINDOW_S - time.monotonic()))
        samples.append(_sample(lab.used()))
    return samples


def _sample(used: Used) -> Sample:
    return Sample(used.at, {position: [of[name] for name in CLASSES] for position, of in used.cpu_s.items()})


def of_samples(lab: Lab, samples: list[Sample]) -> Record:
    """`used_percent`: of all quotas; the rest was taken by other work on the machine."""
    seconds = samples[-1].at - samples[0].at
    used_s = sum(sum(row) - sum(samples[0].of[position]) for position, row in samples[-1].of.items())
    return {
        "measured_s": round(seconds, 1),
        "classes": figures.of_classes(samples, CLASSES),
        "used_percent": round(100 * used_s / (seconds * lab.options.quota * len(lab.positions)), 1),
    }


def of_rows(lab: Lab) -> Record:
    """At the end: the weights of all nodes, and who is in the decisions of the root."""
    told, asked = operating.told_of(lab, operating.root_of(lab))
    try:
        words = operating.states(lab)
    except LabError:
        words = {}
    weights = {str(position): list(lab.weights(position).values()) for position in lab.positions}
    return {
        "told": told,
        "asked": asked,
        "states": {word: len(nodes) for word, nodes in words.items()},
        "weights": weights,
    }


def means(record: Record) -> list[float]:
    return [record["classes"][name]["mean"] for name in CLASSES]


def faults_of(record: Record) -> list[str]:
    """Of a case with subord."""
    if record["case"] == STATIC:
        return []
    points, nodes = figures.away(means(record), WANTED), record["nodes"]
    bad = {
        f"a class is {points:.1f} points from its share": points > POINTS_MAX,
        f"{record['told']} of {nodes} nodes are in the decisions": record["told"] != nodes,
        f"states of nodes: {record['states']}": record["states"] != {operating.OBEYS: nodes},
    }
    return [words for words, holds in bad.items() if holds]


COLUMNS: Final = (
    *(Column(f"{name}_mean", f"{name}, %", 1) for name in CLASSES),
    *(Column(f"{name}_std", f"{name}, std", 1) for name in CLASSES),
    Column("used_percent", "of the quotas used, %", 0),
    Column("agent_cpu_percent", "CPU of an agent, %", 2),
)
