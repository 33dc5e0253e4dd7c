"""The first start of a cluster in which the daemons of some hosts are not there yet.

Inputs are a seed and its scenario; outputs are the scenario with such a start in front, and for how long a scenario
has no fault. Nodes whose home is such a host wait `host_patience_s` for it, so that they join long after the others.
The random generator is one of its own: the other steps of the seed stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from subord.core.settings import TimingName
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Scenario, Step, folded, positions_of
from subord.sim.scenario.selection import listed

SHARE: Final = 0.3
"""Of the seeds."""
ABSENT_MAX: Final = 3
TIMINGS: Final[tuple[TimingName, ...]] = ("lan", "wan", "wan")
LASTS_S: Final[dict[TimingName, float]] = {"lan": 25.0, "wan": 55.0}
"""Until the root has settled, and some seconds."""


def with_first_start(seed: int, script: Scenario) -> Scenario:
    """In a share of the seeds: some nodes start long after the others. Their hosts are up (services/play.py)."""
    chance = Random(f"{seed}/first")
    positions = positions_of(script.cluster)
    seeds = set(listed(script.cluster.seeds)) if script.cluster.seeds else set[int]()
    may_be_absent = [each for each in positions if each not in seeds]
    if chance.random() >= SHARE or len(positions) < 2 + ABSENT_MAX or len(may_be_absent) <= ABSENT_MAX:
        return script
    timing = chance.choice(TIMINGS)
    absent = sorted(chance.sample(may_be_absent[: len(positions) // 2 + ABSENT_MAX], chance.randint(1, ABSENT_MAX)))
    steps: tuple[Step, ...] = (
        definition.Start(nodes=folded([each for each in positions if each not in absent]), order="random"),
        definition.Pass(s=LASTS_S[timing]),
    )
    cluster = msgspec.structs.replace(script.cluster, timing=timing)
    return msgspec.structs.replace(script, cluster=cluster, steps=(*steps, *script.steps))


def calm_s(steps: Iterable[Step]) -> float:
    """Seconds from the first start for which nothing but starts happens."""
    found = 0.0
    for step in steps:
        if isinstance(step, definition.Pass):
            found += step.s
        elif not isinstance(step, definition.Start):
            break
    return found
