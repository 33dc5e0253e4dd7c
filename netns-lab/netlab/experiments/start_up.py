"""Measuring how fast a cluster becomes one stable tree, and what it costs until then and afterwards.

Intuition: a swimming race. Lanes and water are ready before the shot (namespaces made, daemon imported); the clock
runs from the first start; and the judge (the event log) stands beside the pool, not in it.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from netlab.common import measure
from netlab.common.results import check_pair, write_pair
from netlab.experiments import figures
from netlab.experiments.figures import Figures, Reading
from netlab.lab import QUIET_S, Lab, LabTimeout, Stable
from netlab.processes import performance
from netlab.processes.launch import Progress

REST_AFTER_S = 10.0  # from the last change of place to the measurement at rest


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """All combinations to be run, each `repeat` times."""

    nodes: tuple[int, ...]
    fanout: tuple[int, ...]
    layout: str = "dense"
    sites: Path | None = None
    start: tuple[str, ...] = ("together",)
    repeat: int = 1
    seed: int = 1
    execute: bool = False
    rest_s: float = 10.0
    timeout_s: float = 60.0
    quiet_s: float = QUIET_S
    network: str | None = None  # None: the one that goes with the layout
    seeds: int = 0
    seed_nodes: tuple[int, ...] = ()
    announce: bool = False
    arp: bool = False
    disk: bool = True
    insecure: bool = False
    guest_slots: int | None = None
    mapping: str = "ip"
    spread: float = performance.SPREAD
    timing: str = "lan"
    rootless: bool = False
    daemon: str | None = None

    def runs(self) -> Iterator[Run]:
        for nodes, fanout, start in itertools.product(self.nodes, self.fanout, self.start):
            for number in range(self.repeat):
                yield Run(nodes=nodes, fanout=fanout, start=start, number=number)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a campaign; `number` counts the repeats from 0."""

    nodes: int
    fanout: int
    start: str
    number: int


def measure_all(
    campaign: Campaign, json_path: Path | None, progress: Progress, say: Callable[[str], None]
) -> list[Figures]:
    """Run the campaign; results are written after every run, so that Ctrl-C loses only the present one."""
    done: list[Figures] = []
    if json_path is not None:
        check_pair(json_path)
    for run in campaign.runs():
        place = f"{run.nodes} nodes, fan-out {run.fanout}, {campaign.layout}, start {run.start}"
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
    with _lab(campaign, run, progress) as lab:
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
            "layout": campaign.layout,
            "start": run.start,
            **figures.of_start(cluster, stable, then),
            **figures.of_tree(cluster),
            "depth_optimum": figures.depth_optimum(run.nodes, run.fanout),
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


def _lab(campaign: Campaign, run: Run, progress: Progress) -> Lab:
    return Lab(
        run.nodes,
        run.fanout,
        layout=campaign.layout,
        sites=campaign.sites,
        network=campaign.network,
        seed=campaign.seed + run.number,
        seeds=campaign.seeds,
        seed_nodes=campaign.seed_nodes,
        announce=campaign.announce,
        arp=campaign.arp,
        errands=True,
        disk=campaign.disk,
        insecure=campaign.insecure,
        guest_slots=campaign.guest_slots,
        mapping=campaign.mapping,
        spread=campaign.spread,
        timing=campaign.timing,
        execute=campaign.execute,
        rootless=campaign.rootless,
        daemon=campaign.daemon,
        progress=progress,
    )


def _circumstances(campaign: Campaign, run: Run, lab: Lab) -> Figures:
    """What somebody needs to repeat the run."""
    info = lab.client.ask("info")
    return {
        "repeat": run.number,
        "seed": campaign.seed + run.number,
        "timing": campaign.timing,
        "mapping": campaign.mapping,
        "network": lab.options.network,
        "subnets": lab.options.subnets,
        "sites": None if campaign.sites is None else campaign.sites.name,
        "seeds": lab.options.seeds,
        "announce": campaign.announce,
        "arp": campaign.arp,
        "disk": campaign.disk,
        "sealed": not campaign.insecure,
        "quiet_s": campaign.quiet_s,
        "neighbours": info["neighbours"],
        "requests_for_nobody": info["requests_for_nobody"],
        "requests_for_hosts": info["requests_for_hosts"],
        "command": "executed" if campaign.execute else "forked",
        "version": _version(campaign.daemon),
        "commit": measure.commit(),
    }


def read_meters(lab: Lab, *, datagrams: bool) -> Reading:
    """All meters now. Datagrams cost 50 us a node more."""
    processes = lab.processes("cpu_s", "datagrams_sent") if datagrams else lab.processes("cpu_s")
    ports = lab.ports()
    return Reading(
        mono=ports["mono"],
        sent=ports["sent"],
        brought=ports["brought"],
        cpu_s=processes["cpu_s"],
        datagrams_sent=processes.get("datagrams_sent", {}),
    )


def _await_stable(lab: Lab, campaign: Campaign) -> tuple[Stable | None, Reading, Figures, str]:
    """The stable tree or None, meters, ARP and sites at that moment, and what there is to say if it is not stable."""
    readings: list[tuple[Reading, Figures]] = []

    def read() -> None:
        asked = figures.of_arp(lab.arp(), len(lab.positions)) if campaign.arp else figures.NO_ARP
        there = lab.options.sites is not None
        crossed = figures.of_sites(lab.traffic(), lab.wide_edges()) if there else figures.NO_SITES
        readings[:] = [(read_meters(lab, datagrams=True), asked | crossed)]

    try:
        stable = lab.wait_stable(campaign.timeout_s, campaign.quiet_s, on_settled=read)
    except LabTimeout as reason:
        read()
        return None, *readings[0], str(reason)
    return stable, *readings[0], ""


def _rest(lab: Lab, campaign: Campaign) -> Figures:
    # By then beats are slow, streams along the edges are open and neighbourhoods are on disk.
    time.sleep(max(0.0, lab.look().last_place_at + REST_AFTER_S - time.monotonic()))
    before, asked_before = read_meters(lab, datagrams=False), _asked(lab, campaign)
    places = sum(node.places for node in lab.look().live())
    time.sleep(campaign.rest_s)
    after, asked_after = read_meters(lab, datagrams=False), _asked(lab, campaign)
    moved = sum(node.places for node in lab.look().live()) - places
    roots = [root.address for root in lab.look().roots()]
    seconds = after.mono - before.mono
    return {
        "rest_s": seconds,
        "rest_place_changes": moved,
        **figures.of_rest(before, after, roots[0] if len(roots) == 1 else None),
        "rest_arp_per_s": (asked_after - asked_before) / len(lab.positions) / seconds if campaign.arp else None,
    }


def _asked(lab: Lab, campaign: Campaign) -> int:
    return int(lab.arp()["requests"]) if campaign.arp else 0


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
