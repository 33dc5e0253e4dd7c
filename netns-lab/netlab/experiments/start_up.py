"""`stabilise`: how fast a cluster becomes one stable tree, and what it costs until then and afterwards.

Namespaces are made and the daemon is imported before the clock starts, at the first fork. Everything about the tree
is read from the event log, so that looking does not disturb the daemons.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netlab.common import measure
from netlab.common.results import Record
from netlab.common.tables import Column, comparison
from netlab.eventlog.tree import depth_optimum
from netlab.experiments import figures
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.lab import QUIET_S, Lab

REST_AFTER_S = 10.0  # from the last change of place to the measurement at rest
COLUMNS = (
    Column("stable_s", "stable s", 2),
    Column("stable_after_last_start_s", "after last", 2),
    Column("roots", "roots", 0),
    Column("at_home", "at home", 0),
    Column("depth", "depth", 0),
    Column("leader_changes_per_node", "changes", 3),
    Column("exchanges_per_node", "exchanges", 2),
    Column("cpu_s_per_node", "CPU s", 3),
    Column("pss_mib_per_node", "PSS MiB", 1),
    Column("rest_packets_per_s", "rest pkt/s", 2),
    Column("rest_bytes_per_s", "rest B/s", 0),
    Column("rest_cpu_percent", "rest CPU %", 3),
)
ARP_COLUMNS = (
    Column("arp_per_s_max", "ARP/s max", 0),
    Column("arp_requests_per_node", "ARP", 1),
    Column("silent_probes_per_node", "silent", 1),
    Column("silent_probes_after_contact_per_node", "after contact", 1),
    Column("arp_lost", "lost", 0),
)


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """All combinations of sizes, fan-outs and orders of starting. `options`: what else a Lab is given."""

    fanout: tuple[int, ...]
    start: tuple[str, ...] = ("together",)
    repeat: int = 1
    seed: int = 1
    rest_s: float = 10.0
    timeout_s: float = 60.0
    quiet_s: float = QUIET_S
    options: Mapping[str, Any] = field(default_factory=dict)

    def runs(self) -> Iterator[Run]:
        for nodes, fanout, number in itertools.product(self.nodes, self.fanout, range(self.repeat)):
            Lab(nodes, fanout, seed=self.seed + number, **self.options)  # refused before the first run
        about = {"layout": self.options.get("layout", "dense")}
        return self.by_turns(measure_one, about, _sentence, fanout=self.fanout, start=self.start)


def measure_one(plan: Plan, nodes: int, number: int, fanout: int, start: str) -> Record:
    """One run in a lab of its own. Raises LabError when the lab cannot be raised."""
    with plan.raised(nodes, fanout, seed=plan.seed + number, arp_proxy=True, **plan.options) as lab:
        lab.progress("touching memory")
        touched_mib = lab.touch_memory()
        lab.progress("starting daemons, waiting for a stable tree")
        lab.start_all(start, plan.seed + number)
        settled = figures.until_stable(lab, plan.timeout_s, plan.quiet_s, lambda: _counted(lab))
        stable, (then, asked), facts = settled
        lab.progress("measuring at rest")
        rest = _rest(lab, plan.rest_s) if plan.rest_s > 0 else figures.NO_REST
        cluster = lab.look()
        pss = lab.processes("pss_mib")["pss_mib"].values()
        return {
            **figures.of_start(cluster, stable, then),
            **figures.of_tree(cluster),
            "depth_optimum": depth_optimum(nodes, fanout),
            **asked,
            "exchanges_per_node": measure.exchanges_per_node(map(lab.control_socket, lab.positions)),
            "pss_mib_per_node": statistics.fmean(pss) if pss else 0.0,
            **rest,
            "live": len(cluster.live()),
            "facts": facts,
            "malformed_events": lab.malformed_events,
            "seed": plan.seed + number,
            "quiet_s": plan.quiet_s,
            **_circumstances(lab, plan.options.get("sites")),
            "memory_touched_mib": touched_mib,
        }


def _circumstances(lab: Lab, sites: Path | None) -> Record:
    """What is needed to repeat the run."""
    info, options = lab.client.ask("info"), lab.options
    of_options = ("timing", "mapping", "network", "subnets", "seeds", "announce", "arp", "disk")
    of_controller = ("neighbours", "requests_for_nobody", "requests_for_hosts")
    about = {name: getattr(options, name) for name in of_options} | {name: info[name] for name in of_controller}
    if options.daemon is not None:
        about["version"] = f"not subord: {Path(options.daemon).name}"
    return about | {
        "sites": None if sites is None else sites.name,
        "sealed": not options.insecure,
        "command": "executed" if options.execute else "forked",
    }


def _counted(lab: Lab) -> tuple[figures.Reading, Record]:
    asked = figures.of_arp(lab.arp() if lab.options.arp else None, len(lab.positions))
    has_sites = lab.options.sites is not None
    crossed = figures.of_sites(lab.traffic(), lab.wide_edges()) if has_sites else figures.NO_SITES
    return figures.read(lab, datagrams=True), asked | crossed


def await_rest(lab: Lab) -> None:
    """By then beats are slow, streams along the edges are open and neighbourhoods are on disk."""
    time.sleep(max(0.0, lab.look().last_place_at + REST_AFTER_S - time.monotonic()))


def _rest(lab: Lab, rest_s: float) -> Record:
    await_rest(lab)
    asked = _asked(lab)
    found = figures.at_rest(lab, rest_s)
    arp_per_s = (_asked(lab) - asked) / len(lab.positions) / found["rest_s"]
    return {**found, "rest_arp_per_s": arp_per_s if lab.options.arp else None}


def _asked(lab: Lab) -> int:
    return int(lab.arp()["requests"]) if lab.options.arp else 0


def _sentence(run: Record) -> str:
    if not run["stable"]:
        return f"  {run['facts']}"
    return (
        f"  stable after {run['stable_s']:.2f} s ({run['stable_after_last_start_s']:.2f} s after the last start),"
        f" {run['at_home']} of {run['live']} at home, depth {run['depth']}"
    )


def is_whole(record: Record) -> bool:
    return is_measured(record) and bool(record["stable"])


def table(records: list[Record]) -> str:
    """For people: median and spread over the repeats of each combination, of unstable runs, too."""
    columns = (*COLUMNS, *(ARP_COLUMNS if any(record.get("arp") for record in records) else ()))
    keys = ("nodes", "fanout", "layout", "start")
    return comparison(records, keys, columns, is_whole, counted="stable", measured=is_measured)
