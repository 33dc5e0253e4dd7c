"""The table of sparse, wide and routed networks in docs/evaluation/start.md, from docs/figures/.

Each row has its command.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator

import records
from build_evaluation import markdown
from records import Run, spread

LAYOUTS = ("random", "blocks", "end", "thirds", "routed", "six")
STABLE = "stable_after_last_start_s"
CHURN_ROWS = (("depth", "depth"), ("daemons never ended so far", "veterans"))
NOTHING_S, MET_S, LATE, ARP = 30, 10, 10, 50  # the aims
MEETINGS = ("nothing", "seed", "announcements")
COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("stable after last start, s", "stable_after_last_start_s", 1),
    ("depth", "depth", 0),
    ("optimum", "depth_optimum", 0),
    ("subordinates at most", "subordinates_max", 0),
    ("leader changes", "leader_changes_per_node", 2),
    ("silent addresses asked", "silent_probes_per_node", 1),
    ("after first contact", "silent_probes_after_contact_per_node", 1),
    ("ARP/s at most", "arp_per_s_max", 0),
)


def sparse() -> str:
    """One row for each layout, way to meet, fan-out and start order; `-`: not stable in time."""
    header = ["layout", "nodes", "met by", "p", "order", "one root", *(title for title, _, _ in COLUMNS)]
    return markdown(header, _rows())


def scan() -> str:
    """The requests of a node that scans the whole network instead, extrapolated from a part of it."""
    found = records.read("scan")
    header = ["addresses", "asked in the test", "ARP/s at most", "ARP requests for all", "time for all, s"]
    keys = ("targets", "sent", "arp_per_s_max", "whole_arp_requests", "whole_seconds")
    return markdown(header, [[f"{found[key]:,.0f}" for key in keys]])


def commands() -> str:
    """The commands that made the rows, in the order of the table."""
    return "\n".join(["```sh", *(_command(*file) for file in _files()), "```"]) + "\n"


def _files() -> Iterator[tuple[str, str, list[Run]]]:
    for layout in LAYOUTS:
        for meeting in MEETINGS:
            name = f"sparse-{layout}-{meeting}"
            if records.is_measured(name):
                yield name, meeting, records.read(name)


def _rows() -> Iterator[list[str]]:
    for _, meeting, runs in _files():
        for group in _grouped(runs):
            first = group[0]
            whole = f"{sum(run['stable'] and run['roots'] == 1 for run in group)} of {len(group)}"
            facts = [_where(first), str(first["nodes"]), meeting, str(first["fanout"]), first["start"], whole]
            yield [*facts, *(spread([run[key] for run in group], digits) for _, key, digits in COLUMNS)]


def _where(run: Run) -> str:
    return f"{run['layout']} in {run['network']}" if _is_wide(run) else str(run["layout"])


def _is_wide(run: Run) -> bool:
    """An IPv6 block, too large to scan."""
    return run["layout"] == "random" and ":" in run["network"]


def _grouped(runs: Iterable[Run]) -> list[list[Run]]:
    return list(records.in_order(runs, "nodes", "fanout", "start").values())


def _command(name: str, meeting: str, runs: list[Run]) -> str:
    first = runs[0]
    some = {key: ",".join(dict.fromkeys(str(run[key]) for run in runs)) for key in ("nodes", "fanout", "start")}
    how = {"nothing": "", "seed": " --seeds 1", "announcements": " --announce"}[meeting]
    repeat = max(run["repeat"] for run in runs) + 1
    network = f" --network {first['network']}" if _is_wide(first) else ""
    return (
        f"netns-lab/lab stabilise --layout {first['layout']}{network} --nodes {some['nodes']}"
        f" --fanout {some['fanout']} --start {some['start']}{how} --arp --no-disk --rest 0"
        f" --quiet {first['quiet_s']:g} --timeout 90"
        f" --repeat {repeat} --json docs/figures/{name}.json"
    )


def missed() -> str:
    """The missed aims, row by row; by the median, for ARP requests by the highest value."""
    found: dict[str, list[str]] = {}
    rows = 0
    for _, meeting, runs in _files():
        for group in _grouped(runs):
            rows += 1
            name = f"{_where(group[0])} by {meeting}, p = {group[0]['fanout']}, {group[0]['start']}"
            for wish, value, limit in _wishes(meeting, group):
                if value > limit:
                    found.setdefault(wish, []).append(f"{name} ({value:.3g})")
    lines = [f"- **{wish}**: missed in {len(names)} of {rows} rows: " for wish, names in found.items()]
    whole = [line + "; ".join(names) + "." for line, names in zip(lines, found.values(), strict=True)]
    return "\n".join(whole or [f"Nothing is missed in {rows} rows."]) + "\n"


def _wishes(meeting: str, group: list[Run]) -> Iterator[tuple[str, float, float]]:
    """Each aim in words, the value found, and the limit."""
    first = group[0]
    within_s = NOTHING_S if meeting == "nothing" else MET_S
    times = [math.inf if run[STABLE] is None else run[STABLE] for run in group]
    yield f"Stable within {within_s} s, met by {meeting}", statistics.median(times), within_s
    yield "One root", max(run["roots"] for run in group), 1
    deeper = 2 if first["fanout"] >= 8 else 3
    yield (
        "Depth at most 2 (p = 8) or 3 (p = 2) above the optimum",
        max(run["depth"] for run in group),
        first["depth_optimum"] + deeper,
    )
    yield "At most p + g subordinates", max(run["subordinates_max"] for run in group), 2 * first["fanout"]
    late = statistics.median(run["silent_probes_after_contact_per_node"] for run in group)
    yield f"At most {LATE} silent addresses a node after first contact", late, LATE
    yield f"At most {ARP} ARP requests of a node in any second", max(run["arp_per_s_max"] for run in group), ARP


def churn() -> str:
    """The depth of the tree after each minute in which nodes died and returned."""
    run = records.read("churn")
    about = (
        f"{run['nodes']} daemons, layout {run['layout']} in {run['network']}, fan-out {run['fanout']},"
        f" {len(run['seeds'])} seed; {run['percent_per_min']:g} % of them ended and started again in each minute.\n"
        f"The fullest tree has depth {run['depth_optimum']}.\n\n"
    )
    header = ["minute", *(str(sample["minute"]) for sample in run["samples"])]
    rows = [[name, *(str(sample[key]) for sample in run["samples"])] for name, key in CHURN_ROWS]
    return about + markdown(header, rows)


PARTS = {
    "sparse": sparse,
    "sparse-commands": commands,
    "sparse-scan": scan,
    "sparse-missed": missed,
    "sparse-churn": churn,
}
