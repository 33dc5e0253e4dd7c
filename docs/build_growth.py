"""The part of docs/evaluation/simulator.md on growth: its tables and both plots, from docs/figures/growth.json.

A cost is called level if its line of least squares over the logarithm of the size rises by less than a twentieth of
the mean per decade.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any

import build_plot
import records
from build_tables import table
from records import Run, groups, spread, values

from subord.sim.growth import depth_min

FITTED_FROM_NODES = 100  # in smaller clusters few nodes get the probes of the root for its vacant places
LEVEL_SHARE_MAX = 0.05
BEATS = ("Beat", "Echo")


def _document() -> dict[str, Any]:
    found: dict[str, Any] = records.read("growth")
    for run in found["runs"]:
        beats = sum(run["sent"].get(kind, 0) for kind in BEATS)
        run["joining_per_node"] = (sum(run["sent"].values()) - beats) / run["nodes"]
        run["depth_min"] = depth_min(run["nodes"], run["fanout"])
    return found


# -- tables -----------------------------------------------------------------------------------------------


def machine() -> str:
    """The measurements and their machine."""
    about = _document()
    loads = [run["load"] for run in about["runs"]]
    return (
        f"Machine: {records.box(about['machine'])};"
        f" one process a row, with a load of {min(loads):.1f} to {max(loads):.1f} when it began.\n"
        f"subord {about['version']} at {about['commit']}, timing `{about['timing']}`, network {about['network']},"
        f" dense addresses from position 1, started in {about['order']} order within"
        f" {1000 * about['started_within_s']:g} ms, guest slots as many as the fan-out.\n"
    )


def start() -> str:
    """From the first start until the root lists all nodes."""
    head = (
        "nodes",
        "p",
        "seeds",
        "one tree, s",
        "root lists all, s",
        "exchanges",
        "datagrams to find a place",
        "datagrams until listed",
        "bytes until listed",
        "depth (least possible)",
        "most subordinates",
    )
    keys = (("tree_s", 2), ("whole_s", 2), ("exchanges_per_node", 3), ("joining_per_node", 2))
    more = (("datagrams_per_node", 1), ("bytes_per_node", 0))
    return table(
        head,
        (
            [
                f"{nodes:,}",
                str(fanout),
                str(len(runs)),
                *(spread(values(runs, key), digits) for key, digits in (*keys, *more)),
                f"{spread(values(runs, 'depth'), 0)} ({runs[0]['depth_min']})",
                spread(values(runs, "subordinates_max"), 0),
            ]
            for (nodes, fanout), runs in groups(_document()["runs"], "nodes", "fanout").items()
        ),
    )


def rest() -> str:
    """The last 20 s, the root, and the cost of the simulation itself."""
    columns = (
        ("datagrams/s", "rest_datagrams_per_node_s", 3),
        ("bytes/s", "rest_bytes_per_node_s", 1),
        ("root: datagrams/s", "rest_root_datagrams_per_s", 1),
        ("root: in its busiest second", "root_datagrams_per_s_max", 0),
        ("root: longest step, ms", "root_step_ms_max", 1),
        ("virtual s", "lasted_s", 0),
        ("CPU, s", "cpu_s", 1),
        ("CPU, s per virtual s", "cpu_s_per_s", 3),
        ("memory, MiB", "memory_mib", 0),
    )
    return table(
        ["nodes", "p", *(title for title, _, _ in columns)],
        (
            [f"{nodes:,}", str(fanout), *(spread(values(runs, key), digits) for _, key, digits in columns)]
            for (nodes, fanout), runs in groups(_document()["runs"], "nodes", "fanout").items()
        ),
    )


def fit() -> str:
    """The increase of each cost with ten times as many nodes."""
    columns = (
        ("datagrams to find a place", "joining_per_node"),
        ("datagrams until listed", "datagrams_per_node"),
        ("datagrams/s at rest", "rest_datagrams_per_node_s"),
    )
    runs = _document()["runs"]
    return table(
        ["p", *(title for title, _ in columns)],
        ([str(fanout), *(verdict(_points(runs, fanout, key)) for _, key in columns)] for fanout in _fanouts(runs)),
    )


def verdict(points: tuple[build_plot.Point, ...]) -> str:
    """Whether a cost grows with the number of nodes, in words, with the slope and its share of the mean."""
    fitted = [point for point in points if point[0] >= FITTED_FROM_NODES]
    slope = slope_per_decade(fitted)
    mean = statistics.fmean(y for _, y in fitted)
    word = "constant" if abs(slope) <= LEVEL_SHARE_MAX * mean else "grows" if slope > 0 else "falls"
    return f"{word}: {slope:+.3f} ({100 * slope / mean:+.1f} %)"


def slope_per_decade(points: Iterable[build_plot.Point]) -> float:
    """The slope of the line of least squares over the logarithm to base 10 of x."""
    xs, ys = zip(*((math.log10(x), y) for x, y in points), strict=True)
    return statistics.linear_regression(xs, ys).slope


# -- plots ------------------------------------------------------------------------------------------------


def _fanouts(runs: Iterable[Run]) -> list[int]:
    return sorted({run["fanout"] for run in runs})


def _points(runs: Iterable[Run], fanout: int, key: str) -> tuple[build_plot.Point, ...]:
    """Medians by number of nodes."""
    return tuple(
        (nodes, statistics.median(run[key] for run in group))
        for (nodes, p), group in groups(runs, "nodes", "fanout").items()
        if p == fanout
    )


def _lines(runs: list[Run], key: str, look: build_plot.Look = "joined") -> Iterable[build_plot.Line]:
    for number, fanout in enumerate(_fanouts(runs)):
        yield build_plot.Line(f"p = {fanout}", number, _points(runs, fanout, key), look)


def messages_svg() -> str:
    """Datagrams per node against the number of nodes: until the root lists all nodes, and in the stable tree."""
    runs = _document()["runs"]
    resting = tuple(_lines(runs, "rest_datagrams_per_node_s"))
    until = (*_lines(runs, "joining_per_node", "thin"), *_lines(runs, "datagrams_per_node"))
    panels = (
        build_plot.Panel(
            "Datagrams a node until the root lists all", "thin: of these, to find a place", "nodes", until
        ),
        build_plot.Panel("Datagrams a node and second at rest", "the last 20 s", "nodes", resting),
    )
    return build_plot.svg(panels, "Datagrams per node against the number of nodes, until whole and at rest")


def depth_svg() -> str:
    """Depth against the number of nodes, with the lowest possible depth."""
    runs = _document()["runs"]
    sizes = [run["nodes"] for run in runs]
    lines = (*(_least(number, p, sizes) for number, p in enumerate(_fanouts(runs))), *_lines(runs, "depth", "marks"))
    panel = build_plot.Panel("Depth of the tree", "thin: the least possible with fan-out p", "nodes", lines)
    return build_plot.svg([panel], "Depth of the tree against the number of nodes, and the least possible depth")


def _least(number: int, fanout: int, sizes: list[int]) -> build_plot.Line:
    """The lowest possible depth: a level is added when all above are full."""
    lowest, highest = min(sizes), max(sizes)
    points: list[build_plot.Point] = [(lowest, depth_min(lowest, fanout))]
    full = sum(fanout**each for each in range(depth_min(lowest, fanout) + 1))
    while full < highest:
        points += [(full, points[-1][1]), (full + 1, points[-1][1] + 1)]
        full = fanout * full + 1
    points.append((highest, points[-1][1]))
    return build_plot.Line(f"least, p = {fanout}", number, tuple(points), "thin")


PARTS: dict[str, Callable[[], str]] = {
    "growth-machine": machine,
    "growth-start": start,
    "growth-fit": fit,
    "growth-rest": rest,
}
PICTURES: dict[str, Callable[[], str]] = {
    "docs/growth-messages.svg": messages_svg,
    "docs/growth-depth.svg": depth_svg,
}
