"""From what was seen and measured in one run to the figures that are published.

Rates are per node; frames are counted where they enter the bridge, so each once; bytes include the Ethernet header.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

from netlab.eventlog.events import Cluster
from netlab.lab import Lab, LabTimeout, Stable

Figures = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was counted up to one instant `mono` (seconds), by address; `sent` and `brought` are (bytes, packets)."""

    mono: float
    sent: dict[str, tuple[int, int]]
    brought: dict[str, tuple[int, int]]
    cpu_s: dict[str, float]
    datagrams_sent: dict[str, int]


def read(lab: Lab, *, datagrams: bool = False) -> Reading:
    """Everything that the kernel has counted until now. Datagrams cost 50 us a node more."""
    processes = lab.processes("cpu_s", "datagrams_sent") if datagrams else lab.processes("cpu_s")
    return Reading(**{"datagrams_sent": {}, **processes, **lab.ports()})


def until_stable(lab: Lab, timeout_s: float, quiet_s: float, read: Callable[[], T]) -> tuple[Stable | None, T, str]:
    """The stable tree or None; what was read at that moment; and the facts if it is not stable."""
    found: list[T] = []
    try:
        stable = lab.wait_stable(timeout_s, quiet_s, on_settled=lambda: found.append(read()))
    except LabTimeout as reason:
        return None, read(), str(reason)
    return stable, found[-1], ""


def cpu_used(lab: Lab, seconds: float) -> tuple[dict[str, float], float]:
    """(seconds of processor time of each node that still lives, how long it was measured)."""
    before = lab.processes("cpu_s")
    time.sleep(seconds)
    after = lab.processes("cpu_s")
    return _used(before["cpu_s"], after["cpu_s"]), after["mono"] - before["mono"]


def _used(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {node: after[node] - spent for node, spent in before.items() if node in after}


def of_tree(cluster: Cluster) -> Figures:
    live = cluster.live()
    subordinates = cluster.subordinates()
    return {
        "roots": len(cluster.roots()),
        "depth": cluster.depth(),
        "subordinates_max": max((len(found) for found in subordinates.values()), default=0),
        "at_home": sum(node.place in ("home", "root") for node in live),
        "leader_changes_per_node": _mean(node.leader_changes for node in live),
    }


ARP = {
    "arp_per_s_max": "per_s_max",
    "arp_requests_per_node": "requests",
    "silent_probes_per_node": "silent",
    "silent_probes_after_contact_per_node": "silent_after_contact",
    "arp_router_per_s_max": "router_per_s_max",
    "arp_router_requests": "router_requests",
    "arp_of_strangers": "strangers",
    "arp_lost": "lost",
    "arp_left_out": "left_out",
    "contacted": "contacted",
}
"""Figure -> what arp_counter.py calls it."""


def of_arp(counted: Figures | None, nodes: int) -> Figures:
    """Requests until then, by ARP or neighbour solicitation; None: they were not counted."""
    if counted is None:
        return dict.fromkeys(ARP)
    return {name: counted[key] / nodes if name.endswith("_per_node") else counted[key] for name, key in ARP.items()}


NO_SITES: Figures = dict.fromkeys(("wide_edges", "wide_frames", "wide_bytes", "wide_dropped", "wide_late_ms_max"))
"""Of a run without sites."""


def of_sites(traffic: Figures, wide_edges: int) -> Figures:
    """What went from site to site until then (wan.py); all that did not arrive counts as dropped."""
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
    """What a node costs while nothing happens, and the root, where what is brought to it counts, too.

    Nodes that ended in between are left out of the CPU figure. `root`: its address; None: there is not exactly one.
    """
    seconds = after.mono - before.mono
    octets, packets = _passed(before.sent, after.sent)
    cpu_s = _used(before.cpu_s, after.cpu_s)
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


def at_rest(lab: Lab, seconds: float) -> Figures:
    """The same of the next seconds, and how often nodes changed places meanwhile."""
    before, places = read(lab), sum(node.places for node in lab.look().live())
    time.sleep(seconds)
    after = read(lab)
    moved = sum(node.places for node in lab.look().live()) - places
    roots = [root.address for root in lab.cluster.roots()]
    found = of_rest(before, after, roots[0] if len(roots) == 1 else None)
    return {"rest_s": after.mono - before.mono, "rest_place_changes": moved, **found}


def _passed(
    before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]
) -> tuple[dict[str, int], dict[str, int]]:
    """(bytes, packets) by address, between two readings."""
    octets = {node: after[node][0] - then for node, (then, _) in before.items()}
    packets = {node: after[node][1] - then for node, (_, then) in before.items()}
    return octets, packets


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0
