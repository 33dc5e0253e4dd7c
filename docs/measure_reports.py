"""What reports cost the root of a tree, by the number of nodes.

    .venv/bin/python docs/measure_reports.py [--nodes N ...] [--fanout P] [--intervals K] [--json]

Each node of a complete tree publishes a record of ten fields every second, in the simulator (subord/sim/services/
still.py), with the engine of the daemon. Printed are, for the root and one interval: the reports and bytes that it
gets, its processor time to take them in, and that to fold them once; and how old the oldest part of the fold is.
"""

from __future__ import annotations

import argparse
import json
import time
from random import Random
from typing import Any

from subord.core.carriage.reports.algebra import Count, Latest, Max, Min, Nodes, Quantiles, Sum, Tally, Top
from subord.core.carriage.reports.records import Record
from subord.sim.services.still import Still, complete

INTERVAL_S = 1.0
WARM_INTERVALS = 12
FOLDS = 20
SPREAD = 0.1
"""Of the interval, in which the nodes publish (subord/services/folds.py)."""


def record_of(position: int, chance: Random) -> Record:
    """A record like that of a monitoring service."""
    load, memory = chance.lognormvariate(0, 1), chance.uniform(1e9, 64e9)
    return {
        "nodes": Count(1),
        "memory": Sum.of(memory),
        "least": Min(memory),
        "most": Max(memory),
        "load": Quantiles.of(load),
        "memory_of": Quantiles.of(memory),
        "busiest": Top.of(load, position),
        "full": Nodes.of((position,) if load > 20 else ()),
        "kernels": Tally.of({f"6.1.0-{chance.randrange(6)}": Count(1)}),
        "newest": Latest(7, position, b"release 7"),
    }


def measured(nodes: int, fanout: int, intervals: int) -> dict[str, Any]:
    """The figures of one tree."""
    chance = Random(nodes)
    cluster = Still(complete(nodes, fanout), interval_s=INTERVAL_S)
    for position in cluster.leaders:
        cluster.publish_forever(position, record_of(position, chance), chance.uniform(0, SPREAD * INTERVAL_S))
    cluster.run(WARM_INTERVALS * INTERVAL_S)
    root = cluster.nodes[1]
    before = root.frames_in, root.bytes_in, root.cpu_s
    cluster.run(intervals * INTERVAL_S)
    found = [
        (now - then) / intervals
        for now, then in zip((root.frames_in, root.bytes_in, root.cpu_s), before, strict=True)
    ]
    began = time.process_time()
    for _ in range(FOLDS):
        fold = cluster.fold(1)
    folding_s = (time.process_time() - began) / FOLDS
    assert fold.coverage.told == nodes == fold.record["nodes"].value, fold.coverage
    return {
        "nodes": nodes,
        "fanout": fanout,
        "reports": round(found[0], 2),
        "bytes": round(found[1]),
        "take_in_ms": round(1000 * found[2], 2),
        "fold_ms": round(1000 * folding_s, 2),
        "oldest_s": round(fold.oldest_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--fanout", type=int, default=8)
    parser.add_argument("--intervals", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="one JSON document a line")
    given = parser.parse_args()
    for nodes in given.nodes:
        found = measured(nodes, given.fanout, given.intervals)
        print(json.dumps(found) if given.json else ", ".join(f"{name} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
