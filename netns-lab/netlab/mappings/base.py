"""What all runs of `evaluate mappings` share: waiting until no node moves, and what daemons report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

from netlab.common.results import Record
from netlab.errors import LabError
from netlab.lab import READ_INTERVAL_S, Lab, facts
from netlab.processes.options import Options
from subord.core.mapping.latency import REST_FACTOR
from subord.core.settings import PRESETS, TimingName

SETTLED_S_MAX = 600.0
QUIETER = 1.2  # times the longest pause of a node


def quiet_s(lab: Lab) -> float:
    """Longer than a guest pauses between two looks for a better place."""
    return _pause_s_max(lab) * QUIETER


def long_quiet_s(lab: Lab) -> float:
    """The same with the mapping `latency`, where guests pause longer."""
    return quiet_s(lab) * REST_FACTOR


def round_s(lab: Lab) -> float:
    """In so long every node looks once, with `latency` and at rest: a shorter measurement depends on chance."""
    return _pause_s_max(lab) * REST_FACTOR


def _pause_s_max(lab: Lab) -> float:
    return PRESETS[cast(TimingName, lab.options.timing)].home_interval_s_max


def await_quiet(
    lab: Lab,
    quiet_s: float,
    holds: Callable[[], bool] = lambda: True,
    *,
    seconds: float = SETTLED_S_MAX,
    since: float | None = None,
) -> bool:
    """Until one root has all, the condition holds, and no node has moved for `quiet_s`; False: not in time.

    The quiet time counts from now, or from the moment `since`. Raises LabError when there is no whole tree in the
    end.
    """
    until = time.monotonic() + seconds
    begun_at = time.monotonic() if since is None else since
    while True:
        cluster, now = lab.look(), time.monotonic()
        whole = cluster.settled_at() is not None
        if whole and now - max(cluster.last_place_at, begun_at) >= quiet_s and holds():
            return True
        if now >= until:
            if not whole:
                raise LabError(f"No whole tree after {seconds:g} s. {facts(cluster)}")
            return False
        time.sleep(READ_INTERVAL_S)


def statuses(lab: Lab) -> dict[str, Record]:
    """`subord status --json` of every daemon, by address. Raises LabError."""
    return {lab.address(position): lab.document(position, "/v1/status") for position in lab.positions}


def performances(lab: Lab) -> dict[str, float]:
    """Address -> jobs an hour, as configured now."""
    return dict(Options.from_json(lab.client.ask("info")["options"]).performances)
