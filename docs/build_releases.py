"""The parts of docs/evaluation/releases.md: two checkouts, measured by turns (docs/measure_releases.py)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import records
from build_evaluation import markdown
from records import Run, groups, ratios, spread, values

BEFORE, NOW = "before", "now"
FIGURES = (
    ("stable after the first start, s", "stable_s", 2),
    ("stable after the last start, s", "stable_after_last_start_s", 2),
    ("datagrams until stable", "datagrams_per_node", 1),
    ("CPU until stable, s", "cpu_s_per_node", 4),
    ("leader changes", "leader_changes_per_node", 3),
    ("orphans attached again, p50 s", "attached_p50_s", 2),
    ("orphans attached again, p99 s", "attached_p99_s", 2),
    ("roster right, max s", "roster_s_max", 2),
    ("moves", "moves_mean", 1),
    ("others moved", "others", 0),
    ("packets/s at rest", "rest_packets_per_s", 2),
    ("bytes/s at rest", "rest_bytes_per_s", 0),
    ("CPU at rest, % of a core", "rest_cpu_percent", 3),
    ("memory, MiB PSS", "pss_mib_per_node", 1),
)


def about() -> str:
    document = records.read("releases")
    commits, runs = document["commits"], document["runs"]
    turns = len({run["repeat"] for run in runs})
    return (
        f"Machine: {records.box(document['machine'])}.\n"
        f"*Before* is {commits[BEFORE]}, *now* {commits[NOW]}; {turns} turns, median (lowest..highest).\n"
    )


def is_worse(before: list[float], now: list[float]) -> bool:
    """Whether the figures of now lie beyond the spread of before. All figures here are costs."""
    return bool(before and now) and statistics.median(now) > max(before) and min(now) > statistics.median(before)


def compared() -> Iterator[tuple[str, str, int, list[Run], list[Run], str]]:
    """(what, figure, digits, runs before, runs now, key) of each figure that was measured."""
    for (name,), some in groups(records.read("releases")["runs"], "name").items():
        sides = [[run for run in some if run["release"] == side] for side in (BEFORE, NOW)]
        for title, key, digits in FIGURES:
            if any(values(side, key) for side in sides):
                yield name, title, digits, *sides, key


def table() -> str:
    rows = []
    for name, title, digits, before, now, key in compared():
        old, new = values(before, key), values(now, key)
        verdict = "**worse**" if is_worse(old, new) else "no"
        times = spread(ratios(now, before, key), 2)
        rows.append([name, title, spread(old, digits), spread(new, digits), times, verdict])
    return markdown(["what", "figure", "before", "now", "now : before", "worse beyond the spread"], rows)


def worse() -> str:
    """What is worse, in one sentence."""
    found = [
        f"{title} ({name})"
        for name, title, _, before, now, key in compared()
        if is_worse(values(before, key), values(now, key))
    ]
    count = len(list(compared()))
    return f"{len(found)} of {count} figures are worse beyond the spread{': ' if found else ''}{'; '.join(found)}.\n"


PARTS: dict[str, Callable[[], str]] = {"releases-about": about, "releases-table": table, "releases-worse": worse}
