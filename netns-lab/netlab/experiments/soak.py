"""A long run with churn: the memory of the daemons that live through all of it, and the depth of the tree.

Resident memory shows leaks: it holds shared pages, so it does not grow when a page shared with the zygote is copied
on a write. Private memory, which grows by that, is noted beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from netlab.common import results
from netlab.common.measure import machine
from netlab.eventlog.tree import depth_optimum
from netlab.lab import Lab
from netlab.scenarios.player import Player
from netlab.scenarios.report import Result
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Scenario, Step

MINUTE_S = 60.0
DOWN_S = 2.0
WHOLE_S_MAX = 35.0  # a guest that missed a message of its home asks by itself every 30 s


@dataclass(frozen=True, kw_only=True)
class Sample:
    """After one minute of churn."""

    minute: int
    depth: int  # edges on the longest way to the root
    veterans: int  # daemons that were never ended so far
    resident_mib_median: float  # of veterans
    resident_mib_max: float
    private_mib_median: float
    root_mib: float  # resident
    cpu_s: float  # of all live daemons since they were started


def script_of(lab: Lab, minutes: int, percent_per_min: float, seed: int) -> Scenario:
    """So many minutes of churn, the tree whole after each. The lowest node stays: it has the largest roster."""
    others = definition.folded(lab.positions[1:])
    churn = definition.Churn(nodes=others, percent_per_min=percent_per_min, for_s=MINUTE_S, down_s=DOWN_S)
    steps: list[Step] = [definition.Start(), definition.Expect(within_s=30.0)]
    for _ in range(minutes):
        steps += [churn, definition.Expect(within_s=WHOLE_S_MAX)]
    cluster = Cluster(
        positions=definition.folded(lab.positions), network=lab.options.network, fanout=lab.options.fanout
    )
    return Scenario(title=f"soak of {minutes} minutes", seed=seed, cluster=cluster, steps=tuple(steps))


def soak(
    lab: Lab, script: Scenario, *, say: Callable[[str], None], write: Callable[[list[Sample]], None]
) -> tuple[Result, list[Sample]]:
    """Play the script; `write` is given all samples after each. Raises LabError."""
    samples: list[Sample] = []
    first: dict[str, float | None] = {}  # live address -> start of its process, as the log says

    def look(step: Step) -> None:
        if not isinstance(step, definition.Expect):
            return
        cluster = lab.look()
        lives = {node.address: node.forked_at for node in cluster.live()}
        if not first:
            first.update(lives)
        veterans = {address for address, at in first.items() if lives.get(address) == at}
        samples.append(_sample(lab, len(samples), cluster.depth(), veterans))
        say(f"          {samples[-1]}")
        write(samples)

    return Player(script, lab, say=lambda _line: None, after=look).run("soak"), samples


def _sample(lab: Lab, minute: int, depth: int, veterans: set[str]) -> Sample:
    read = lab.processes("resident_mib", "private_mib", "cpu_s")
    resident, private = (
        {address: mib for address, mib in read[what].items() if address in veterans}
        for what in ("resident_mib", "private_mib")
    )
    return Sample(
        minute=minute,
        depth=depth,
        veterans=len(resident),
        resident_mib_median=round(statistics.median(resident.values()), 3),
        resident_mib_max=round(max(resident.values()), 3),
        private_mib_median=round(statistics.median(private.values()), 3),
        root_mib=round(resident.get(lab.address(lab.positions[0]), 0.0), 3),
        cpu_s=round(sum(read["cpu_s"].values()), 1),
    )


def growth_kib_per_min(samples: list[Sample], values: Callable[[Sample], float]) -> float:
    """Slope of a straight line through the second half of the samples: what comes after everything is warm."""
    late = samples[len(samples) // 2 :]
    if len(late) < 2:
        return 0.0
    slope = statistics.linear_regression([s.minute for s in late], [values(s) for s in late]).slope
    return slope * 1024


def write_json(
    path: Path, lab: Lab, script: Scenario, samples: list[Sample], *, layout: str, failure: str | None
) -> None:
    """Everything that was measured, with the machine."""
    churn = next(step for step in script.steps if isinstance(step, definition.Churn))
    document = {
        "nodes": len(lab.positions),
        "fanout": lab.options.fanout,
        "layout": layout,
        "network": lab.options.network,
        "seeds": lab.options.seeds,
        "depth_optimum": depth_optimum(len(lab.positions), lab.options.fanout),
        "percent_per_min": churn.percent_per_min,
        "minutes": len(samples) - 1,
        "failure": failure,
        "at": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "growth_kib_per_min_median": growth_kib_per_min(samples, lambda s: s.resident_mib_median),
        "growth_kib_per_min_root": growth_kib_per_min(samples, lambda s: s.root_mib),
        "samples": [asdict(sample) for sample in samples],
    }
    results.write_json(path, document)
