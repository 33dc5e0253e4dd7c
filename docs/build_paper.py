"""The paper's two tests as tables and plots, from what `netns-lab/lab evaluate` wrote into docs/figures/.

Intuition: the old photograph beside the new one, taken from the same spot.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import build_plot
from build_evaluation import markdown, spread
from build_plot import Line, Panel, Point

FIGURES = Path(__file__).parent / "figures"
Run = dict[str, Any]


def _runs(name: str) -> list[Run]:
    found: list[Run] = json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _each(runs: Iterable[Run], key: str) -> Iterator[tuple[Any, list[Run]]]:
    """Groups by the value of that key, in the order in which the values came."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault(run[key], []).append(run)
    yield from groups.items()


def _median(runs: Iterable[Run], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def about(name: str) -> str:
    """The machine and the repeats."""
    runs = _runs(name)
    machine, repeats = runs[0]["machine"], max(run["repeat"] for run in runs) + 1
    load = max(run["machine"]["load"] for run in runs)
    return (
        f"{machine['cores']} cores, {machine['memory_gib']:.0f} GiB, Linux {machine['kernel']}, Python"
        f" {machine['python']}, load of the minute before at most {load:.1f}; {repeats} repeats, median"
        f" (lowest..highest).\n"
    )


def discovery() -> str:
    """Mapping against scan, from the first fork, from the last one, and each node from its own."""
    rows = []
    for nodes, some in _each(_runs("discovery"), "nodes"):
        modes = dict(_each(some, "mode"))
        for key, title in TIMES:
            mapping, scan = modes["mapping"], modes["scan"]
            ratio = _median(scan, key) / _median(mapping, key)
            cells = [spread([run[key] for run in group], 3) for group in (mapping, scan)]
            rows.append([str(nodes), title, *cells, f"{ratio:.1f}"])
    return markdown(["nodes", "time, s", "mapping", "full scan", "times longer"], rows)


TIMES = (
    ("built_s", "from the first fork"),
    ("built_after_last_start_s", "from the last fork"),
    ("own_s_median", "a node from its own fork"),
)


def warm() -> str:
    """A search with nothing to go by, and the same nodes again, with their disks."""
    rows = []
    for nodes, some in _each(_runs("discovery"), "nodes"):
        modes = dict(_each(some, "mode"))
        cold, again = modes["cold"], modes["warm"]
        cells = [spread([run["built_s"] for run in group], 2) for group in (cold, again)]
        rows.append(
            [str(nodes), cold[0]["network"], *cells, f"{_median(cold, 'built_s') / _median(again, 'built_s'):.1f}"]
        )
    return markdown(["nodes", "at random in", "cold, s", "from disk, s", "times faster"], rows)


def stability() -> str:
    """When the last change was seen, and how many there were."""
    rows = []
    for nodes, some in _each(_runs("stability"), "nodes"):
        for fanout, group in _each(some, "fanout"):
            one = f"{sum(run['roots'] == 1 for run in group)} of {len(group)}"
            keys = (("last_change_s", 2), ("last_change_after_last_start_s", 2), ("leader_changes_per_node", 3))
            cells = [spread([run[key] for run in group], digits) for key, digits in keys]
            rows.append([f"{nodes:,}", str(fanout), one, *cells])
    header = [
        "nodes",
        "p",
        "one root",
        "last change, s after the first fork",
        "after the last fork",
        "leader changes a node",
    ]
    return markdown(header, rows)


def _line(runs: Iterable[Run], name: str, number: int, key: str) -> Line:
    points: tuple[Point, ...] = tuple((nodes, _median(some, key)) for nodes, some in _each(runs, "nodes"))
    return Line(name, number, points)


def discovery_svg() -> str:
    """As the paper's figure on start-up time, and the ratio."""
    runs = _runs("discovery")
    modes = dict(_each(runs, "mode"))
    times = tuple(
        _line(modes[mode], name, number, "built_after_last_start_s")
        for number, (mode, name) in enumerate((("mapping", "mapping"), ("scan", "full scan")))
    )
    ratios = tuple(
        Line(title, number, tuple(_ratios(runs, key)))
        for number, (key, title) in enumerate((("built_after_last_start_s", "tree"), ("own_s_median", "one node")))
    )
    panels = (
        Panel("Seconds until the tree is built", "from the last start; medians", "nodes", times, x_linear=True),
        Panel("Full scan : mapping", "how many times longer; medians", "nodes", ratios, x_linear=True),
    )
    return build_plot.svg(panels, "Time to build the tree by mapping and by full scan against the number of nodes")


def _ratios(runs: Iterable[Run], key: str) -> Iterator[Point]:
    for nodes, some in _each(runs, "nodes"):
        modes = dict(_each(some, "mode"))
        yield nodes, _median(modes["scan"], key) / _median(modes["mapping"], key)


def stability_svg() -> str:
    """As the paper's figure on stability."""
    lines = tuple(
        _line(group, f"p = {fanout}", number, "last_change_s")
        for number, (fanout, group) in enumerate(_each(_runs("stability"), "fanout"))
    )
    panel = Panel("Seconds until the last change", "from the first start; medians", "nodes", lines, x_linear=True)
    return build_plot.svg([panel], "Time of the last change of the tree against the number of nodes")


PARTS: dict[str, Callable[[], str]] = {
    "paper-discovery-about": lambda: about("discovery"),
    "paper-discovery": discovery,
    "paper-warm": warm,
    "paper-stability-about": lambda: about("stability"),
    "paper-stability": stability,
}
PICTURES: dict[str, Callable[[], str]] = {
    "docs/paper-discovery.svg": discovery_svg,
    "docs/paper-stability.svg": stability_svg,
}
