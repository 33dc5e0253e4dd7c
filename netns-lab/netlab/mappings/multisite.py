"""Part `distance`: how many edges of the tree lead from site to site, what that costs, and what a cut does.

With the mapping `ip` most edges lead to another site; with `latency` one edge a site, less one, is the least. The
tree is measured at rest; then one site is cut off, and joined again.
"""

from __future__ import annotations

import time
from typing import Any

from netlab.common.results import Record
from netlab.eventlog import replay
from netlab.eventlog.events import Event
from netlab.eventlog.tree import depth_optimum
from netlab.experiments import figures
from netlab.lab import Lab
from netlab.mappings.base import MappingRun, await_quiet

CUT_S_MAX = 180.0
CUT_REST_S = 20.0  # how long both parts stay apart after both are whole


def measure_one(run: MappingRun) -> Record:
    """One lab. Raises LabError."""
    with run.lab() as lab:
        assert lab.options.sites is not None
        try:
            run.begin(lab)
            found = _settled(lab, run)
            rest = early = _at_rest(lab, run, run.rest_s)
            if run.mapping == "latency":  # then nodes look for a better place ever more rarely
                await_wide(lab, run.long_quiet_s, since=lab.cluster.last_place_at)
                rest = _at_rest(lab, run, max(run.rest_s, run.round_s))
            return found | {f"early_{name}": value for name, value in early.items()} | rest | _cut(lab, run)
        finally:
            run.keep(lab)


def wide_edges_least(lab: Lab) -> int:
    """With fewer the sites would not be connected."""
    assert lab.options.sites is not None
    return len(lab.options.sites.names) - 1


def await_wide(lab: Lab, quiet_s: float, since: float | None = None) -> bool:
    """Until no node has moved for so long and, with `latency`, as few edges as can be lead from site to site."""
    wanted = wide_edges_least(lab) if lab.options.mapping == "latency" else None
    return await_quiet(lab, quiet_s, lambda: wanted is None or lab.wide_edges() == wanted, since=since)


def _settled(lab: Lab, run: MappingRun) -> Record:
    await_wide(lab, run.quiet_s)
    cluster, begin = lab.look(), lab.cluster.last_fork_at
    changes = _wide(lab)
    at, then = replay.since(changes, wide_edges_least(lab)), figures.read(lab)
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
        "depth_optimum": depth_optimum(len(cluster.live()), lab.options.fanout),
    }


def _wide(lab: Lab) -> list[replay.Change]:
    assert lab.events is not None
    assert lab.options.sites is not None
    return replay.wide_edges(lab.events, lab.options.sites.name_of)


def _at_rest(lab: Lab, run: MappingRun, rest_s: float) -> Record:
    run.progress(f"measuring at rest for {rest_s:g} s", 0, 0)
    before, crossed = figures.read(lab), lab.traffic()
    places = sum(node.places for node in lab.look().live())
    time.sleep(rest_s)
    after, crossed_after = figures.read(lab), lab.traffic()
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


def _cut(lab: Lab, run: MappingRun) -> Record:
    """The second site of the file, then the first (where the root is), then the last, ..., by the repeat."""
    sites = lab.options.sites
    assert sites is not None
    assert lab.events is not None
    number = (1 - run.number) % len(sites.names)
    inside = set(sites.members[number])
    parts = [inside, set(lab.options.addresses) - inside]
    had_root = lab.look().roots()[0].address in inside
    run.progress(f"cutting off {sites.names[number]}", 0, 0)
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
    run.progress(f"mending {sites.names[number]}", 0, 0)
    mark, mended_at = len(lab.events), time.monotonic()
    lab.cut_site(sites.names[number], connected=True)
    one_s = _whole_s(lab, [set(lab.options.addresses)], mended_at)
    await_wide(lab, run.quiet_s)
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
    """Until each part is one tree whose root knows exactly the part."""

    def settled() -> list[float | None]:
        return [lab.cluster.settled_at(part) for part in parts]

    if not lab.holds(lambda _: None not in settled(), CUT_S_MAX):
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
