"""`subord metrics --history TIME`: how figures have changed in the last minutes, and since when the root knows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from subord.client.daemon import Document
from subord.client.drawing import STROKES, strokes_for
from subord.client.naming import names_for
from subord.client.text import age, columns
from subord.services.asking import asked_root, shown_coverage
from subord.services.metrics.past.sparkline import BARS, BARS_ASCII, in_columns, sparkline
from subord.services.metrics.table.known import none_found
from subord.services.metrics.table.layout import short, to_second

COLUMNS_MAX = 30
COLUMN_S_MIN = 15.0
"""Longer than the interval of nodes, so that each part of the period has a moment."""
NUMBERS = (2, 3, 4)


def run(arguments: argparse.Namespace) -> int:
    """Prints a table for each node that was asked; NOT_REACHED when one has not answered. Raises CommandError."""
    query = {"name": arguments.name or "", "seconds": str(int(arguments.history)), "of": arguments.of}
    found = asked_root(arguments, "metrics/history", {**query, "by": arguments.by or ""})
    told = [each for each in found["branches"] if any(each["told"])]
    if arguments.name and told and not any(each["metrics"] or each["left_out"] for each in told):
        raise none_found(arguments)
    names = names_for(arguments, [each["address"] for each in found["branches"]])
    bars = BARS if strokes_for(sys.stdout) is STROKES else BARS_ASCII
    return shown_coverage(arguments, found, _lines(found, names, bars))


def _lines(found: Document, names: dict[str, str], bars: str) -> Iterator[str]:
    for each in found["branches"]:
        if each["metrics"]:
            yield from _table(found, each, bars)
        yield _knows(each, names.get(each["address"], each["address"]), found["seconds"])
        if each["left_out"]:
            yield f"{each['left_out']} metrics are left out: name fewer"


def _table(found: Document, branch: Document, bars: str) -> list[str]:
    period_s = float(found["seconds"])
    count = max(1, min(COLUMNS_MAX, int(period_s / COLUMN_S_MIN)))
    heads = ("metric", f"{found['figure']}, {age(period_s)}", "least", "greatest", "last")
    rows = [
        (
            each["name"],
            sparkline(in_columns(each["values"], branch["ages_s"], period_s, count), bars),
            *(short(each[key]) for key in ("least", "greatest", "last")),
        )
        for each in branch["metrics"]
    ]
    return columns([heads, *rows], right=NUMBERS)


def _knows(branch: Document, name: str, seconds: int) -> str:
    """`10.0.0.1, the root, knows the last 12 min (since 2026-11-24T10:00:00Z), of 498 to 500 of 500 nodes`."""
    what = "the root" if branch["whole"] else "of its branch"
    if branch["since"] is None:
        return f"{name}, {what}, knows no moment yet"
    text = f"{name}, {what}, knows the last {age(branch['known_s'])} (since {to_second(branch['since'])})"
    if not branch["told"]:
        return f"{text}, and nothing of the period"
    least, greatest = min(branch["told"]), max(branch["told"])
    told = f"{least}" if least == greatest else f"{least} to {greatest}"
    nodes = f", of {told} of {max(branch['asked'])} nodes"
    return (
        text + nodes + ("; nothing is known of the time before" if branch["known_s"] < seconds - COLUMN_S_MIN else "")
    )
