"""Records of jobs while daemons die (docs/evaluation/accounting.md), from the figures of
`netns-lab/lab evaluate accounting`.

Runs that failed are listed, too; the plots show the first run that was measured. Without figures the parts say so,
and there are no plots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import build_plot
import records
from build_evaluation import markdown
from build_plot import Line, Panel
from records import Run

NAME = "accounting"
MINUTE_S = 60.0
MIB = 1 << 20
DEATHS = {"root": ("a root dies", 1), "sinks": ("no sink", 2)}
"""Those in the plots: name and number of the series."""
KILLED = {"root": "roots", "sink": "sinks", "sinks": "all sinks", "server": "PostgreSQL"}


def about() -> str:
    """The machine, the program, and the shape of the labs."""
    runs = records.measured(NAME)
    first = runs[0]
    shape = (
        f"{first['nodes']} nodes, fan-out {first['fanout']}, {first['layout']} addresses, timing `{first['timing']}`;"
        f" {first['records']:,} records, {first['per_s']:g} a second, {first['request_records']} in a request;"
        f" spools and files of SQLite on {first['files']}.\n"
    )
    return records.about(runs, "nodes") + shape


def sinks() -> str:
    """Where they are in the tree, and how much they have."""
    rows = []
    for run in records.measured(NAME):
        for each in run["sinks"]:
            held = run["counted"]["databases"][each["address"]]
            place = f"leads {each['subordinates']}" if each["subordinates"] else "leads none"
            rows.append([f"{run['repeat'] + 1}", each["address"], place, each["database"], f"{held['records']:,}"])
    return markdown(["run", "sink", "in the tree", "database", "records in the end"], rows)


def table() -> str:
    """One column for each run."""
    runs = records.measured(NAME)
    rows = [[name, *map(show, runs)] for name, show in ROWS.items()]
    return markdown(["", *(f"run {run['repeat'] + 1}" for run in runs)], rows)


def missed() -> str:
    """The runs that did not hold, and what was not measured."""
    runs = records.read(NAME)
    absent = [
        f"Run {run['repeat'] + 1} is without PostgreSQL: {why}" for run in runs for why in run["absent"].values()
    ]
    return records.missed(runs, lambda run: f"Run {run['repeat'] + 1}", absent)


def _killed(run: Run) -> str:
    return ", ".join(f"{name} {run['kills'][kind]}" for kind, name in KILLED.items())


def _again(run: Run) -> str:
    return f"{run['unsure']:,} records, {run['counted']['given_again']:,} of them twice in the sinks"


def _delays(run: Run) -> str:
    return ", ".join(str(run["counted"]["delay_s"][each]) for each in ("p50", "p99", "p100"))


ROWS: Mapping[str, Callable[[Run], str]] = {
    "nodes killed a minute": lambda run: f"{run['killed_percent_per_min']:.1f} %, {run['kills']['node']} in all",
    "killed beside them": _killed,
    "records accepted": lambda run: f"{run['accepted']:,}",
    "records in the sinks": lambda run: f"{run['counted']['stored']:,}",
    "**lost**": lambda run: f"{run['counted']['lost']:,}",
    "**double**": lambda run: f"{run['counted']['double']:,}",
    "given again after a lost answer": _again,
    "in both sinks, by one name": lambda run: f"{run['counted']['in_several']:,}",
    "jobs that `subord account report` counts": lambda run: f"{run['report']['jobs']:,}",
    "took, s": lambda run: f"{run['report']['took_s']:.1f}",
    "from the end of a job to a sink, s: median, 99 of 100, all": _delays,
    "records that waited at most": lambda run: f"{run['waiting_most']:,}",
    "the oldest that waited, s": lambda run: f"{run['oldest_s_most']}",
    "the same of nodes that run": lambda run: f"{run['oldest_live_s_most']}",
    "written in, s": lambda run: f"{run['writes_s']:.0f}",
    "all spools empty after that, s": lambda run: f"{run['emptied_s']:.1f}",
    "files of all spools at most, MiB": lambda run: f"{run['spool_bytes_most'] / MIB:.1f}",
    "of one spool": lambda run: f"{run['spool_bytes_of_one'] / MIB:.1f}",
    "databases in the end, MiB": lambda run: " + ".join(
        f"{n / MIB:.0f}" for n in run["samples"][-1]["database_bytes"]
    ),
    "CPU of all daemons, mean, % of a core": lambda run: f"{run['cpu_percent_mean']:.0f}",
}


# -- plots --------------------------------------------------------------------------------------------------------


def _series(name: str, number: int, key: str, unit: float = 1.0) -> Line:
    """A figure of the samples of the run, in units, by minutes."""
    return _drawn(name, number, lambda sample: sample[key] / unit)


def _drawn(name: str, number: int, value: Callable[[Run], float]) -> Line:
    points = tuple((each["at_s"] / MINUTE_S, value(each)) for each in records.measured(NAME)[0]["samples"])
    return Line(name, number, points, "plain")


def _deaths() -> Iterable[Line]:
    """When a root died, and from when until when no sink lived: marks on the axis."""
    for kind, (name, number) in DEATHS.items():
        times = [
            at_s
            for each in records.measured(NAME)[0]["deaths"]
            if each["what"] == kind
            for at_s in ((each["at_s"],) if kind == "root" else (each["at_s"], each["at_s"] + each["down_s"]))
        ]
        if times:
            yield Line(name, number, tuple((at_s / MINUTE_S, 0.0) for at_s in times), "marks")


def _panel(title: str, note: str, *lines: Line) -> Panel:
    return Panel(title, note, "minutes", lines, x_linear=True)


def lag_svg() -> str:
    """The records that wait, and the oldest of them, by time."""
    ages = _series("all nodes", 0, "oldest_s"), _series("running", 3, "oldest_live_s")
    panels = (
        _panel("Records that wait", "in the spools of all nodes", _series("wait", 0, "waiting"), *_deaths()),
        _panel("Age of the oldest record that waits, s", "also of dead nodes", *ages, *_deaths()),
    )
    return build_plot.svg(panels, "How many records wait in spools, and how long, while daemons are killed")


def disk_svg() -> str:
    """Files of spools and databases, by time."""
    spools = _series("all", 0, "spool_bytes", MIB), _series("largest", 0, "spool_bytes_most", MIB)
    databases = (
        _drawn(each["address"], number, lambda sample, at=number: sample["database_bytes"][at] / MIB)
        for number, each in enumerate(records.measured(NAME)[0]["sinks"])
    )
    panels = (
        _panel("Files of all spools, MiB", "with the logs of SQLite", spools[0], *_deaths()),
        _panel("Files of the largest spool, MiB", "with its log", spools[1], *_deaths()),
        _panel("Databases of the sinks, MiB", "by the address of the sink", *databases),
    )
    return build_plot.svg(panels, "Bytes of spools and of databases on disk while records are written")


def lag() -> str:
    """The plot on the page."""
    return "![Records that wait, and the age of the oldest, over time](../accounting-lag.svg)\n"


def disk() -> str:
    """The plot on the page."""
    return "![Files of spools and databases over time](../accounting-disk.svg)\n"


PARTS: dict[str, Callable[[], str]] = {
    f"{NAME}-{part.__name__}": records.if_measured(NAME)(part) for part in (about, sinks, table, missed, lag, disk)
}
PICTURES: dict[str, Callable[[], str]] = (
    {f"docs/{NAME}-lag.svg": lag_svg, f"docs/{NAME}-disk.svg": disk_svg} if records.is_measured(NAME) else {}
)
