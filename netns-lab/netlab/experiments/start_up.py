"""`stabilise`: how fast a cluster becomes one stable tree, and what it costs until then and afterwards.

Namespaces are made and the daemon is imported before the clock starts, at the first fork. Everything about the tree
is read from the event log, so that looking does not disturb the daemons.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from netlab.common import measure
from netlab.common.results import check_pair, write_pair
from netlab.eventlog.tree import depth_optimum
from netlab.experiments import figures
from netlab.experiments.figures import Figures, Reading
from netlab.lab import QUIET_S, Lab, LabTimeout, Stable
from netlab.processes.launch import Progress

REST_AFTER_S = 10.0  # from the last change of place to the measurement at rest


class Run(NamedTuple):
    """One run of a campaign; `number` counts the repeats from 0."""

    nodes: int
    fanout: int
    start: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """All combinations to be run, each `repeat` times. `lab`: what else a Lab is given."""

    nodes: tuple[int, ...]
    fanout: tuple[int, ...]
    start: tuple[str, ...] = ("together",)
    repeat: int = 1
    seed: int = 1
    rest_s: float = 10.0
    timeout_s: float = 60.0
    quiet_s: float = QUIET_S
    lab: Mapping[str, Any] = field(default_factory=dict)

    def runs(self) -> Iterator[Run]:
        combinations = itertools.product(self.nodes, self.fanout, self.start, range(self.repeat))
        return itertools.starmap(Run, combinations)

    def lab_of(self, run: Run, progress: Progress) -> Lab:
        """Raises LabError when the lab cannot be."""
        seed = self.seed + run.number
        return Lab(run.nodes, run.fanout, seed=seed, arp_proxy=True, progress=progress, **self.lab)


def measure_all(
    campaign: Campaign, json_path: Path | None, progress: Progress, say: Callable[[str], None]
) -> list[Figures]:
    """Run the campaign; results are written after every run, so that Ctrl-C loses only the present one."""
    done: list[Figures] = []
    if json_path is not None:
        check_pair(json_path)
    for run in campaign.runs():  # what cannot be is refused before the first run
        campaign.lab_of(run, progress)
    for run in campaign.runs():
        place = f"{run.nodes} nodes, fan-out {run.fanout}, {_layout(campaign)}, start {run.start}"
        say(f"{place}, run {run.number + 1} of {campaign.repeat}")
        found = measure_one(campaign, run, progress)
        done.append(found)
        if json_path is not None:
            write_pair(json_path, done)
        say(_sentence(found))
    return done


def measure_one(campaign: Campaign, run: Run, progress: Progress) -> Figures:
    """One run in a lab of its own. Raises LabError when the lab cannot be raised."""
    machine = measure.machine()
    with campaign.lab_of(run, progress) as lab:
        progress("touching memory", 0, 0)
        touched_mib = lab.touch_memory()
        progress("starting daemons, waiting for a stable tree", 0, 0)
        lab.start_all(run.start, campaign.seed + run.number)
        stable, then, asked, facts = _await_stable(lab, campaign)
        progress("measuring at rest", 0, 0)
        rest = _rest(lab, campaign) if campaign.rest_s > 0 else figures.NO_REST
        cluster = lab.look()
        pss = lab.processes("pss_mib")["pss_mib"].values()
        return {
            "nodes": run.nodes,
            "fanout": run.fanout,
            "layout": _layout(campaign),
            "start": run.start,
            **figures.of_start(cluster, stable, then),
            **figures.of_tree(cluster),
            "depth_optimum": depth_optimum(run.nodes, run.fanout),
            **asked,
            "exchanges_per_node": measure.exchanges_per_node(map(lab.control_socket, lab.positions)),
            "pss_mib_per_node": statistics.fmean(pss) if pss else 0.0,
            **rest,
            "live": len(cluster.live()),
            "facts": facts,
            "malformed_events": lab.malformed_events,
            **_circumstances(campaign, run, lab),
            "memory_touched_mib": touched_mib,
            "machine": machine,
        }


def _layout(campaign: Campaign) -> str:
    return str(campaign.lab.get("layout", "dense"))


def _circumstances(campaign: Campaign, run: Run, lab: Lab) -> Figures:
    """What is needed to repeat the run."""
    info, options, sites = lab.client.ask("info"), lab.options, campaign.lab.get("sites")
    return {
        "repeat": run.number,
        "seed": campaign.seed + run.number,
        "timing": options.timing,
        "mapping": options.mapping,
        "network": options.network,
        "subnets": options.subnets,
        "sites": None if sites is None else sites.name,
        "seeds": options.seeds,
        "announce": options.announce,
        "arp": options.arp,
        "disk": options.disk,
        "sealed": not options.insecure,
        "quiet_s": campaign.quiet_s,
        "neighbours": info["neighbours"],
        "requests_for_nobody": info["requests_for_nobody"],
        "requests_for_hosts": info["requests_for_hosts"],
        "command": "executed" if options.execute else "forked",
        "version": _version(options.daemon),
        "commit": measure.commit(),
    }


def _await_stable(lab: Lab, campaign: Campaign) -> tuple[Stable | None, Reading, Figures, str]:
    """The stable tree or None; what was counted at that moment; and the facts if it is not stable."""
    readings: list[tuple[Reading, Figures]] = []

    def read() -> None:
        asked = figures.of_arp(lab.arp() if lab.options.arp else None, len(lab.positions))
        has_sites = lab.options.sites is not None
        crossed = figures.of_sites(lab.traffic(), lab.wide_edges()) if has_sites else figures.NO_SITES
        readings[:] = [(figures.read(lab, datagrams=True), asked | crossed)]

    try:
        stable = lab.wait_stable(campaign.timeout_s, campaign.quiet_s, on_settled=read)
    except LabTimeout as reason:
        read()
        return None, *readings[0], str(reason)
    return stable, *readings[0], ""


def _rest(lab: Lab, campaign: Campaign) -> Figures:
    # By then beats are slow, streams along the edges are open and neighbourhoods are on disk.
    time.sleep(max(0.0, lab.look().last_place_at + REST_AFTER_S - time.monotonic()))
    before, asked_before = figures.read(lab), _asked(lab)
    places = sum(node.places for node in lab.look().live())
    time.sleep(campaign.rest_s)
    after, asked_after = figures.read(lab), _asked(lab)
    moved = sum(node.places for node in lab.look().live()) - places
    roots = [root.address for root in lab.look().roots()]
    seconds = after.mono - before.mono
    return {
        "rest_s": seconds,
        "rest_place_changes": moved,
        **figures.of_rest(before, after, roots[0] if len(roots) == 1 else None),
        "rest_arp_per_s": (asked_after - asked_before) / len(lab.positions) / seconds if lab.options.arp else None,
    }


def _asked(lab: Lab) -> int:
    return int(lab.arp()["requests"]) if lab.options.arp else 0


def _version(daemon: str | None) -> str:
    if daemon is not None:
        return f"not subord: {Path(daemon).name}"
    from subord import __version__

    return str(__version__)


def _sentence(run: Figures) -> str:
    if not run["stable"]:
        return f"  {run['facts']}"
    return (
        f"  stable after {run['stable_s']:.2f} s ({run['stable_after_last_start_s']:.2f} s after the last start),"
        f" {run['at_home']} of {run['live']} at home, depth {run['depth']}"
    )
