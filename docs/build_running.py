"""Commands on all nodes and files brought to them (docs/evaluation/running.md), from the figures of
`netns-lab/lab evaluate exec` and `netns-lab/lab evaluate files`.

Runs that failed, and peers that were not measured, are listed, too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import build_plot
import records
from build_evaluation import markdown
from build_plot import Line, Panel
from records import Run, groups, spread

SUBORD = "subord"
ORDER = (SUBORD, "clush", "pdsh", "rsync", "serf")
Column = tuple[str, str, int]
KILLED: tuple[Column, ...] = (
    ("no daemon killed, s", "whole_s", 2),
    ("one killed, s", "killed_s", 2),
    ("later, s", "later_s", 2),
)


def is_held(run: Run) -> bool:
    return run["fault"] is None and run["faults"] == []


def figures(runs: Iterable[Run], key: str) -> list[float]:
    """All that were measured; of lists each value. A failed run has none."""
    found = [run.get(key) for run in runs]
    flat = [each for value in found for each in (value if isinstance(value, list) else [value])]
    return [each for each in flat if each is not None]


def about(name: str) -> str:
    """The machine, the program, and the shape of the labs."""
    runs = records.read(name)
    shape = (
        f"{runs[0]['layout'].capitalize()} addresses, timing `{runs[0]['timing']}`; p is the fan-out of the tree.\n"
    )
    return records.about(runs, "part", "nodes", "system") + shape


def settings(name: str) -> str:
    """The program and the options of each system."""
    return records.settings(records.read(name), ORDER)


def missed(name: str) -> str:
    """The runs that did not hold, and the peers without a run."""
    runs = records.read(name)

    def title(run: Run) -> str:
        return f"{run['part']}, {run['nodes']} nodes, {run['system']}, run {run['repeat'] + 1}"

    return records.missed(runs, title, records.unmeasured(runs))


def table(name: str, part: str, columns: Sequence[Column]) -> str:
    """One row for each size and system: medians, and the lowest and highest of all commands of all runs."""
    runs = [run for run in records.read(name) if run["part"] == part]
    by_size = groups([{**run, "place": ORDER.index(run["system"])} for run in runs], "nodes", "fanout", "place")
    rows = [
        [
            f"{nodes}",
            f"{fanout}" if ORDER[place] == SUBORD else "-",
            ORDER[place],
            f"{sum(map(is_held, some))} of {len(some)}",
            *(spread(figures(some, key), digits) for _, key, digits in columns),
        ]
        for (nodes, fanout, place), some in by_size.items()
    ]
    return markdown(["nodes", "p", "system", "runs that held", *(title for title, _, _ in columns)], rows)


def _lines(name: str) -> tuple[Line, ...]:
    """Medians of the part `speed`, by number of nodes."""
    found = []
    for number, system in enumerate(ORDER):
        runs = [run for run in records.read(name) if run["part"] == "speed" and run["system"] == system]
        by_size = groups(runs, "nodes").items()
        points = tuple(
            (nodes, statistics.median(each)) for (nodes,), some in by_size if (each := figures(some, "took_s"))
        )
        if points:
            found.append(Line(system, min(number, 3), points))
    return tuple(found)


def running_svg() -> str:
    """The times of both, by the number of nodes."""
    size = records.read("files")[0]["file_bytes"] / 1e6
    panels = (
        Panel("Seconds for `true` on all nodes", "medians", "nodes", _lines("exec"), x_linear=True),
        Panel(f"Seconds for {size:g} MB to all nodes", "medians", "nodes", _lines("files"), x_linear=True),
    )
    return build_plot.svg(
        panels, "Time of a command on all nodes, and of a file, for subord, clush, pdsh, rsync, Serf"
    )


TABLES: dict[tuple[str, str], tuple[Column, ...]] = {
    ("exec", "speed"): (
        ("`true`, s", "took_s", 2),
        ("the first one, s", "first_s", 2),
        ("ended on", "ended_least", 0),
    ),
    ("exec", "killed"): KILLED,
    ("exec", "interrupted"): (
        ("ran on", "ran", 0),
        ("processes left after 3 s", "left", 0),
        ("the last one ended after, s", "ended_s", 2),
    ),
    ("exec", "output"): (
        ("daemon, MiB", "daemon_mib", 1),
        ("agent, MiB", "agent_mib", 1),
        ("client, MiB", "client_mib", 1),
        ("nodes that say what was cut", "told", 0),
        ("took, s", "took_s", 1),
    ),
    ("exec", "rest"): (
        ("packets/s before", "before_packets_per_s", 2),
        ("after", "after_packets_per_s", 2),
        ("bytes/s before", "before_bytes_per_s", 0),
        ("after", "after_bytes_per_s", 0),
        ("CPU of a daemon before, %", "before_cpu_percent", 3),
        ("after", "after_cpu_percent", 3),
    ),
    ("files", "speed"): (
        ("push, s", "took_s", 2),
        ("nodes with the file", "whole_least", 0),
        ("sent by one node, times the file", "sent_most_times", 2),
    ),
    ("files", "killed"): KILLED,
}
"""By the names of the records and of their part."""
PARTS: dict[str, Callable[[], str]] = {
    **{
        f"{name}-{each.__name__}": partial(each, name)
        for name in ("exec", "files")
        for each in (about, settings, missed)
    },
    **{f"{name}-{part}": partial(table, name, part, columns) for (name, part), columns in TABLES.items()},
}
PICTURES: dict[str, Callable[[], str]] = {"docs/running.svg": running_svg}
