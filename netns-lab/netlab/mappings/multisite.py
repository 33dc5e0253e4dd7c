"""Sites far apart: how many edges of the tree lead from one to another, what that costs, and what a cut does.

Intuition: a firm with branches whose staff list mixes them all. By the list, three reports in four go to another
town; by how long the telephone takes one a town would do. Then the line of one town is cut, and repaired.
"""

from __future__ import annotations

import time
from typing import Any

from netlab.common.results import Record
from netlab.eventlog import replay
from netlab.eventlog.events import Event
from netlab.experiments import figures
from netlab.experiments.start_up import read_meters
from netlab.lab import Lab, LabTimeout
from netlab.mappings.base import Ground, await_calm

CUT_S_MAX = 180.0
CUT_REST_S = 20.0  # how long both parts live apart after both are whole


def measure_one(ground: Ground) -> Record:
    """One lab. Raises LabError."""
    with ground.lab() as lab:
        assert lab.options.sites is not None
        try:
            ground.begin(lab)
            found = _settled(lab, ground)
            rest = early = _at_rest(lab, ground, ground.rest_s)
            if ground.mapping == "latency":  # then nodes look around, ever more rarely
                await_wide(lab, ground.long_quiet_s, since=lab.cluster.last_place_at)
                rest = _at_rest(lab, ground, max(ground.rest_s, ground.round_s))
            return found | {f"early_{name}": value for name, value in early.items()} | rest | _cut(lab, ground)
        finally:
            ground.keep(lab)


def wide_edges_least(lab: Lab) -> int:
    """Without fewer the sites would not be connected."""
    assert lab.options.sites is not None
    return len(lab.options.sites.names) - 1


def _wanted(lab: Lab) -> int | None:
    """How many wide edges are waited for; None: any number will do."""
    return wide_edges_least(lab) if lab.options.mapping == "latency" else None


def await_wide(lab: Lab, quiet_s: float, since: float | None = None) -> bool:
    """Until nobody has moved for so long and, by latency, as few edges as can be lead from site to site."""
    wanted = _wanted(lab)
    return await_calm(lab, quiet_s, lambda: wanted is None or lab.wide_edges() == wanted, since=since)


def _settled(lab: Lab, ground: Ground) -> Record:
    await_wide(lab, ground.quiet_s)
    cluster, begin = lab.look(), lab.cluster.last_fork_at
    changes = _wide(lab)
    at, then = replay.since(changes, wide_edges_least(lab)), read_meters(lab, datagrams=False)
    return {
        "sites": len(lab.options.sites.names) if lab.options.sites else None,
        "wide_edges": lab.wide_edges(),
        "wide_edges_least": wide_edges_least(lab),
        "wide_least_s": None if at is None else at - begin,
        "forked_within_s": begin - (cluster.first_fork_at or begin),
        "settled_cpu_s_per_node": sum(then.cpu_s.values()) / len(then.cpu_s),
        "settled_frames_per_node": sum(packets for _, packets in then.sent.values()) / len(then.sent),
        "last_move_s": cluster.last_place_at - begin,
        "wide_edges_by_second": replay.by_second(changes, begin, cluster.last_place_at),
        **figures.of_tree(cluster),
        "depth_optimum": figures.depth_optimum(len(cluster.live()), lab.options.fanout),
    }


def _wide(lab: Lab, mark: int = 0) -> list[replay.Change]:
    assert lab.events is not None
    assert lab.options.sites is not None
    return [each for each in replay.wide(lab.events, lab.options.sites.name_of) if each[0] >= _at(lab.events, mark)]


def _at(events: list[Event], mark: int) -> float:
    return float(events[mark]["mono"]) if mark < len(events) else float("inf")


def _at_rest(lab: Lab, ground: Ground, rest_s: float) -> Record:
    ground.progress(f"measuring at rest for {rest_s:g} s", 0, 0)
    before, crossed = read_meters(lab, datagrams=False), lab.traffic()
    places = sum(node.places for node in lab.look().live())
    time.sleep(rest_s)
    after, crossed_after = read_meters(lab, datagrams=False), lab.traffic()
    seconds = crossed_after["mono"] - crossed["mono"]
    frames, octets = (_ways(crossed_after, each) - _ways(crossed, each) for each in ("frames", "bytes"))
    nodes = len(lab.positions)
    whole = figures.of_rest(before, after, None)
    return {
        "rest_s": seconds,
        "rest_place_changes": sum(node.places for node in lab.look().live()) - places,
        "wide_frames_per_s": frames / seconds,
        "wide_bytes_per_s": octets / seconds,
        "all_frames_per_s": whole["rest_packets_per_s"] * nodes,
        "all_bytes_per_s": whole["rest_bytes_per_s"] * nodes,
        "rest_cpu_percent": whole["rest_cpu_percent"],
        "wide_late_ms_max": 1e3 * crossed_after["late_s_max"],
    }


def _ways(traffic: dict[str, Any], what: str) -> int:
    return sum(way[what] for way in traffic["ways"])


# -- a site is cut off -------------------------------------------------------------------------------------


def _cut(lab: Lab, ground: Ground) -> Record:
    """The second site of the file, then the first (where the root is), then the last, ..., by the repeat."""
    sites = lab.options.sites
    assert sites is not None
    assert lab.events is not None
    number = (1 - ground.number) % len(sites.names)
    inside = set(sites.members[number])
    parts = [inside, set(lab.options.addresses) - inside]
    had_root = lab.look().roots()[0].address in inside
    ground.progress(f"cutting off {sites.names[number]}", 0, 0)
    mark, cut_at = len(lab.events), time.monotonic()
    lab.cut_site(sites.names[number])
    apart_s = _whole_s(lab, parts, cut_at)
    time.sleep(CUT_REST_S)
    lab.look()
    found = {
        "cut_site": sites.names[number],
        "cut_had_root": had_root,
        "cut_whole_s": apart_s,
        "cut_wide_edges": lab.wide_edges(),
        "cut_moves": _moves(lab.events[mark:]),
    }
    ground.progress(f"mending {sites.names[number]}", 0, 0)
    mark, mended_at = len(lab.events), time.monotonic()
    lab.cut_site(sites.names[number], connected=True)
    one_s = _whole_s(lab, [set(lab.options.addresses)], mended_at)
    await_wide(lab, ground.quiet_s)
    at = replay.since(_wide(lab), wide_edges_least(lab))
    return {
        **found,
        "mend_one_root_s": one_s,
        "mend_wide_edges": lab.wide_edges(),
        "mend_wide_least_s": None if at is None else max(0.0, at - mended_at),
        "mend_last_move_s": max(0.0, lab.cluster.last_place_at - mended_at),
        "mend_moves": _moves(lab.events[mark:]),
        "mend_depth": lab.cluster.depth(),
    }


def _whole_s(lab: Lab, parts: list[set[str]], since: float) -> float | None:
    """Until each part is one tree whose root knows all of it, and nobody else."""

    def settled() -> list[float | None]:
        return [lab.cluster.settled_at(part) for part in parts]

    try:
        lab.wait(lambda _: None not in settled(), CUT_S_MAX)
    except LabTimeout:
        return None
    return max(0.0, max(at for at in settled() if at is not None) - since)


def _moves(events: list[Event]) -> int:
    return sum(event["event"] == "place" for event in events)


def faults_of(record: Record) -> list[str]:
    """What must not be, in words."""
    least, by_latency = record["wide_edges_least"], record["mapping"] == "latency"
    bad = {
        f"{record['wide_edges']} wide edges": by_latency and record["wide_edges"] != least,
        f"{record['rest_place_changes']} changes of place at rest": record["rest_place_changes"],
        "the parts did not become whole": record["cut_whole_s"] is None,
        "the whole did not become one again": record["mend_one_root_s"] is None,
        f"{record['mend_wide_edges']} wide edges after mending": by_latency and record["mend_wide_edges"] != least,
    }
    return [words for words, holds in bad.items() if holds]
