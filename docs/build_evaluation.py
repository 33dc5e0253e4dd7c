"""The tables of docs/evaluation.md and docs/evaluation/, from the figures that the lab wrote into docs/figures/.

Every table names the command, the file and the machine of its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import records
from records import Run, spread

START_COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("stable after first start, s", "stable_s", 2),
    ("after last start, s", "stable_after_last_start_s", 2),
    ("leader changes", "leader_changes_per_node", 3),
    ("exchanges", "exchanges_per_node", 2),
    ("datagrams", "datagrams_per_node", 1),
    ("CPU, ms", "cpu_ms", 0),
)
BRIEF_START_KEYS = ("stable_s", "stable_after_last_start_s", "leader_changes_per_node", "datagrams_per_node")
BRIEF_START_NODES = (100, 500, 1000)
REST_COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("packets/s", "rest_packets_per_s", 2),
    ("bytes/s", "rest_bytes_per_s", 0),
    ("CPU, % of a core", "rest_cpu_percent", 3),
    ("memory, MiB PSS", "pss_mib_per_node", 1),
)
CAMPAIGN_BOUNDS = {
    "whole_s": "L7, the tree is whole",
    "settled_s": "L7, the last move",
    "orphan_s": "L8, without a leader",
    "moves": "L9, moves",
    "depth": "L10, depth",
}


def _runs(*names: str) -> list[Run]:
    runs = [run for name in names for run in records.read(name)]
    return [{**run, "cpu_ms": 1000 * run["cpu_s_per_node"]} for run in runs]


def _grouped(runs: Iterable[Run]) -> dict[tuple[Any, ...], list[Run]]:
    return records.in_order(runs, "nodes", "fanout", "start")


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def start() -> str:
    """Median (lowest..highest) of the repeats of every start."""
    return _start_table("start-together", "start-orders")


def sizes() -> str:
    """Smaller and larger clusters."""
    return _start_table("start-100-400", "growth-daemons")


def start_brief() -> str:
    """Starts in ascending order, of three sizes and two fan-outs."""
    runs = _runs("start-100-400", "start-together", "growth-daemons")
    columns = [column for column in START_COLUMNS if column[1] in BRIEF_START_KEYS]
    rows = [
        [f"{nodes:,}", str(fanout), *_whole(some), *_cells(some, columns)]
        for (nodes, fanout, _), some in sorted(_grouped(runs).items())
        if nodes in BRIEF_START_NODES
    ]
    return markdown(["nodes", "p", "one root, all at home", *(title for title, _, _ in columns)], rows)


def _start_table(*names: str) -> str:
    rows = [
        [str(nodes), str(fanout), order, *_whole(runs), *_cells(runs, START_COLUMNS)]
        for (nodes, fanout, order), runs in _grouped(_runs(*names)).items()
    ]
    titles = (title for title, _, _ in START_COLUMNS)
    return markdown(["nodes", "p", "order", "one root, all at home", *titles], rows)


def _listed(rows: Iterable[Run], *columns: tuple[str, str]) -> str:
    """`columns`: title and key of each."""
    cells = [[_number(row[key]) for _, key in columns] for row in rows]
    return markdown([title for title, _ in columns], cells)


STRUCK = (("what", "what"), ("node", "role"), ("times", "times"), ("orphans", "orphans"), ("attached", "attached"))
ATTACHED = (("attached again, p50 s", "attached_p50_s"), ("p99 s", "attached_p99_s"))


def healing() -> str:
    """Killed, cut off and restarted nodes."""
    roster = (("roster right, median s", "roster_s_median"), ("max s", "roster_s_max"))
    moves = (("moves", "moves_mean"), ("others moved", "others"))
    found = records.read("healing")
    about = f"{found['nodes']} daemons, fan-out {found['fanout']}.\n\n"
    return about + _listed(found["rows"], *STRUCK, *ATTACHED, *roster, *moves)


def healing_brief() -> str:
    """Killed and cut nodes, and killed ones that return: the times only."""
    rows = [row for row in records.read("healing")["rows"] if row["role"] != "leaf"]
    return _listed(rows, *STRUCK, *ATTACHED, ("roster right, max s", "roster_s_max"), ("others moved", "others"))


def scenarios() -> str:
    """Scenario files with real daemons."""
    return _listed(
        records.read("scenarios")["scenarios"],
        ("scenario", "scenario"),
        ("nodes", "nodes"),
        ("result", "result"),
        ("whole, longest s", "whole_s_max"),
        ("moves", "moves"),
        ("moved without cause", "outside"),
        ("orphans", "orphans"),
        *ATTACHED,
    )


def soak() -> str:
    """Half an hour of churn: the memory of the daemons that survived."""
    run = records.read("soak")
    about = (
        f"{run['nodes']} daemons, fan-out {run['fanout']}, {run['minutes']} minutes, in each of which"
        f" {run['percent_per_min']:g} % of them were ended and started again; after each the tree was whole.\n"
        f"A straight line through the second half: {run['growth_kib_per_min_median']:+.1f} KiB a minute for the"
        f" median daemon, {run['growth_kib_per_min_root']:+.1f} KiB for the root.\n\n"
    )
    return about + _listed(
        (sample for sample in run["samples"] if sample["minute"] % 5 == 0),
        ("minute", "minute"),
        ("never ended so far", "veterans"),
        ("resident, MiB (median)", "resident_mib_median"),
        ("max", "resident_mib_max"),
        ("root", "root_mib"),
        ("private (median)", "private_mib_median"),
    )


def campaign() -> str:
    """The campaign of each mapping, and how close it came to the bounds."""
    files = {"ip": "campaign", "latency": "campaign-latency", "performance": "campaign-performance"}
    runs = {name: records.read(file) for name, file in files.items() if records.is_measured(file)}
    header = ["mapping", "seeds", "failed", "nodes", "events checked", "minutes of one core"]
    rows = [
        [
            f"`{name}`",
            f"{run['first']} to {run['first'] + run['seeds'] - 1:,}",
            str(run["failed"]),
            f"{run['nodes_min']} to {run['nodes_max']:,}",
            f"{run['events']:,}",
            f"{run['cpu_s'] / 60:.0f}",
        ]
        for name, run in runs.items()
    ]
    bounds = [
        [
            f"`{name}`",
            title,
            f"{share['seeds']:,}",
            *(f"{share[step]:.0%}" for step in ("median", "99 of 100", "most")),
        ]
        for name, run in runs.items()
        for bound, title in CAMPAIGN_BOUNDS.items()
        if (share := run["tight_shares"][bound])["seeds"]
    ]
    shares = markdown(["mapping", "tight bound", "seeds judged", "median", "99 of 100", "most"], bounds)
    return (
        markdown(header, rows)
        + "\nHow much of each tight bound was used, in seeds in which a node was struck and the bound judges:\n\n"
        + shares
    )


def fuzz() -> str:
    """A million malformed datagrams: their fate, and that of the reading process."""
    run = records.read("fuzz")
    outcomes = run["outcomes"]
    faults = {name: number for name, number in outcomes.items() if name[0].islower()}
    well_formed = sum(outcomes.values()) - sum(faults.values())
    columns = ["datagrams", "seconds", "exceptions", "memory before, MiB", "after", *faults, "well-formed after all"]
    row = [run["count"], run["seconds"], run["exceptions"], run["memory_mib_before"], run["memory_mib_after"]]
    about = (
        f"Machine: {records.box(run['machine'])};"
        f" subord {run['version']}, seed {run['seed']}, spoiled in {len(run['ways'])} ways.\n\n"
    )
    return about + markdown(columns, [[str(each) for each in (*row, *faults.values(), well_formed)]])


def envelopes() -> str:
    """A million sealed datagrams without the key, by reason of dropping."""
    run = records.read("envelopes")
    columns = ["datagrams", "came to something", "seconds", "memory before, MiB", "after", *run["reasons"]]
    row = [run["count"], 0, run["seconds"], run["resident_mib_before"], run["resident_mib_after"]]
    about = (
        f"Machine: {records.box(run['machine'])};"
        f" subord {run['version']}, seed {run['seed']}, spoiled in {run['ways']} ways.\n\n"
    )
    return about + markdown(columns, [[str(each) for each in (*row, *run["reasons"].values())]])


def departures() -> str:
    """The top nodes leave at once."""
    rows = [
        [f"{run['nodes']:,}", f"1-{run['leaving']}", _number(run["whole_s"]), f"{run['proposals']:,}"]
        for run in _recovery("departures")
    ]
    return markdown(["nodes", "leave", "whole after, s", "proposals"], rows)


def orphans() -> str:
    """Nodes whose leader died."""
    how = {"vanish": "hosts vanish", "silent": "processes are killed, their hosts answer nothing"}
    rows = [
        [
            f"{run['dead']} of {run['nodes']}",
            str(run["fanout"]),
            how[run["how"]],
            str(run["orphans"]),
            *(f"{run[key]:.2f}" for key in ("p50_s", "p99_s", "most_s")),
        ]
        for run in _recovery("orphans")
    ]
    return markdown(["dead", "p", "how", "orphans", "median, s", "99 of 100, s", "most, s"], rows)


def loss() -> str:
    """Steady loss of 10 %."""
    rows = [
        [
            str(run["nodes"]),
            str(run["fanout"]),
            str(run["lost"]),
            f"{run['rest_datagrams_per_node_s']:.2f}",
            f"{run['datagrams_per_node_s']:.2f}",
        ]
        for run in _recovery("loss")
    ]
    return markdown(["nodes", "p", "leaders given up", "datagrams/s without loss", "with loss"], rows)


def sites() -> str:
    """A start by `ip` and by `latency`."""
    keys = (
        ("events in the first 20 s", "events"),
        ("processor time of these, s", "cpu_s"),
        ("datagrams/s between sites, first minute", "minute_1_crossing_per_s"),
        ("datagrams/s between sites, tenth minute", "minute_10_crossing_per_s"),
        ("edges between sites", "edges_between_sites"),
        ("depth", "depth"),
    )
    runs = _recovery("sites")
    rows = [[name, *(f"{run[key]:,}" for run in runs)] for name, key in keys]
    return markdown(["", *(f"`{run['mapping']}`" for run in runs)], rows)


def _recovery(what: str) -> list[Run]:
    return [run for run in records.read("recovery")["runs"] if run["what"] == what]


def machine() -> str:
    """The machine of the measurements."""
    about = records.read("start-together")[0]
    return (
        f"Machine: {records.box(about['machine'])}.\n"
        f"subord {about['version']}, timing `{about['timing']}`, network {about['network']}, dense addresses from"
        f" position 1, daemons {about['command']} from a warm process, neighbours found by {about['neighbours']}.\n"
    )


def _whole(runs: list[Run]) -> list[str]:
    whole = sum(run["stable"] and run["roots"] == 1 and run["at_home"] == run["nodes"] for run in runs)
    return [f"{whole} of {len(runs)}"]


def _cells(runs: list[Run], columns: Iterable[tuple[str, str, int]]) -> list[str]:
    return [spread([run[key] for run in runs], digits) for _, key, digits in columns]


def _number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


PARTS: dict[str, Callable[[], str]] = {
    "evaluation-machine": machine,
    "evaluation-start": start,
    "evaluation-start-brief": start_brief,
    "evaluation-sizes": sizes,
    "evaluation-healing": healing,
    "evaluation-healing-brief": healing_brief,
    "evaluation-scenarios": scenarios,
    "evaluation-soak": soak,
    "evaluation-campaign": campaign,
    "evaluation-departures": departures,
    "evaluation-orphans": orphans,
    "evaluation-loss": loss,
    "evaluation-sites": sites,
    "evaluation-fuzz": fuzz,
    "evaluation-envelopes": envelopes,
}
