"""The part of docs/evaluation/rest.md on larger clusters of real daemons: the cost of a node and of the root.

As build_growth.py, but with frames and CPU time of real processes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

import build_plot
import records
from build_evaluation import markdown
from build_growth import verdict
from records import Run, groups, kept, spread, values

COLUMNS = (
    ("frames until stable", "frames_per_node", 1),
    ("bytes until stable", "bytes_per_node", 0),
    ("frames/s at rest", "rest_packets_per_s", 3),
    ("bytes/s at rest", "rest_bytes_per_s", 0),
    ("CPU at rest, %", "rest_cpu_percent", 3),
    ("memory, MiB PSS", "pss_mib_per_node", 1),
    ("root: frames/s, both ways", "rest_root_packets_per_s", 1),
    ("root: CPU, %", "rest_root_cpu_percent", 2),
)
FITTED = COLUMNS[:1] + COLUMNS[2:3] + COLUMNS[4:5] + COLUMNS[6:]


def _runs() -> list[Run]:
    found: list[Run] = records.read("growth-daemons")
    return found


def is_sound(run: Run) -> bool:
    """One stable tree of all nodes."""
    return bool(run["stable"]) and (run["roots"], run["live"]) == (1, run["nodes"])


def cost() -> str:
    """One row for each size and fan-out."""
    rows = []
    for (nodes, fanout), some in groups(_runs(), "nodes", "fanout").items():
        sound, of = kept(some, is_sound)
        depth = f"{spread(values(sound, 'depth'), 0)} ({some[0]['depth_optimum']})"
        rows.append(
            [
                f"{nodes:,}",
                str(fanout),
                of,
                depth,
                *(spread(values(sound, key), digits) for _, key, digits in COLUMNS),
            ]
        )
    return markdown(["nodes", "p", "stable", "depth (least possible)", *(title for title, _, _ in COLUMNS)], rows)


def fit() -> str:
    """The increase of each cost with ten times as many nodes."""
    rows = [
        [str(fanout), *(verdict(_medians(some, key)) for _, key, _ in FITTED)]
        for (fanout,), some in groups(_runs(), "fanout").items()
    ]
    return markdown(["p", *(title for title, _, _ in FITTED)], rows)


def _medians(runs: Iterable[Run], key: str) -> tuple[build_plot.Point, ...]:
    by_size = groups(filter(is_sound, runs), "nodes").items()
    return tuple((nodes, statistics.median(found)) for (nodes,), some in by_size if (found := values(some, key)))


def growth_svg() -> str:
    """Traffic of a node until the tree is stable, and afterwards."""
    by_fanout = groups(_runs(), "fanout").items()
    panels = tuple(
        build_plot.Panel(
            title,
            note,
            "nodes",
            tuple(
                build_plot.Line(f"p = {p}", number, _medians(some, key))
                for number, ((p,), some) in enumerate(by_fanout)
            ),
        )
        for title, note, key in (
            ("Frames a node until the tree is stable", "real daemons; ARP and TCP included", "frames_per_node"),
            ("Frames a node and second at rest", "real daemons; medians", "rest_packets_per_s"),
        )
    )
    return build_plot.svg(panels, "Frames per node against the number of nodes, real daemons")


PARTS: dict[str, Callable[[], str]] = {
    "growth-daemons-about": lambda: records.about(_runs(), "nodes", "fanout"),
    "growth-daemons-cost": cost,
    "growth-daemons-fit": fit,
}
PICTURES: dict[str, Callable[[], str]] = {"docs/growth-daemons.svg": growth_svg}
