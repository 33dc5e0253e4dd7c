"""subord compared with other programs: tables and plots, from the figures of `netns-lab/lab evaluate peers`.

Runs that did not converge are listed, too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

import build_plot
import records
from build_evaluation import markdown
from build_plot import Line, Panel, Point
from records import Run, groups, kept, spread, values

KINDS = {"node": "every node", "client": "each client", "member": "each member"}
COSTS = (("packets_per_s", 2), ("bytes_per_s", 0), ("cpu_percent", 3), ("resident_mib", 1))
EVENTS = (
    ("converged after the last start, s", "converged_after_last_start_s"),
    ("all started within, s", "started_within_s"),
    ("killed node known to the first, s", "known_kill_first_s"),
    ("to all that have to know, s", "known_kill_all_s"),
    ("cut node known to the first, s", "known_cut_first_s"),
    ("to all that have to know, s", "known_cut_all_s"),
    ("new leader after kill, s", "leader_kill_s"),
    ("after cut, s", "leader_cut_s"),
)


def _runs() -> list[Run]:
    found: list[Run] = records.read("peers")
    return found


def is_converged(run: Run) -> bool:
    """It converged, and no failure followed."""
    return run["fault"] is None and bool(run["converged"])


def _cell(runs: list[Run], key: str, digits: int) -> str:
    """As everywhere; with the number of runs without a value, if others have one."""
    if not any(key in run for run in runs):
        return "-"
    found = values(runs, key)
    never = f", {len(runs) - len(found)} never" if len(found) < len(runs) else ""
    return spread(found, digits) + never


def settings() -> str:
    """The commands of each program, and the meaning of the terms for it."""
    settings_of = {run["system"]: (run["settings"], run["meaning"]) for run in _runs() if "settings" in run}
    return "".join(
        f"- *{system}*: {how}.\n  {meaning[0].upper()}{meaning[1:]}.\n"
        for system, (how, meaning) in settings_of.items()
    )


def cost() -> str:
    """In the stable state, for each kind of node."""
    rows = []
    for (nodes, system), some in groups(_runs(), "nodes", "system").items():
        sound, of = kept(some, is_converged)
        for kind, title in KINDS.items():
            if values(sound, f"{kind}_packets_per_s"):
                cells = (_cell(sound, f"{kind}_{key}", digits) for key, digits in COSTS)
                rows.append([f"{nodes}", system, of, title, *cells])
    header = ["nodes", "system", "runs", "figures of", "packets/s", "bytes/s", "CPU, % of a core", "resident, MiB"]
    return markdown(header, rows)


def events() -> str:
    """Start, deaths, successions."""
    rows = []
    for (nodes, system), some in groups(_runs(), "nodes", "system").items():
        sound, of = kept(some, is_converged)
        rows.append([str(nodes), system, of, *(_cell(sound, key, 2) for _, key in EVENTS)])
    return markdown(["nodes", "system", "converged", *(title for title, _ in EVENTS)], rows)


def missed() -> str:
    """The runs without a result, with the reason."""
    lines = []
    for (nodes, system), some in groups(_runs(), "nodes", "system").items():
        late = sum(run["fault"] is None and not run["converged"] for run in some)
        if late:
            lines.append(f"- {system}, {nodes} nodes: {late} of {len(some)} runs did not converge in time.")
        lines += [f"- {system}, {nodes} nodes: {run['fault']}" for run in some if run["fault"] is not None]
    return "\n".join(lines or ["All runs converged, and were measured to their end."]) + "\n"


def _line(runs: Iterable[Run], key: str) -> tuple[Point, ...]:
    """Medians of all nodes, or of clients where there are servers, by number of nodes."""
    by_size = groups(filter(is_converged, runs), "nodes").items()
    found = {
        nodes: [value for each in (key, f"node_{key}", f"client_{key}") for value in values(some, each)]
        for (nodes,), some in by_size
    }
    return tuple((nodes, statistics.median(each)) for nodes, each in found.items() if each)


def _lines(key: str) -> tuple[Line, ...]:
    by_system = groups(_runs(), "system").items()
    return tuple(
        Line(system, number, points)
        for number, ((system,), some) in enumerate(by_system)
        if (points := _line(some, key))
    )


def peers_svg() -> str:
    """Traffic of a node in the stable state, and the time until a death is known."""
    panels = (
        Panel("Bytes a second and node at rest", "etcd: of a client", "nodes", _lines("bytes_per_s"), x_linear=True),
        Panel(
            "Seconds until a killed node is known",
            "to all that have to know; medians",
            "nodes",
            _lines("known_kill_all_s"),
            x_linear=True,
        ),
    )
    return build_plot.svg(panels, "Traffic at rest and time until a death is known, for subord, Serf and etcd")


PARTS: dict[str, Callable[[], str]] = {
    "peers-about": lambda: records.about(_runs(), "nodes", "system"),
    "peers-settings": settings,
    "peers-cost": cost,
    "peers-events": events,
    "peers-missed": missed,
}
PICTURES: dict[str, Callable[[], str]] = {"docs/peers.svg": peers_svg}
