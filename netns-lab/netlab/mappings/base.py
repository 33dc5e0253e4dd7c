"""What all runs of `evaluate mappings` share: a lab, its start, and waiting until no node moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from netlab.common import measure
from netlab.common.results import Record
from netlab.errors import LabError
from netlab.experiments import evaluate
from netlab.lab import READ_INTERVAL_S, Lab, facts
from netlab.processes.launch import Progress
from netlab.processes.performance import SPREAD
from subord.core.placement.optimizer import REST_FACTOR
from subord.core.settings import PRESETS, TimingName

SETTLED_S_MAX = 600.0
ANSWER_S_MAX = 15.0  # of a daemon on a busy machine
QUIETER = 1.2  # times the longest pause of a node


@dataclass(frozen=True, kw_only=True)
class MappingRun:
    """One run. `number` counts the repeats from 0; without `sites` all nodes are at one place."""

    part: str
    nodes: int
    fanout: int
    mapping: str
    number: int
    timing: TimingName
    sites: Path | None
    rest_s: float
    seconds: float
    rootless: bool
    events: Path | None  # a directory for the event log
    progress: Progress

    def lab(self) -> Lab:
        return Lab(
            self.nodes,
            self.fanout,
            sites=self.sites,
            mapping=self.mapping,
            spread=SPREAD,
            seed=1 + self.number,
            arp_proxy=True,
            timing=self.timing,
            rootless=self.rootless,
            progress=self.progress,
        )

    @property
    def quiet_s(self) -> float:
        """Longer than a guest pauses between two looks for a better place."""
        return PRESETS[self.timing].home_interval_s_max * QUIETER

    @property
    def long_quiet_s(self) -> float:
        """The same with the mapping `latency`, where guests pause longer."""
        return self.quiet_s * REST_FACTOR

    @property
    def round_s(self) -> float:
        """In so long every node looks once, with `latency` and at rest: a shorter measurement depends on chance."""
        return PRESETS[self.timing].home_interval_s_max * REST_FACTOR

    def begin(self, lab: Lab) -> None:
        """Start all nodes; from now on `lab.events` has all events."""
        lab.touch_memory()
        lab.events = []
        self.progress("starting daemons, waiting until no node moves any more", 0, 0)
        lab.start_all(seed=1 + self.number)

    def keep(self, lab: Lab) -> None:
        name = f"mappings-{self.part}-{self.mapping}-{self.nodes}-{self.fanout}-{self.number}"
        evaluate.keep_events(lab, self.events, name)


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
    found = {}
    for position in lab.positions:
        status = measure.document_of(lab.control_socket(position), "/v1/status", ANSWER_S_MAX)
        if status is None:
            raise LabError(f"The daemon of node {position} does not tell its status: see its log.")
        found[lab.address(position)] = status
    return found


def performances(lab: Lab) -> dict[str, float]:
    """Address -> jobs an hour, as configured now."""
    found: dict[str, float] = lab.client.ask("performances")
    return found
