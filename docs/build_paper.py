"""The paper's two tests as tables and plots, from docs/figures/, written by `netns-lab/lab evaluate`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

import build_plot
import records
from build_evaluation import markdown
from build_plot import Line, Panel, Point
from records import Run, groups, kept, one, ratios, spread, values

TIMES = (
    ("built_s", "from the first fork"),
    ("built_after_last_start_s", "from the last fork"),
    ("own_s_median", "a node from its own fork"),
)
TIME = "built_after_last_start_s"  # for the claims: all nodes run, and only the search remains
CLAIMED_NODES = 40
CLAIMED_TIMES = 2.0  # the least that the paper may mean by "up to 200 %"
STABLE_NODES_MAX, STABLE_S_MAX = 500, 15.0  # "well before 30 s": half of it


def is_built(run: Run) -> bool:
    """One stable tree of all nodes."""
    return run["fault"] is None and run["stable"] and (run["roots"], run["placed"]) == (1, run["nodes"])


def is_whole(run: Run) -> bool:
    """The same, recorded over time."""
    return run["fault"] is None and (run["roots"], run["placed"]) == (1, run["nodes"])


# -- mapping against full scan --------------------------------------------------------------------------------


def discovery() -> str:
    """Mapping against scan, from the first fork, from the last one, and each node from its own."""
    rows = []
    for (nodes,), some in groups(records.read("discovery"), "nodes").items():
        mapping, scan = (one(some, mode=mode) for mode in ("mapping", "scan"))
        (mapped, mapped_of), (scanned, scanned_of) = kept(mapping, is_built), kept(scan, is_built)
        for key, title in TIMES:
            rows.append(
                [
                    str(nodes),
                    title,
                    mapped_of,
                    spread(values(mapped, key), 3),
                    scanned_of,
                    spread(values(scanned, key), 3),
                    spread(ratios(scanned, mapped, key), 1),
                ]
            )
    return markdown(["nodes", "time, s", "built", "mapping", "built", "full scan", "times longer"], rows)


def warm() -> str:
    """A search without saved state, and of the same nodes again, with their disks."""
    rows = []
    for (nodes,), some in groups(records.read("warm"), "nodes").items():
        (cold, cold_of), (again, again_of) = (kept(one(some, mode=mode), is_built) for mode in ("cold", "warm"))
        cells = [spread(values(found, TIME), 2) for found in (cold, again)]
        faster = spread(ratios(cold, again, TIME), 1)
        rows.append([str(nodes), some[0]["network"], cold_of, cells[0], again_of, cells[1], faster])
    return markdown(["nodes", "at random in", "built", "cold, s", "built", "from disk, s", "times faster"], rows)


def claim_scan() -> str:
    """One line: the paper's claim about 40 nodes, and whether the ratio grows with their number."""
    medians = {nodes: statistics.median(found) for nodes, found in _ratios_by_size(TIME).items() if found}
    sizes = (min(medians), CLAIMED_NODES, max(medians))
    result = ", ".join(f"{medians[nodes]:.1f} times faster at {nodes} nodes" for nodes in sizes)
    holds = medians[CLAIMED_NODES] >= CLAIMED_TIMES and medians[sizes[0]] < medians[sizes[1]] < medians[sizes[2]]
    return f"{'yes' if holds else 'no'}: {result}"


def claim_disk() -> str:
    """One line."""
    runs = records.read("warm")
    nodes = min(run["nodes"] for run in runs)
    cold, again = (kept(one(runs, nodes=nodes, mode=mode), is_built)[0] for mode in ("cold", "warm"))
    faster = statistics.median(ratios(cold, again, TIME))
    result = f"{nodes} nodes at random addresses form the tree {faster:.0f} times faster"
    return f"{'yes' if faster > 1 else 'no'}: {result}"


def _ratios_by_size(key: str) -> dict[int, list[float]]:
    return {
        nodes: ratios(*(kept(one(some, mode=mode), is_built)[0] for mode in ("scan", "mapping")), key)
        for (nodes,), some in groups(records.read("discovery"), "nodes").items()
    }


def discovery_svg() -> str:
    """As the paper's figure on start-up time, and the ratio."""
    built = [run for run in records.read("discovery") if is_built(run)]
    times = tuple(
        Line(name, number, _medians((run for run in built if run["mode"] == mode), TIME))
        for number, (mode, name) in enumerate((("mapping", "mapping"), ("scan", "full scan")))
    )
    lines = tuple(
        Line(
            title, number, tuple((n, statistics.median(found)) for n, found in _ratios_by_size(key).items() if found)
        )
        for number, (key, title) in enumerate(((TIME, "tree"), ("own_s_median", "one node")))
    )
    panels = (
        Panel("Seconds until the tree is built", "from the last start; medians", "nodes", times, x_linear=True),
        Panel("Full scan : mapping", "how many times longer; medians", "nodes", lines, x_linear=True),
    )
    return build_plot.svg(panels, "Time to build the tree by mapping and by full scan against the number of nodes")


def _medians(runs: Iterable[Run], key: str) -> tuple[Point, ...]:
    return tuple((nodes, statistics.median(values(some, key))) for (nodes,), some in groups(runs, "nodes").items())


# -- stability ------------------------------------------------------------------------------------------------


def stability() -> str:
    """The time of the last change, and the number of changes."""
    rows = []
    for (nodes, fanout), group in groups(records.read("stability"), "nodes", "fanout").items():
        whole, of = kept(group, is_whole)
        keys = (("last_change_s", 2), ("last_change_after_last_start_s", 2), ("leader_changes_per_node", 3))
        depth = f"{spread(values(whole, 'depth'), 0)} ({group[0].get('depth_optimum', '-')})"
        cells = [spread(values(whole, key), digits) for key, digits in keys]
        rows.append([f"{nodes:,}", str(fanout), of, *cells, depth])
    header = [
        *("nodes", "p", "one root", "last change, s after the first fork", "after the last fork"),
        *("leader changes a node", "depth (least possible)"),
    ]
    return markdown(header, rows)


def claim_stability() -> str:
    """One line."""
    runs = [run for run in records.read("stability") if run["nodes"] <= STABLE_NODES_MAX]
    whole, of = kept(runs, is_whole)
    last = max(values(whole, "last_change_s"), default=float("inf"))
    verdict = "yes" if len(whole) == len(runs) and last <= STABLE_S_MAX else "no"
    return f"{verdict}: one root in {of} runs, the last change after {last:.1f} s at most"


def stability_svg() -> str:
    """As the paper's figure on stability."""
    whole = [run for run in records.read("stability") if is_whole(run)]
    lines = tuple(
        Line(f"p = {fanout}", number, _medians(some, "last_change_s"))
        for number, ((fanout,), some) in enumerate(groups(whole, "fanout").items())
    )
    panel = Panel("Seconds until the last change", "from the first start; medians", "nodes", lines, x_linear=True)
    return build_plot.svg([panel], "Time of the last change of the tree against the number of nodes")


PARTS: dict[str, Callable[[], str]] = {
    "paper-claim-disk": claim_disk,
    "paper-claim-scan": claim_scan,
    "paper-claim-stability": claim_stability,
    "paper-discovery": discovery,
    "paper-discovery-about": lambda: records.about(records.read("discovery"), "nodes", "mode"),
    "paper-stability": stability,
    "paper-stability-about": lambda: records.about(records.read("stability"), "nodes", "fanout"),
    "paper-warm": warm,
    "paper-warm-about": lambda: records.about(records.read("warm"), "nodes", "mode"),
}
PICTURES: dict[str, Callable[[], str]] = {
    "docs/paper-discovery.svg": discovery_svg,
    "docs/paper-stability.svg": stability_svg,
}
