"""What the metrics of all nodes cost the root of a tree, by the number of nodes, for docs/evaluation/metrics.md.

    .venv/bin/python docs/measure_reports.py [--nodes N ...] [--fanout P ...] [--intervals K] [--json FILE]

Each node of a complete tree that stands still publishes 20 metrics every 10 s, in the simulator
(subord/sim/services/still.py), with the engine of the daemon. Printed are, for the root and one interval: the reports
and bytes that it gets, its processor time to take them in, and that to fold them once; and how old the oldest part of
the fold is.
"""

from __future__ import annotations

import sys
import time
from random import Random
from typing import Any

from measures import over_trees

from subord.core.carriage.reports.records import Record
from subord.core.view import Position
from subord.services.metrics.record import record_of
from subord.services.metrics.wanted import USUAL, chosen
from subord.sim.services.still import Still, complete

INTERVAL_S = 10.0
WARM_INTERVALS = 12
FOLDS = 20
SPREAD = 0.1
"""Of the interval, in which the nodes publish (subord/services/folds.py)."""
SAME = {"node_cpus": 64, "node_memory_MemTotal_bytes": 256 << 30, "node_memory_SwapFree_bytes": 0}
VARIED = (
    "node_load1",
    'node_cpu_seconds_per_second{mode="idle"}',
    'node_cpu_seconds_per_second{mode="iowait"}',
    "node_memory_MemAvailable_bytes",
    "node_disk_read_bytes_per_second",
    "node_disk_written_bytes_per_second",
    'node_filesystem_avail_bytes{mountpoint="/"}',
    'node_filesystem_size_bytes{mountpoint="/"}',
    "node_network_receive_bytes_per_second",
    "node_network_transmit_bytes_per_second",
    "node_network_receive_errs_per_second",
    "node_network_transmit_errs_per_second",
    "node_pressure_cpu_waiting_seconds_per_second",
    "node_pressure_io_waiting_seconds_per_second",
    "node_pressure_io_stalled_seconds_per_second",
    "node_pressure_memory_waiting_seconds_per_second",
    "node_hwmon_temp_celsius",
)
"""Metrics that have another value on each node; with those of SAME they are 20."""


def metrics_of(position: Position, chance: Random) -> Record:
    """Values spread over some decades, which fill more of a sketch than those of most clusters."""
    samples = SAME | {each: chance.lognormvariate(3, 2) for each in VARIED}
    told, left_out = chosen(samples, USUAL)
    assert len(told) == 20, left_out
    return record_of(told, position)


def measured(nodes: int, fanout: int, intervals: int) -> dict[str, Any]:
    """The figures of one tree."""
    chance = Random(nodes)
    cluster = Still(complete(nodes, fanout), interval_s=INTERVAL_S, measures_cpu=True)
    for position in cluster.leaders:
        cluster.publish_forever(position, metrics_of(position, chance), chance.uniform(0, SPREAD * INTERVAL_S))
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
    assert fold.coverage.told == nodes, fold.coverage
    return {
        "nodes": nodes,
        "fanout": fanout,
        "reports": round(found[0], 2),
        "bytes": round(found[1]),
        "bytes_per_s": round(found[1] / INTERVAL_S),
        "take_in_ms": round(1000 * found[2], 2),
        "fold_ms": round(1000 * folding_s, 2),
        "oldest_intervals": round(fold.oldest_s / INTERVAL_S, 2),
    }


def main(words: list[str]) -> int:
    """The exit code."""
    sizes = [100, 300, 500, 1_000, 10_000]
    return over_trees(words, "what the metrics of all nodes cost the root", sizes, ("intervals", 10), measured)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
