"""`subord metrics [NAME]`: the figures of the whole cluster."""

from __future__ import annotations

import argparse

from subord.client.naming import names_for
from subord.services.asking import asked_root, shown_report
from subord.services.metrics.table.known import named, unknown
from subord.services.metrics.table.layout import table, top_nodes


def run(arguments: argparse.Namespace) -> int:
    """Prints a table and the coverage. Raises CommandError."""
    found = asked_root(arguments, "metrics")
    shown = named(found["metrics"], arguments.name)
    if arguments.name and not shown and found["told"]:
        raise unknown(arguments.name, found["metrics"])
    names = names_for(arguments, [[one["address"] for one in each["top"]] for each in shown])
    lines = top_nodes(shown, arguments.top, names) if arguments.top else table(shown, names)
    return shown_report(arguments, {**found, "metrics": shown}, lines)
