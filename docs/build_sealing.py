"""The parts of docs/evaluation/ on sealing: its cost, and the effects of an intruder without the key."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

import records
from build_evaluation import markdown
from records import Run, groups, kept, ratios, spread, values

SEALED, CLEAR = "sealed", "in the clear"
COSTS = (
    ("stable after last start, s", "stable_after_last_start_s", 2),
    ("CPU until stable, ms", "cpu_ms", 0),
    ("packets/s", "rest_packets_per_s", 2),
    ("bytes/s", "rest_bytes_per_s", 0),
    ("CPU at rest, % of a core", "rest_cpu_percent", 3),
    ("memory, MiB PSS", "pss_mib_per_node", 1),
)
PHASES = (
    ("orphans of the killed leader have another one, median s", "orphans_p50_s", 2),
    ("the last of them, s", "orphans_max_s", 2),
    ("the killed one, started again, is home, s", "home_s", 2),
    ("its orphans are back, s", "back_s", 2),
)
STATES = (
    ("CPU of a node, % of a core", "cpu_percent_{}", ("peace", "siege"), 2),
    ("CPU of the busiest node, %", "cpu_percent_{}_max", ("peace", "siege"), 1),
    ("resident memory of the largest, MiB", "resident_mib_max_{}", ("before", "after"), 1),
)


class Fault(NamedTuple):
    """What must not happen in a siege: its name, and how often it happened in one run."""

    what: str
    count: Callable[[Run], int]


FAULTS = (
    Fault("findings in the clear on the tape", lambda run: run["plain"]),
    Fault("roots besides the true one", lambda run: run["roots"] - 1),
    Fault("changes of leader before the first kill", lambda run: run["moved_before_kill"]),
    Fault("of nodes that had not lost theirs, afterwards", lambda run: run["others_moved"]),
    Fault("nodes that followed the intruder", lambda run: run["led_by_intruder"]),
    Fault("nodes in the intruder's tree besides itself", lambda run: run["pretender_tree_nodes"] - 1),
    Fault("connections that were answered", lambda run: run["knocks_answered"]),
    Fault("daemons that ended", lambda run: run["ended"]),
    Fault("orphans without a leader at the end", lambda run: run["peace_orphans_never"] + run["siege_orphans_never"]),
)


def _costs() -> list[Run]:
    found: list[Run] = records.read("sealing")
    return [{**run, "cpu_ms": 1000 * run["cpu_s_per_node"]} if "cpu_s_per_node" in run else run for run in found]


def sieges() -> list[Run]:
    """All runs."""
    found: list[Run] = records.read("siege")
    return found


def is_stable(run: Run) -> bool:
    """One tree of all nodes, measured to the end."""
    return run["fault"] is None and bool(run["stable"]) and run["roots"] == 1


def is_sound(run: Run) -> bool:
    """Measured to the end, whatever the result."""
    return run["fault"] is None


def is_held(run: Run) -> bool:
    """Nothing of what must not happen did, and all that was to be tried was (netlab/attack/experiment.py)."""
    return is_sound(run) and not run["faults"]


def cost() -> str:
    """Sealed and clear, one below the other, and their ratio."""
    rows = []
    for (nodes,), some in groups(_costs(), "nodes").items():
        ways = {way: kept([run for run in some if run["way"] == way], is_stable) for way in (SEALED, CLEAR)}
        for way, (sound, of) in ways.items():
            cells = (spread(values(sound, key), digits) for _, key, digits in COSTS)
            rows.append([str(nodes), way, of, *cells])
        times = (spread(ratios(ways[SEALED][0], ways[CLEAR][0], key), 2) for _, key, _ in COSTS)
        rows.append([str(nodes), "times as much", "", *times])
    return markdown(["nodes", "way", "stable", *(title for title, _, _ in COSTS)], rows)


def cpu_ratios() -> list[float]:
    """CPU time in the stable state, sealed against clear, for each pair of the largest measured size."""
    runs = _costs()
    some = [run for run in runs if run["nodes"] == max(each["nodes"] for each in runs) and is_stable(run)]
    return ratios(*([run for run in some if run["way"] == way] for way in (SEALED, CLEAR)), "rest_cpu_percent")


def siege() -> str:
    """Without and with an attack."""
    rows = []
    for (nodes,), some in groups(sieges(), "nodes").items():
        sound, of = kept(some, is_held)
        lines = [(title, f"peace_{key}", f"siege_{key}", digits) for title, key, digits in PHASES]
        lines += [(title, key.format(a), key.format(b), digits) for title, key, (a, b), digits in STATES]
        for title, *keys, digits in lines:
            rows.append([str(nodes), of, title, *(spread(values(sound, key), digits) for key in keys)])
    return markdown(["nodes", "runs that held", "", "in peace", "under attack"], rows)


def faults() -> str:
    """How often each fault happened, in all runs together."""
    sound = [run for run in sieges() if is_sound(run)]
    return markdown(
        ["what must not happen", f"in {len(sound)} runs"],
        [[fault.what, str(sum(map(fault.count, sound)))] for fault in FAULTS],
    )


def thrown_away() -> str:
    """The datagrams of the intruder, by reason of dropping; medians."""
    sound = [run for run in sieges() if is_sound(run)]
    parts = []
    for title, key in (
        ("sent, by kind", "sent"),
        ("forged, by way", "forged"),
        ("dropped, by reason", "dropped"),
    ):
        names = sorted({name for run in sound for name in run[key] if run[key][name]})
        counts = (f"`{name}` {statistics.median(run[key].get(name, 0) for run in sound):,.0f}" for name in names)
        parts.append(f"- {title}: {', '.join(counts)}.\n")
    return "".join(parts)


PARTS: dict[str, Callable[[], str]] = {
    "sealing-about": lambda: records.about(_costs(), "nodes", "way"),
    "sealing-cost": cost,
    "siege-about": lambda: records.about(sieges(), "nodes"),
    "siege-table": siege,
    "siege-faults": faults,
    "siege-thrown-away": thrown_away,
}
