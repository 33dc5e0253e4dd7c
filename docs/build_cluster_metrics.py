"""The metrics of the cluster beside none, and beside Ganglia (docs/evaluation/metrics.md), from the figures of
`netns-lab/lab evaluate metrics` in docs/figures/metrics.json, and what they cost the root of larger trees, from
reports.json there.

While a file is missing, its parts say so. Runs that failed, and peers that were not measured, are listed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import build_orders
import records
from build_evaluation import markdown
from build_running import figures, is_held
from records import NOTHING, Run, groups, if_measured, ratios, spread

SUBORD, WITHOUT, MULTICAST, UNICAST = ORDER = ("subord", "subord-without", "ganglia", "ganglia-unicast")
NAME, ROOT = "metrics", "reports"
Column = tuple[str, str, int]

COST: tuple[Column, ...] = (
    ("root, bytes/s", "heart_bytes_per_s", 0),
    ("packets/s", "heart_packets_per_s", 1),
    ("a node sends, bytes/s", "node_bytes_per_s", 0),
    ("packets/s", "node_packets_per_s", 2),
    ("is sent, bytes/s", "brought_bytes_per_s", 0),
    ("CPU of all, % of a core", "all_cpu_percent", 1),
)
AGE: tuple[Column, ...] = (
    ("all nodes in the figures, s", "first_whole_s", 1),
    ("oldest figure, s", "age_s", 1),
    ("new values seen, s", "changed_s", 1),
    ("quantile wrong by at most, %", "quantile_error_percent", 2),
)
DEATH: tuple[Column, ...] = (
    ("right again after, s", "death_whole_s", 1),
    ("told too many for, s", "death_over_s", 1),
    ("dead node in the sums for, s", "death_counted_over_s", 1),
    ("right after its return, s", "death_back_s", 1),
)
TIMES: tuple[Column, ...] = (
    ("bytes/s of the root", "heart_bytes_per_s", 2),
    ("bytes/s of a node", "node_bytes_per_s", 2),
    ("packets/s of a node", "node_packets_per_s", 2),
    ("CPU of all", "all_cpu_percent", 2),
)


def runs() -> list[Run]:
    found: list[Run] = records.read(NAME)
    return found


@if_measured(NAME)
def about() -> str:
    """The machine, the program, and the shape of the labs."""
    found = runs()
    shape = (
        f"{found[0]['layout'].capitalize()} addresses, timing `{found[0]['timing']}`, fan-out {found[0]['fanout']}.\n"
    )
    return records.about(found, "nodes", "system") + shape


@if_measured(NAME)
def settings() -> str:
    """The program and the options of each system."""
    return records.settings(runs(), ORDER)


@if_measured(NAME)
def missed() -> str:
    """The runs that did not hold, and the peers without a run."""

    def title(run: Run) -> str:
        return f"{run['nodes']} nodes, {run['system']}, run {run['repeat'] + 1}"

    return records.missed(runs(), title, records.unmeasured(runs()))


@if_measured(NAME)
def table(columns: Sequence[Column]) -> str:
    """One row for each size and system that has some of the figures: medians, lowest and highest of all runs."""
    placed = [{**run, "place": ORDER.index(run["system"])} for run in runs()]
    rows = []
    for (nodes, place), some in groups(placed, "nodes", "place").items():
        cells = [spread(figures(some, key), digits) for _, key, digits in columns]
        if any(cell != "-" for cell in cells):
            rows.append([f"{nodes}", ORDER[place], f"{sum(map(is_held, some))} of {len(some)}", *cells])
    return markdown(["nodes", "system", "runs that held", *(title for title, _, _ in columns)], rows)


@if_measured(NAME)
def times() -> str:
    """Each run with metrics by the one without that took turns with it."""
    rows = []
    for (nodes,), some in groups(runs(), "nodes").items():
        both = [[run for run in some if run["system"] == system] for system in (SUBORD, WITHOUT)]
        rows.append([f"{nodes}", *(spread(ratios(*both, key), digits) for _, key, digits in TIMES)])
    return markdown(["nodes", *(title for title, _, _ in TIMES)], [row for row in rows if {*row[1:]} != {"-"}])


@if_measured(NAME)
def collector() -> str:
    """What gmetad says after the death of the collector."""
    rows = [
        [f"{run['nodes']}", *(_said(run, key) for key in ("up", "down", "counted")), f"{run['collector_s']:g}"]
        for run in runs()
        if "collector_s" in run
    ]
    return markdown(["nodes", "hosts up", "down", "in the sums", "after, s"], rows) if rows else NOTHING


def _said(run: Run, key: str) -> str:
    found = run[f"collector_{key}"]
    return "no answer" if found is None else f"{found}"


@if_measured(ROOT)
def root_about() -> str:
    """The machine and the program."""
    return build_orders.about(ROOT)


@if_measured(ROOT)
def root() -> str:
    """What the root gets in an interval, in the simulator."""
    rows = [
        [
            f"{run['nodes']:,}",
            f"{run['fanout']}",
            f"{run['reports']:g}",
            f"{run['bytes_per_s']:,}",
            f"{run['take_in_ms']:.1f}",
            f"{run['fold_ms']:.1f}",
            f"{run['oldest_intervals']:.1f}",
        ]
        for run in records.read(ROOT)["runs"]
    ]
    head = ["nodes", "p", "reports", "bytes/s", "CPU to take them in, ms", "to fold them, ms", "oldest, intervals"]
    return markdown(head, rows)


PARTS: dict[str, Callable[[], str]] = {
    "cluster-metrics-root-about": root_about,
    "cluster-metrics-root": root,
    "cluster-metrics-about": about,
    "cluster-metrics-settings": settings,
    "cluster-metrics-missed": missed,
    "cluster-metrics-cost": partial(table, COST),
    "cluster-metrics-times": times,
    "cluster-metrics-age": partial(table, AGE),
    "cluster-metrics-death": partial(table, DEATH),
    "cluster-metrics-collector": collector,
}
