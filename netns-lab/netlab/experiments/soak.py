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
from subord.sim.scenario import definition

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


def measure(
    lab: Lab,
    *,
    minutes: int,
    percent_per_min: float,
    seed: int,
    layout: str,
    path: Path | None,
    say: Callable[[str], None],
) -> str | None:
    """Churn for so long, and write the figures after each minute; what failed, if something did. Raises LabError."""
    about = {
        "nodes": len(lab.positions),
        "fanout": lab.options.fanout,
        "layout": layout,
        "network": lab.options.network,
        "seeds": lab.options.seeds,
        "depth_optimum": depth_optimum(len(lab.positions), lab.options.fanout),
        "percent_per_min": percent_per_min,
        "at": time.strftime("%Y-%m-%d"),
        "machine": machine(),
    }
    samples: list[Sample] = []
    first: dict[str, float | None] = {}  # live address -> start of its process, as the log says

    def write(failure: str | None) -> None:
        if path is not None:
            growth = {f"growth_kib_per_min_{name}": value for name, value in growths(samples).items()}
            found = {"minutes": len(samples) - 1, "failure": failure, **growth, "samples": list(map(asdict, samples))}
            results.write_json(path, about | found)

    def look(step: definition.Step) -> None:
        if not isinstance(step, definition.Expect):
            return
        cluster = lab.look()
        lives = {node.address: node.forked_at for node in cluster.live()}
        if not first:
            first.update(lives)
        veterans = {address for address, at in first.items() if lives.get(address) == at}
        samples.append(_sample(lab, len(samples), cluster.depth(), veterans))
        say(f"          {samples[-1]}")
        write(None)

    script = _script(lab, minutes, percent_per_min, seed)
    failure = Player(script, lab, say=lambda _line: None, after=look).run("soak").failure
    write(failure)
    for name, growth in growths(samples).items():
        say(f"resident memory, {name}: {growth:+.1f} KiB a minute, second half")
    return failure


def _script(lab: Lab, minutes: int, percent_per_min: float, seed: int) -> definition.Scenario:
    """So many minutes of churn, the tree whole after each. The lowest node stays: it has the largest roster."""
    others = definition.folded(lab.positions[1:])
    churn = definition.Churn(nodes=others, percent_per_min=percent_per_min, for_s=MINUTE_S, down_s=DOWN_S)
    steps: list[definition.Step] = [definition.Start(), definition.Expect(within_s=30.0)]
    steps += [churn, definition.Expect(within_s=WHOLE_S_MAX)] * minutes
    cluster = definition.Cluster(
        positions=definition.folded(lab.positions), network=lab.options.network, fanout=lab.options.fanout
    )
    return definition.Scenario(title=f"soak of {minutes} minutes", seed=seed, cluster=cluster, steps=tuple(steps))


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


def growths(samples: list[Sample]) -> dict[str, float]:
    """KiB a minute: slope of a straight line through the second half of the samples, when everything is warm."""
    late = samples[len(samples) // 2 :]
    if len(late) < 2:
        return {"median": 0.0, "root": 0.0}
    minutes = [sample.minute for sample in late]
    medians, roots = [sample.resident_mib_median for sample in late], [sample.root_mib for sample in late]
    slopes = {"median": medians, "root": roots}
    return {name: 1024 * statistics.linear_regression(minutes, values).slope for name, values in slopes.items()}
