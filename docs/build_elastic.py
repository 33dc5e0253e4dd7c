"""A cluster that grows and shrinks with a real queue (docs/evaluation/elastic.md), from the figures of
`netns-lab/lab evaluate elastic`.

Runs that failed are listed, too. Invariant: without figures the build ends and says so.
"""

from __future__ import annotations

from collections.abc import Callable

import records
from build_evaluation import markdown
from records import Run

NAME = "elastic-lab"
KIB = 1024


def about() -> str:
    """The machine, the program, and the shape of the labs."""
    runs = records.measured(NAME)
    first = runs[0]
    shape = (
        f"{first['nodes']} nodes with the root, fan-out {first['fanout']}, {first['layout']} addresses, timing "
        f"`{first['timing']}`; at most {first['at_once']} nodes a poll; {first['rate']:g} seconds of the manager in "
        "one.\n"
    )
    return records.about(runs, "nodes") + shape


def missed() -> str:
    """Runs that failed."""
    failed = [run for run in records.read(NAME) if run["fault"] is not None]
    return "".join(f"- Run {run['repeat'] + 1}: {run['fault']}.\n" for run in failed)


def table() -> str:
    """One column for each run."""
    runs = records.measured(NAME)
    rows = [[name, *map(show, runs)] for name, show in ROWS.items()]
    return markdown(["", *(f"run {run['repeat'] + 1}" for run in runs)], rows)


def _traffic(of: str) -> Callable[[Run], str]:
    def show(run: Run) -> str:
        sent = f"{run[f'{of}_bytes'] / KIB:,.0f} KiB in {run[f'{of}_packets']:,} packets"
        return f"{sent}; {run[f'{of}_cpu_s']:.1f} s of processor"

    return show


ROWS: dict[str, Callable[[Run], str]] = {
    "nodes added": lambda run: f"{run['started']}",
    "from the first start until all serve": lambda run: f"{run['grown_s']:.0f} s",
    "one node, from its start until it serves: median": lambda run: f"{run['add_s']:.0f} s",
    "... slowest": lambda run: f"{run['add_s_max']:.0f} s",
    "from the first drain until the last has ended": lambda run: f"{run['shrunk_s']:.0f} s",
    "jobs; runs of jobs; killed": lambda run: f"{run['jobs']}; {run['runs']}; {run['killed']}",
    "nodes that could not be added": lambda run: f"{run['undone']}",
    "the queue's node sends and is brought, while it grows": _traffic("head"),
    "the root": _traffic("root"),
    "an added node": _traffic("node"),
}
PARTS: dict[str, Callable[[], str]] = {
    "elastic-about": about,
    "elastic-missed": missed,
    "elastic-table": table,
}
