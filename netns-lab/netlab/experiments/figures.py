"""From what was seen and measured in one run to the figures that are published. Pure arithmetic.

Rates are per node; frames are counted where they enter the bridge, so each once; bytes include the Ethernet header.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from netlab.eventlog.events import Cluster
from netlab.lab import Stable

Figures = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The meters at one instant `mono` (seconds), by address; `sent` and `brought` are (bytes, packets)."""

    mono: float
    sent: dict[str, tuple[int, int]]
    brought: dict[str, tuple[int, int]]
    cpu_s: dict[str, float]
    datagrams_sent: dict[str, int]


def of_tree(cluster: Cluster) -> Figures:
    """What the final tree looks like."""
    live = cluster.live()
    subordinates = cluster.subordinates()
    return {
        "roots": len(cluster.roots()),
        "depth": cluster.depth(),
        "subordinates_max": max((len(found) for found in subordinates.values()), default=0),
        "at_home": sum(node.place in ("home", "root") for node in live),
        "leader_changes_per_node": _mean(node.leader_changes for node in live),
    }


def depth_optimum(nodes: int, fanout: int) -> int:
    """Depth, in edges, of a complete tree of so many nodes."""
    depth, level, room = 0, 1, 1
    while room < nodes:
        depth, level = depth + 1, level * fanout
        room += level
    return depth


NO_ARP: Figures = dict.fromkeys(
    (
        *("arp_per_s_max", "arp_requests_per_node", "silent_probes_per_node", "silent_probes_after_contact_per_node"),
        *("arp_router_per_s_max", "arp_router_requests", "arp_of_strangers", "arp_lost", "arp_left_out", "contacted"),
    )
)
"""Of a run in which nobody counted."""


def of_arp(counted: Figures, nodes: int) -> Figures:
    """Who asked for whom until then, by ARP or neighbour solicitation (topology/arp_counter.py)."""
    return {
        "arp_per_s_max": counted["per_s_max"],
        "arp_requests_per_node": counted["requests"] / nodes,
        "silent_probes_per_node": counted["silent"] / nodes,
        "silent_probes_after_contact_per_node": counted["silent_after_contact"] / nodes,
        "arp_router_per_s_max": counted["router_per_s_max"],
        "arp_router_requests": counted["router_requests"],
        "arp_of_strangers": counted["strangers"],
        "arp_lost": counted["lost"],
        "arp_left_out": counted["left_out"],
        "contacted": counted["contacted"],
    }


NO_SITES: Figures = dict.fromkeys(("wide_edges", "wide_frames", "wide_bytes", "wide_dropped", "wide_late_ms_max"))
"""Of a run at one place."""


def of_sites(traffic: Figures, wide_edges: int) -> Figures:
    """What went from site to site until then (topology/wan.py); all that did not arrive counts as dropped."""
    ways = traffic["ways"]
    dropped = sum(way[why] for way in ways for why in ("lost", "queue_full", "cut", "no_room"))
    return {
        "wide_edges": wide_edges,
        "wide_frames": sum(way["frames"] for way in ways),
        "wide_bytes": sum(way["bytes"] for way in ways),
        "wide_dropped": dropped + traffic["refused"] + sum(traffic["overrun"].values()),
        "wide_late_ms_max": 1e3 * traffic["late_s_max"],
    }


def of_start(cluster: Cluster, stable: Stable | None, then: Reading) -> Figures:
    """What it took until the tree was stable; `then` was read at that moment (or at the time limit)."""
    spread = 0.0 if cluster.first_fork_at is None else cluster.last_fork_at - cluster.first_fork_at
    return {
        "stable": stable is not None,
        "stable_s": None if stable is None else stable.since_first_start_s,
        "stable_after_last_start_s": None if stable is None else stable.since_last_start_s,
        "forked_within_s": spread,
        "datagrams_per_node": _mean(then.datagrams_sent.values()),
        "frames_per_node": _mean(packets for _, packets in then.sent.values()),
        "bytes_per_node": _mean(octets for octets, _ in then.sent.values()),
        "cpu_s_per_node": _mean(then.cpu_s.values()),
    }


NO_ROOT: Figures = dict.fromkeys(("rest_root_packets_per_s", "rest_root_bytes_per_s", "rest_root_cpu_percent"))
NO_REST: Figures = NO_ROOT | dict.fromkeys(
    ("rest_s", "rest_place_changes", "rest_packets_per_s", "rest_bytes_per_s", "rest_cpu_percent", "rest_arp_per_s")
)
"""Of a run that was not measured at rest."""


def of_rest(before: Reading, after: Reading, root: str | None) -> Figures:
    """What a node costs while nothing happens, and the root: there also what is brought to it counts.

    Nodes that ended in between are left out of the CPU figure. `root`: its address; None: there is not exactly one.
    """
    seconds = after.mono - before.mono
    octets, packets = _passed(before.sent, after.sent)
    cpu_s = {node: after.cpu_s[node] - before.cpu_s[node] for node in before.cpu_s if node in after.cpu_s}
    found = {
        "rest_packets_per_s": _mean(packets.values()) / seconds,
        "rest_bytes_per_s": _mean(octets.values()) / seconds,
        "rest_cpu_percent": 100 * _mean(cpu_s.values()) / seconds,
    }
    if root is None or root not in cpu_s:
        return {**NO_ROOT, **found}
    octets_in, packets_in = _passed(before.brought, after.brought)
    return {
        **found,
        "rest_root_packets_per_s": (packets[root] + packets_in[root]) / seconds,
        "rest_root_bytes_per_s": (octets[root] + octets_in[root]) / seconds,
        "rest_root_cpu_percent": 100 * cpu_s[root] / seconds,
    }


def _passed(
    before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]
) -> tuple[dict[str, int], dict[str, int]]:
    """(bytes, packets) by address, between two readings."""
    octets = {node: after[node][0] - then for node, (then, _) in before.items()}
    packets = {node: after[node][1] - then for node, (_, then) in before.items()}
    return octets, packets


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


COLUMNS = (
    ("stable s", "stable_s", 2),
    ("after last", "stable_after_last_start_s", 2),
    ("roots", "roots", 0),
    ("at home", "at_home", 0),
    ("depth", "depth", 0),
    ("changes", "leader_changes_per_node", 3),
    ("exchanges", "exchanges_per_node", 2),
    ("CPU s", "cpu_s_per_node", 3),
    ("PSS MiB", "pss_mib_per_node", 1),
    ("rest pkt/s", "rest_packets_per_s", 2),
    ("rest B/s", "rest_bytes_per_s", 0),
    ("rest CPU %", "rest_cpu_percent", 3),
)


ARP_COLUMNS = (
    ("ARP/s max", "arp_per_s_max", 0),
    ("ARP", "arp_requests_per_node", 1),
    ("silent", "silent_probes_per_node", 1),
    ("after contact", "silent_probes_after_contact_per_node", 1),
    ("lost", "arp_lost", 0),
)


def table(runs: list[Figures]) -> str:
    """For people: median (min..max) over the repeats of each combination; figures from `nodes` to `start` group."""
    groups: dict[tuple[Any, ...], list[Figures]] = {}
    for run in runs:
        groups.setdefault((run["nodes"], run["fanout"], run["layout"], run["start"]), []).append(run)
    columns = (*COLUMNS, *(ARP_COLUMNS if any(run.get("arp") for run in runs) else ()))
    rows = [["nodes", "p", "layout", "start", "stable runs", *(title for title, _, _ in columns)]]
    for (nodes, fanout, layout, start), members in groups.items():
        good = f"{sum(run['stable'] for run in members)}/{len(members)}"
        cells = [spread_text([run[key] for run in members], digits) for _, key, digits in columns]
        rows.append([str(nodes), str(fanout), layout, start, good, *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def spread_text(values: list[float | None], digits: int) -> str:
    """Median, and lowest and highest in brackets; `-`: there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    low, middle, high = (f"{value:.{digits}f}" for value in (min(known), statistics.median(known), max(known)))
    return middle if low == high else f"{middle} ({low}..{high})"
