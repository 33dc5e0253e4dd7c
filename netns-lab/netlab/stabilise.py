"""Measuring how fast a cluster becomes one stable tree, and what it costs until then and afterwards.

Intuition: a swimming race. Lanes and water are ready before the shot (namespaces made, daemon imported); the clock
runs from the first start; and the judge (the event log) stands beside the pool, not in it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netlab import figures, measure
from netlab.figures import Figures, Reading
from netlab.lab import Lab, LabTimeout, Stable
from netlab.launch import Progress


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """All combinations to be run, each `repeat` times."""

    nodes: tuple[int, ...]
    fanout: tuple[int, ...]
    layout: str = "dense"
    start: tuple[str, ...] = ("together",)
    repeat: int = 1
    seed: int = 1
    execute: bool = False
    rest_s: float = 10.0
    timeout_s: float = 60.0
    network: str = "10.0.0.0/16"
    guest_slots: int | None = None
    timing: str = "lan"
    rootless: bool = False
    daemon: str | None = None

    def runs(self) -> Iterator[tuple[int, int, str, int]]:
        """(nodes, fanout, start, number of the repeat)."""
        for nodes in self.nodes:
            for fanout in self.fanout:
                for start in self.start:
                    for number in range(self.repeat):
                        yield nodes, fanout, start, number


def measure_all(
    campaign: Campaign, json_path: Path | None, progress: Progress, say: Callable[[str], None]
) -> list[Figures]:
    """Run the campaign; results are written after every run, so that Ctrl-C loses only the present one."""
    done: list[Figures] = []
    for nodes, fanout, start, number in campaign.runs():
        say(
            f"{nodes} nodes, fan-out {fanout}, {campaign.layout}, start {start}, run {number + 1} of {campaign.repeat}"
        )
        run = measure_one(campaign, nodes, fanout, start, number, progress)
        done.append(run)
        if json_path is not None:
            _write(json_path, done)
        say(_sentence(run))
    return done


def measure_one(campaign: Campaign, nodes: int, fanout: int, start: str, number: int, progress: Progress) -> Figures:
    """One run in a lab of its own. Raises LabError when the lab cannot be raised."""
    machine = measure.machine()
    seed = campaign.seed + number
    lab = Lab(
        nodes,
        fanout,
        layout=campaign.layout,
        network=campaign.network,
        guest_slots=campaign.guest_slots,
        timing=campaign.timing,
        execute=campaign.execute,
        rootless=campaign.rootless,
        daemon=campaign.daemon,
        progress=progress,
    )
    with lab:
        progress("touching memory", 0, 0)
        touched_mib = lab.touch_memory()
        progress("starting daemons, waiting for a stable tree", 0, 0)
        lab.start_all(start, seed)
        stable, then, facts = _await_stable(lab, campaign.timeout_s)
        progress("measuring at rest", 0, 0)
        rest = _rest(lab, campaign.rest_s)
        cluster = lab.look()
        pss = lab.processes("pss_mib")["pss_mib"].values()
        run = {
            "nodes": nodes,
            "fanout": fanout,
            "layout": campaign.layout,
            "start": start,
            **figures.of_start(cluster, stable, then),
            **figures.of_tree(cluster),
            "exchanges_per_node": measure.exchanges_per_node(map(lab.control_socket, lab.positions)),
            "pss_mib_per_node": statistics.fmean(pss) if pss else 0.0,
            **rest,
            "live": len(cluster.live()),
            "facts": facts,
            "malformed_events": lab.malformed_events,
            "repeat": number,
            "seed": seed,
            "timing": campaign.timing,
            "network": campaign.network,
            "neighbours": lab.client.ask("info")["neighbours"],
            "command": "executed" if campaign.execute else "forked",
            "version": _version(campaign.daemon),
            "memory_touched_mib": touched_mib,
            "machine": machine,
        }
    return run


def read_meters(lab: Lab, *, datagrams: bool) -> Reading:
    """All meters now. Datagrams cost 50 us a node more."""
    processes = lab.processes("cpu_s", "datagrams_sent") if datagrams else lab.processes("cpu_s")
    ports = lab.ports()
    return Reading(
        mono=ports["mono"],
        sent=ports["sent"],
        cpu_s=processes["cpu_s"],
        datagrams_sent=processes.get("datagrams_sent", {}),
    )


def _await_stable(lab: Lab, timeout_s: float) -> tuple[Stable | None, Reading, str]:
    """The stable tree or None, the meters at that moment, and what there is to say if it is not stable."""
    readings: list[Reading] = []

    def read() -> None:
        readings[:] = [read_meters(lab, datagrams=True)]

    try:
        stable = lab.wait_stable(timeout_s, on_settled=read)
    except LabTimeout as reason:
        read()
        return None, readings[0], str(reason)
    return stable, readings[0], ""


def _rest(lab: Lab, seconds: float) -> Figures:
    before = read_meters(lab, datagrams=False)
    places = sum(node.places for node in lab.look().live())
    time.sleep(seconds)
    after = read_meters(lab, datagrams=False)
    moved = sum(node.places for node in lab.look().live()) - places
    return {"rest_s": after.mono - before.mono, "rest_place_changes": moved, **figures.of_rest(before, after)}


def _version(daemon: str | None) -> str:
    if daemon is not None:
        return f"not subord: {Path(daemon).name}"
    from subord import __version__

    return str(__version__)


def _write(path: Path, runs: list[dict[str, Any]]) -> None:
    """Whole or not at all: a reader never sees half a file."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(runs, indent=1) + "\n")
    os.replace(new, path)


def _sentence(run: Figures) -> str:
    if not run["stable"]:
        return f"  {run['facts']}"
    return (
        f"  stable after {run['stable_s']:.2f} s ({run['stable_after_last_start_s']:.2f} s after the last start),"
        f" {run['at_home']} of {run['live']} at home, depth {run['depth']}"
    )
