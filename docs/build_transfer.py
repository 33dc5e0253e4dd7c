"""Two clusters that exchange jobs (docs/evaluation/transfer.md), from the figures of `netns-lab/lab evaluate
transfer`.

Runs that failed are listed, too. Invariant: without figures the build ends and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import build_plot
import records
from build_evaluation import markdown
from build_plot import Line, Panel
from records import Run, one, spread, values

NAME = "transfer-lab"
MINUTE_S = 60
CASES = {
    "apart": "apart",
    "joined": "with transfer queues",
    "merged": "one merged cell",
}


def about() -> str:
    """The machine, the program, and the shape of the labs."""
    runs = records.measured(NAME)
    first = runs[0]
    shape = (
        f"Two clusters of {first['nodes']} nodes, two of which run no jobs; the merged cell has the hosts of both. "
        f"Fan-out {first['fanout']}, dense addresses, timing `{first['timing']}`. "
        f"Jobs of {first['job_s']:g} s come for {first['seconds'] / MINUTE_S:g} minutes; "
        f"the other cluster is the busy one after {first['phase_s']:g} s. "
        "Daemons and agents die meanwhile, as many as the table says.\n"
    )
    return records.about(runs, "nodes", "case") + shape


def missed() -> str:
    return records.missed(records.read(NAME), lambda run: f"{CASES[run['case']]}, run {run['repeat'] + 1}")


def table() -> str:
    """One column for each case."""
    runs = records.measured(NAME)
    columns = [(title, some) for case, title in CASES.items() if (some := one(runs, case=case))]
    rows = [[name, *(show(some) for _, some in columns)] for name, show in ROWS.items()]
    return markdown(["", *(title for title, _ in columns)], rows)


def _of(key: str, digits: int = 0) -> Callable[[list[Run]], str]:
    return lambda runs: spread(values(runs, key), digits)


def _killed(what: str) -> Callable[[list[Run]], str]:
    return lambda runs: spread([run["killed"].get(what, 0) for run in runs], 0)


ROWS: dict[str, Callable[[list[Run]], str]] = {
    "load of the minute before": lambda runs: spread([run["machine"]["load"] for run in runs], 1),
    "jobs": _of("jobs"),
    "submitted later than planned, at most, s": _of("late_s", 1),
    "of these run by the other cluster": _of("abroad"),
    "jobs that ended a minute": _of("per_min", 1),
    "from submission to end, beyond the job's own time: median, s": _of("extra_s"),
    "... 95 of 100 within, s": _of("extra_s_high"),
    "the last job ended after, s": _of("last_s"),
    "daemons killed": _killed("daemons"),
    "agents of transfer hosts killed": _killed("agents of transfer hosts"),
    "faults: jobs that were lost, ran twice, or ended with another status": lambda runs: spread(
        [len(run["faults"]) for run in runs], 0
    ),
}


def svg() -> str:
    """Jobs that have ended, and those that wait or run, by time."""
    ended = Panel("Jobs that have ended", "from the first submission", "minutes", tuple(_lines()), x_linear=True)
    return build_plot.svg([ended], "Jobs that have ended, by time, of two clusters apart, joined, and merged")


def _lines() -> Iterable[Line]:
    for number, case in enumerate(CASES):
        for run in one(records.measured(NAME), case=case)[:1]:
            total, points = 0, [(0.0, 0.0)]
            for bucket, count in enumerate(run["ends"], 1):
                total += count
                points.append((bucket * run["bucket_s"] / MINUTE_S, float(total)))
            yield Line(case, number, tuple(points), "plain")


PARTS: dict[str, Callable[[], str]] = {
    "transfer-about": about,
    "transfer-missed": missed,
    "transfer-table": table,
}
PICTURES: dict[str, Callable[[], str]] = {"docs/transfer-ends.svg": svg}
