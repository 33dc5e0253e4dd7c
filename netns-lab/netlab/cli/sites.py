"""The commands for a lab with sites: what crossed between them, the edges of the tree, cuts and jitter."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from netlab.common.tables import aligned
from netlab.errors import LabError
from netlab.eventlog.events import Cluster, EventLog
from netlab.eventlog.tree import Leaders, edges_between, wide_edges
from netlab.processes import client
from netlab.processes.options import Options
from netlab.topology.sites import Sites
from netlab.topology.wan import LATE_S

COLUMNS = ("frames", "bytes", "lost", "queue_full", "cut", "no_room")


def cut_site(given: argparse.Namespace) -> int:
    """Cut a site off from all others; or, as `mend-site`, end that."""
    with client.attach(given.name) as controller:
        controller.ask("cut_site", site=given.site, connected=given.do == "mend-site")
    return 0


def jitter(given: argparse.Namespace) -> int:
    """Let the delays between sites change, or end that."""
    with client.attach(given.name) as controller:
        controller.ask("jitter", share=given.share)
    return 0


def traffic(given: argparse.Namespace) -> int:
    """What has crossed from site to site so far."""
    with client.attach(given.name) as controller:
        found = controller.ask("traffic")
    print(json.dumps(found, indent=1) if given.json else traffic_table(found))
    return 0


def traffic_table(found: dict[str, Any]) -> str:
    """For people: one line a direction, and below them what is late, under way, cut off or dropped."""
    rows = [["from", "to", *COLUMNS]]
    rows += [[way["from"], way["to"], *(str(way[column]) for column in COLUMNS)] for way in found["ways"]]
    late = f"Late by {1e3 * found['late_s_mean']:.2f} ms on average, {1e3 * found['late_s_max']:.1f} ms at the most,"
    late += f" {found['late']} frames by more than {1e3 * LATE_S:g} ms."
    below = [late, f"{found['under_way']} frames are under way."]
    if found["cut_sites"]:
        below.append(f"Cut off: {', '.join(found['cut_sites'])}.")
    if left_out := sum(found["overrun"].values()) + found["refused"]:
        below.append(f"{left_out} frames were too many for the relay or the kernel.")
    return "\n".join([aligned(rows), *below])


def edges(given: argparse.Namespace) -> int:
    """Edges of the present tree by the sites of their ends, from the event log."""
    with client.attach(given.name) as controller:
        info = controller.ask("info")
    sites = Options.from_json(info["options"]).sites
    if sites is None:
        raise LabError("This lab has no sites: raise it with `--sites FILE`. Nothing was changed.")
    print(edges_table(Cluster.of(EventLog(Path(info["events"])).new()).leaders(), sites))
    return 0


def edges_table(leaders: Leaders, sites: Sites) -> str:
    """For people: a row for the site of the subordinate, a column for that of its leader; and the sum."""
    found = edges_between(leaders, sites.name_of)
    rows = [["below \\ above", *sites.names]]
    rows += [[below, *(str(found[below, above]) for above in sites.names)] for below in sites.names]
    wide = wide_edges(leaders, sites.name_of)
    return f"{aligned(rows)}\n{wide} of {found.total()} edges lead from one site to another."
