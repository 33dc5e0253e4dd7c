"""The times of orders among real daemons, and what they cost (docs/evaluation/orders.md), from orders.json,
errors.json and root.json of docs/figures."""

from __future__ import annotations

from collections.abc import Callable

import records
from build_evaluation import markdown
from records import Run


def about(name: str) -> str:
    """The machine and the program."""
    found = records.read(name)
    return f"Machine: {records.box(found['machine'])}, at {found['commit']}.\n"


WHERE = ["nodes", "p", "asked at", "state"]
ANSWERED = ["answered", "orders", "median, s", "longest, s"]


def _where(run: Run) -> list[str]:
    return [str(run["nodes"]), str(run["fanout"]), run["asked_at"], run["what"]]


def _answered(run: Run) -> list[str]:
    told = f"{run['told_least']} of {run['nodes']}"
    return [told, str(run["orders"]), f"{run['p50_s']:.2f}", f"{run['most_s']:.2f}"]


def errors() -> str:
    """The same for `subord errors`, of this release and of the last."""
    rows = [
        [*_where(run), "leaders" if run.get("before") else "order", *_answered(run)]
        for run in records.read("errors")["runs"]
    ]
    return markdown([*WHERE, "by", *ANSWERED], rows)


def table() -> str:
    """One row for each cluster, place of the request, and state."""
    rows = [
        [*_where(run), *_answered(run), f"{run['root_cpu_ms_per_order']:.1f}"]
        for run in records.read("orders")["runs"]
    ]
    return markdown([*WHERE, *ANSWERED, "CPU of the root, ms"], rows)


def root() -> str:
    """What an order costs the root, in the simulator."""
    rows = [
        [
            f"{run['nodes']:,}",
            str(run["fanout"]),
            str(run["frames_in"]),
            str(run["bytes_in"]),
            str(run["bytes_out"]),
            f"{run['cpu_ms']:.1f}",
            f"{run['roster_ms']:.1f}",
        ]
        for run in records.read("root")["runs"]
    ]
    head = ["nodes", "p", "frames in", "bytes in", "bytes out", "engine, ms", "roster, ms"]
    return markdown(head, rows)


PARTS: dict[str, Callable[[], str]] = {
    "orders-about": lambda: about("orders"),
    "orders-table": table,
    "root-about": lambda: about("root"),
    "root-table": root,
    "errors-about": lambda: about("errors"),
    "errors-table": errors,
}
