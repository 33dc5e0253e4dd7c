"""The options of the balancer, with the names, letters, defaults and limits of the text.

Input are numbers as an operator has given them; output are sentences about those that make no sense. Invariant:
what passes `faults` makes each decision possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

INTERVAL_S_MIN, INTERVAL_S_MAX = 5, 300
STABILIZATION_S_MIN: Final = 300
"""For the effect of a change on the queue to be seen."""
HOUR_MIN: Final = 60
NODES_MAX: Final = 10_000
QUEUE: Final = "all.q"
SLURM: Final = "slurm"


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_nodes`: -m, of the cluster with its master. `min_nodes`: -n. `add_nodes_per_iter`: -a, also written
    --add_nodes_per_iteration. `interval_s`: -i. `job_wait_time_s`: -w. `kill_after_min`: -k, minutes past the paid
    hour. `stabilization_time_s`: -s. `lookback_window_min`: -l; the original's code has hours.
    `kill_cluster`: -K, also the master. `idle_min`: a node that was idle for so many minutes may go at any minute of
    its hour; None: by the hour. `lasts_s`: no node is added for a queue that is empty sooner, as in the flow chart of
    the text; None: whatever the queue, as in its criteria. `queue`: the one that counts. `decides`: "slurm": its
    power saving names the nodes that are added and removed, and of the other options max_nodes and interval_s
    count."""

    max_nodes: int
    min_nodes: int = 1
    add_nodes_per_iter: int = 1
    interval_s: int = 60
    job_wait_time_s: int = 900
    kill_after_min: int = 45
    stabilization_time_s: int = STABILIZATION_S_MIN
    lookback_window_min: int = 180
    kill_cluster: bool = False
    idle_min: int | None = None
    lasts_s: int | None = None
    queue: str = QUEUE
    decides: Literal["subord", "slurm"] = "subord"


def faults(options: Options) -> Iterator[str]:
    """What makes no sense, each as a sentence without a full stop."""
    found = options
    if not 1 <= found.min_nodes <= found.max_nodes <= NODES_MAX:
        yield (
            f"a cluster has at least 1 node and at most {NODES_MAX}: set --min_nodes ({found.min_nodes}) and "
            f"--max_nodes ({found.max_nodes}) so that the first is not above the second"
        )
    if not INTERVAL_S_MIN <= found.interval_s <= INTERVAL_S_MAX:
        yield f"--interval is {INTERVAL_S_MIN} to {INTERVAL_S_MAX} seconds, not {found.interval_s}"
    if found.add_nodes_per_iter < 1:
        yield f"--add_nodes_per_iter is at least 1, not {found.add_nodes_per_iter}"
    if found.job_wait_time_s < 0:
        yield f"--job_wait_time is at least 0 seconds, not {found.job_wait_time_s}"
    if not 0 <= found.kill_after_min < HOUR_MIN:
        yield f"--kill_after is a minute of an hour, 0 to {HOUR_MIN - 1}, not {found.kill_after_min}"
    if found.stabilization_time_s < STABILIZATION_S_MIN:
        yield f"--stabilization_time is at least {STABILIZATION_S_MIN} seconds, not {found.stabilization_time_s}"
    if found.lookback_window_min < 1:
        yield f"--lookback_window is at least 1 minute, not {found.lookback_window_min}"
    if found.idle_min is not None and found.idle_min < 1:
        yield f"--idle is at least 1 minute, not {found.idle_min}"
    if found.lasts_s is not None and found.lasts_s < 1:
        yield f"--lasts is at least 1 second, not {found.lasts_s}"
    if found.decides == SLURM and found.kill_cluster:
        yield "--kill-cluster has no meaning with --decides slurm: give --no-kill-cluster"
