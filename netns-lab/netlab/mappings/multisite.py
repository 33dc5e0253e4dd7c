"""Part `distance`: how many edges of the tree lead from site to site, what that costs, and what a cut does.

With the mapping `ip` most edges lead to another site; with `latency` one edge a site, less one, is the least. The
tree is measured at rest; then one site is cut off, and joined again.
"""

from __future__ import annotations

import time

from netlab.common.results import Record
from netlab.eventlog import changes as log_changes
from netlab.eventlog.events import Event
from netlab.eventlog.tree import depth_optimum
from netlab.experiments import figures
from netlab.lab import Lab
from netlab.mappings.base import await_quiet, long_quiet_s, quiet_s, round_s

CUT_S_MAX = 180.0
CUT_REST_S = 20.0  # how long both parts stay apart after both are whole


def measure_one(lab: Lab, number: int, rest_s: float) -> Record:
    """At rest, cut, and mended. Raises LabError."""
    found = _settled(lab)
    rest = early = _at_rest(lab, rest_s)
    if lab.options.mapping == "latency":  # then nodes look for a better place ever more rarely
        await_wide(lab, long_quiet_s(lab), since=lab.cluster.last_place_at)
        rest = _at_rest(lab, max(rest_s, round_s(lab)))
    return found | {f"early_{name}": value for name, value in early.items()} | rest | _cut(lab, number)


def wide_edges_least(lab: Lab) -> int:
    """With fewer the sites would not be connected."""
    return len(lab.sites.names) - 1


def await_wide(lab: Lab, quiet_s: float, since: float | None = None) -> bool:
    """Until no node has moved for so long and, with `latency`, as few edges as can be lead from site to site."""
    wanted = wide_edges_least(lab) if lab.options.mapping == "latency" else None
    return await_quiet(lab, quiet_s, lambda: wanted is None or lab.wide_edges() == wanted, since=since)


def _settled(lab: Lab) -> Record:
    await_wide(lab, quiet_s(lab))
    cluster, begin = lab.look(), lab.cluster.last_fork_at
    changes = _wide(lab)
    at, then = log_changes.since(changes, wide_edges_least(lab)), figures.read(lab)
    return {
        "sites": len(lab.sites.names),
        "wide_edges": lab.wide_edges(),
        "wide_edges_least": wide_edges_least(lab),
        "wide_least_s": None if at is None else at - begin,
        "forked_within_s": begin - (cluster.first_fork_at or begin),
        "settled_cpu_s_per_node": sum(then.cpu_s.values()) / len(then.cpu_s),
        "settled_frames_per_node": sum(packets for _, packets in then.sent.values()) / len(then.sent),
        "last_move_s": cluster.last_place_at - begin,
        "wide_edges_by_second": log_changes.by_second(changes, begin, cluster.last_place_at),
        **figures.of_tree(cluster),
        "depth_optimum": depth_optimum(len(cluster.live()), lab.options.fanout),
    }


def _wide(lab: Lab) -> list[log_changes.Change]:
    return log_changes.wide_edges(lab.events, lab.sites.name_of)


def _at_rest(lab: Lab, rest_s: float) -> Record:
    lab.progress(f"measuring at rest for {rest_s:g} s")
    before = lab.traffic()
    whole = figures.at_rest(lab, rest_s)
    after = lab.traffic()
    frames, octets = (
        sum(now[what] - then[what] for then, now in zip(before["ways"], after["ways"], strict=True))
        for what in ("frames", "bytes")
    )
    nodes, seconds = len(lab.positions), after["mono"] - before["mono"]
    return {
        **{name: whole[name] for name in ("rest_s", "rest_place_changes", "rest_cpu_percent")},
        "wide_frames_per_s": frames / seconds,
        "wide_bytes_per_s": octets / seconds,
        "all_frames_per_s": whole["rest_packets_per_s"] * nodes,
        "all_bytes_per_s": whole["rest_bytes_per_s"] * nodes,
        "wide_late_ms_max": 1e3 * after["late_s_max"],
    }


def _cut(lab: Lab, repeat: int) -> Record:
    """The second site of the file, then the first (where the root is), then the last, ..., by the repeat."""
    number = (1 - repeat) % len(lab.sites.names)
    name, inside = lab.sites.names[number], set(lab.sites.members[number])
    parts = [inside, set(lab.options.addresses) - inside]
    had_root = lab.look().roots()[0].address in inside
    lab.progress(f"cutting off {name}")
    mark, cut_at = len(lab.events), time.monotonic()
    lab.cut_site(name)
    apart_s = _whole_s(lab, parts, cut_at)
    time.sleep(CUT_REST_S)
    lab.look()
    found = {
        "cut_site": name,
        "cut_had_root": had_root,
        "cut_whole_s": apart_s,
        "cut_wide_edges": lab.wide_edges(),
        "cut_moves": _moves(lab.events[mark:]),
    }
    lab.progress(f"mending {name}")
    mark, mended_at = len(lab.events), time.monotonic()
    lab.cut_site(name, connected=True)
    one_s = _whole_s(lab, [set(lab.options.addresses)], mended_at)
    await_wide(lab, quiet_s(lab))
    at = log_changes.since(_wide(lab), wide_edges_least(lab))
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


def faults_of(record: Record) -> dict[str, object]:
    least, by_latency = record["wide_edges_least"], record["mapping"] == "latency"
    return {
        f"{record['wide_edges']} wide edges": by_latency and record["wide_edges"] != least,
        f"{record['rest_place_changes']} changes of place at rest": record["rest_place_changes"],
        "the parts did not become whole": record["cut_whole_s"] is None,
        "the whole did not become one again": record["mend_one_root_s"] is None,
        f"{record['mend_wide_edges']} wide edges after mending": by_latency and record["mend_wide_edges"] != least,
    }
