"""The times of orders among real daemons, and what they cost (docs/evaluation/orders.md), from orders.json,
errors.json and root.json of docs/figures."""

from __future__ import annotations

from collections.abc import Callable

import records
from build_evaluation import markdown


def about(name: str) -> str:
    """The machine and the program."""
    found = records.read(name)
    machine = found["machine"]
    cores, memory = machine["cores"], round(machine["memory_gib"])
    return (
        f"Machine: {cores} cores, {memory} GiB, Linux {machine['kernel']}, Python {machine['python']}, at "
        f"{found['commit']}.\n"
    )


def errors() -> str:
    """The same for `subord errors`, of this release and of the last."""
    rows = [
        [
            str(run["nodes"]),
            str(run["fanout"]),
            run["asked_at"],
            run["what"],
            "leaders" if run.get("before") else "order",
            f"{run['told_least']} of {run['nodes']}",
            str(run["orders"]),
            f"{run['p50_s']:.2f}",
            f"{run['most_s']:.2f}",
        ]
        for run in records.read("errors")["runs"]
    ]
    head = ["nodes", "p", "asked at", "state", "by", "answered", "orders", "median, s", "longest, s"]
    return markdown(head, rows)


def table() -> str:
    """One row for each cluster, place of the request, and state."""
    rows = [
        [
            str(run["nodes"]),
            str(run["fanout"]),
            run["asked_at"],
            run["what"],
            f"{run['told_least']} of {run['nodes']}",
            str(run["orders"]),
            f"{run['p50_s']:.2f}",
            f"{run['most_s']:.2f}",
            f"{run['root_cpu_ms_per_order']:.1f}",
        ]
        for run in records.read("orders")["runs"]
    ]
    head = ["nodes", "p", "asked at", "state", "answered", "orders", "median, s", "longest, s", "CPU of the root, ms"]
    return markdown(head, rows)


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
