"""Thresholds, the test whether a cluster is idle, and what the load sensor tells. Pure.

The text has two ways to say one thing: a threshold "5" alarms at 5, since it is compared with `>=`; and a cluster is
idle with N or fewer jobs that wait, so the alarm is at N + 1. Here N is `idle_pending_max`, and the threshold of the
transfer queue follows from it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

SENSOR_S: Final = 9
"""load_report_time of the transfer host in the text."""
STALE_POLLS: Final = 3
"""A count that is older than so many polls is not known any more."""
NOT_KNOWN: Final = 99_999
"""What the sensor tells then: above any threshold, so no job is dispatched to the transfer queue."""
_SHARE, _SHARE_OF_MANY, _IDLE_SHARE = 4, 10, 10


SENSOR_S_MAX: Final = 60.0
"""Execd asks the load sensor for each report of the load, SENSOR_S apart."""
NOT_SENSED: Final = (
    f"the load sensor of this host has not asked the agent for {SENSOR_S_MAX:g} s: restart the execd of this host "
    "(Debian: `service gridengine-exec restart`); it runs what `subord transfer setup --apply` has set when it starts"
)


class Advice(NamedTuple):
    """Settings for a cluster with so many slots, as the text recommends them."""

    slots_max: int
    idle_pending_max: int | None


def advice(slots: int, *, is_high_throughput: bool = False) -> Advice:
    """`slots`: of the cluster where the jobs run. For many short jobs a tenth and no test whether it is idle; else a
    quarter, and idle is with a tenth of the slots."""
    if is_high_throughput:
        return Advice(max(1, slots // _SHARE_OF_MANY), None)
    return Advice(max(1, slots // _SHARE), slots // _IDLE_SHARE)


def is_alarm(pending: int, threshold: int) -> bool:
    """As the batch system compares."""
    return pending >= threshold


def is_idle(pending: int, idle_pending_max: int | None) -> bool:
    """`idle_pending_max`: None: it is not tested."""
    return idle_pending_max is None or pending <= idle_pending_max


def threshold_of(idle_pending_max: int) -> int:
    """Of the transfer queue: no alarm while the other cluster is idle."""
    return idle_pending_max + 1


def idle_margin(pending: int, idle_pending_max: int | None) -> int | None:
    """How many jobs may come one after the other, each while the cluster is idle, if none of them starts. None: any
    number. The last of them ends the idleness."""
    return None if idle_pending_max is None else max(0, idle_pending_max + 1 - pending)


def sensed(pending: int | None, age_s: float, poll_s: float) -> int:
    """What the sensor tells of the other cluster. `pending`: as it said last, `age_s` ago; None: never."""
    if pending is None or age_s > STALE_POLLS * poll_s:
        return NOT_KNOWN
    return min(pending, NOT_KNOWN)


def sensor_fault(batch: str, queues: Collection[object], silent_s: float) -> str:
    """Why the batch system does not hear how many jobs wait in the other cluster; "": it does, or needs not. Only
    Grid Engine has a load sensor, for jobs that leave. `queues`: of the plan. `silent_s`: since the sensor has
    asked."""
    return NOT_SENSED if batch == "gridengine" and queues and silent_s > SENSOR_S_MAX else ""
