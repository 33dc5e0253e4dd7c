"""The figures of docs/evaluation/mappings.md: distance, order by performance, single changes, and jitter.

Runs that did not meet their aims are included.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import records
from build_evaluation import markdown
from records import Run, groups, kept, spread, values

MOMENTS_S = (1, 2, 5, 10, 20, 30, 60, 120)
DISTANCE = (
    ("edges between sites", "wide_edges", 0),
    ("least number reached, s after the last start", "wide_least_s", 1),
    ("last move, s after the last start", "last_move_s", 1),
    ("CPU time of a node until 36 s after the last move, ms", "settled_cpu_ms", 0),
    ("frames of a node until then", "settled_frames_per_node", 0),
    ("depth", "depth", 0),
    ("frames/s between sites, first minute without a move", "early_wide_frames_per_s", 1),
    ("frames/s between sites, at rest", "wide_frames_per_s", 1),
    ("bytes/s between sites, at rest", "wide_bytes_per_s", 0),
    ("frames/s in all, at rest", "all_frames_per_s", 1),
    ("bytes/s in all, at rest", "all_bytes_per_s", 0),
    ("CPU of a node at rest, % of a core", "rest_cpu_percent", 3),
    ("a site is cut off: both parts are whole, s", "cut_whole_s", 1),
    ("edges between the remaining sites", "cut_wide_edges", 0),
    ("restored: one root lists all, s", "mend_one_root_s", 1),
    ("restored: least number of edges, s", "mend_wide_least_s", 1),
    ("restored: edges between sites", "mend_wide_edges", 0),
)
ORDER = (
    ("last move, s", "last_move_s", 1),
    ("depth", "depth", 0),
    ("Spearman", "spearman", 3),
    ("best possible", "spearman_best", 3),
    ("by class", "spearman_class", 3),
    ("best possible by class", "spearman_class_best", 3),
    ("nodes above one two classes faster", "above_faster", 0),
    ("standing differs from class", "standing_differs", 0),
)
WAYS = {"slow": "8 times slower", "fast": "8 times faster"}


def _runs(*parts: str) -> list[Run]:
    found = [run for run in records.read("mappings") if run["part"] in parts]
    return [_in_ms(run) if "settled_cpu_s_per_node" in run else run for run in found]


def _in_ms(run: Run) -> Run:
    return {**run, "settled_cpu_ms": 1000 * run["settled_cpu_s_per_node"]}


def is_sound(run: Run) -> bool:
    """Measured to the end, whatever the result."""
    return run["fault"] is None


def is_calm(run: Run) -> bool:
    """No node moved while all round trips had jitter, nor shortly before."""
    return is_sound(run) and run["calm_before"] and run["places"] == 0


def distance() -> str:
    """One column per mapping."""
    by_mapping = {mapping: kept(some, is_sound) for (mapping,), some in groups(_runs("distance"), "mapping").items()}
    rows = [["runs", *(of for _, of in by_mapping.values())]]
    rows += [
        [title, *(spread(values(sound, key), digits) for sound, _ in by_mapping.values())]
        for title, key, digits in DISTANCE
    ]
    return markdown(["", *(f"`{mapping}`" for mapping in by_mapping)], rows)


def over_time() -> str:
    """Edges between sites by seconds after the last start; medians. Afterwards nothing changes."""
    rows = []
    for (mapping,), some in groups(_runs("distance"), "mapping").items():
        courses = [run["wide_edges_by_second"] + [run["wide_edges"]] for run in some if is_sound(run)]
        found = [statistics.median(course[min(at, len(course) - 1)] for course in courses) for at in MOMENTS_S]
        rows.append([f"`{mapping}`", *(f"{value:.0f}" for value in found)])
    return markdown(["", *(f"{at} s" for at in MOMENTS_S)], rows)


def order() -> str:
    """One row per fan-out."""
    rows = []
    for (fanout,), some in groups(_runs("performance"), "fanout").items():
        sound, of = kept(some, is_sound)
        rows.append([str(fanout), of, *(spread(values(sound, key), digits) for _, key, digits in ORDER)])
    return markdown(["fan-out", "runs", *(title for title, _, _ in ORDER)], rows)


def changes() -> str:
    """One row per change: each is another case."""
    rows = []
    for (fanout, way), some in groups(_changes(), "fanout", "way").items():
        for change in some:
            seconds = "-" if change["reached_s"] is None else f"{change['reached_s']:.1f}"
            role = f"leader of {change['was_leader_of']}" if change["was_leader_of"] else "no subordinates"
            levels = f"{change['level_before']} → {change['level_after']}"
            rows.append(
                [
                    *(str(fanout), WAYS[way], role, levels, str(change["level_best"]), seconds),
                    *(str(change[key]) for key in ("own_moves", "led_moved", "others_moved")),
                ]
            )
    header = ["fan-out", "becomes", "before", "level", "level in perfect order", "reached after, s"]
    return markdown([*header, "its moves", "subordinates moved", "others moved"], rows)


def _changes() -> list[Run]:
    sound = [run for run in _runs("performance") if is_sound(run)]
    return [{**run[way], "way": way, "fanout": run["fanout"]} for run in sound for way in sorted(WAYS, reverse=True)]


def trembling() -> str:
    """One row per mapping."""
    rows = []
    runs = _runs("trembling-performance", "trembling-latency")
    for (mapping, fanout), some in groups(runs, "mapping", "fanout").items():
        sound, (_, of) = [run for run in some if is_sound(run)], kept(some, is_calm)
        cells = (spread(values(sound, key), 0) for key in ("trembled_s", "places"))
        rows.append([f"`{mapping}`", str(fanout), of, *cells])
    return markdown(["mapping", "fan-out", "runs without a move", "duration, s", "changes of place"], rows)


PARTS: dict[str, Callable[[], str]] = {
    "mappings-about": lambda: records.about(records.read("mappings"), "part", "mapping", "fanout"),
    "mappings-distance": distance,
    "mappings-over-time": over_time,
    "mappings-order": order,
    "mappings-changes": changes,
    "mappings-trembling": trembling,
}
