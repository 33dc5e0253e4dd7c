"""A cluster whose nodes publish metrics, for the page: loads by branch, a rare fault, and a sensor that few have."""

from __future__ import annotations

from math import sin

from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.coverage import Coverage, Missing
from subord.core.carriage.reports.records import fold
from subord.core.carriage.reports.reports import Fold
from subord.core.view import Liveness
from subord.services.metrics.record import record_of
from tests.api.fake_node_api import FakeNode, World

LOAD = "node_load1"
MEMORY = "node_memory_MemAvailable_bytes"
HEAT = "node_hwmon_temp_celsius"
ERRORS = "node_network_receive_errs_per_second"
IOWAIT = 'node_cpu_seconds_per_second{mode="iowait"}'


def samples(world: World, position: int, drift: float) -> dict[str, float]:
    """What one node publishes; each third has a thermometer, and the last but one has faults."""
    leader = world.leaders[position] or 0
    load = 2 + drift + (1.6 - drift) * sin(leader / 7) + 0.5 * sin(position * 12.9898)
    found = {
        LOAD: round(max(0.0, load), 2),
        MEMORY: 1e9 * (24 - drift + 4 * sin(position / 40)),
        IOWAIT: 0.05 + 0.05 * sin(position / 11),
        ERRORS: 3.5 if position == max(world.leaders) - 1 else 0.0,
    }
    return found | ({HEAT: 45 + 10 * sin(position / 9)} if position % 3 == 0 else {})


def publish(node: FakeNode, silent: tuple[int, ...] = (), drift: float = 0.0) -> None:
    """All living nodes publish, but the `silent` ones; the node knows the fold. `drift`: more load, less memory."""
    world = node.world
    living = [each for each in world.leaders if world.liveness.get(each) is not Liveness.MISSING]
    world.samples = {each: samples(world, each, drift) for each in living if each not in silent}
    record = fold([record_of(each, position) for position, each in world.samples.items()])
    told = len(world.samples)
    missing = (Missing("stale", len(silent), Ranges.of(silent).flat()),) if silent else ()
    node.orders.folds["metrics"] = Fold(record, Coverage(told + len(silent), told, missing), 7.6, is_root=True)
