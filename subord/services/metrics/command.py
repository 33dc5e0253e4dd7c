"""`subord metrics`: figures of the cluster, with the number of nodes that each covers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fnmatch import fnmatchcase
from math import log10

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError
from subord.client.naming import names_for
from subord.client.options import whole_number
from subord.services.asking import add_asking_root, asked_root, shown_report

HEADS = ("metric", "nodes", "sum", "least", "median", "95 %", "greatest", "on")
PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "metrics",
        help="show what the nodes of the cluster do",
        description="Print for each metric on how many nodes it is known, the sum, the least value, the median, the "
        "95 % quantile, and the greatest value with its node. Every node publishes its metrics once in ten seconds.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="only metrics of this name; * stands for any text")
    most = "the N nodes with the greatest values, at most 16"
    parser.add_argument("--top", type=whole_number(1, 16), metavar="N", help=most)
    add_asking_root(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints a table and the coverage; returns OK if it is whole. Raises CommandError."""
    found = asked_root(arguments, "metrics")
    shown = [each for each in found["metrics"] if _is_named(each["name"], arguments.name)]
    if arguments.name and not shown and found["told"]:
        known = ", ".join(each["name"] for each in found["metrics"]) or "none"
        raise CommandError(f"no metric {arguments.name!r} is known; there are: {known}", exit_codes.NO_SUCH_NODE)
    names = names_for(arguments, [[one["address"] for one in each["top"]] for each in shown])
    lines = _top(shown, arguments.top, names) if arguments.top else _table(shown, names)
    return shown_report(arguments, {**found, "metrics": shown}, lines)


def _is_named(name: str, wanted: str | None) -> bool:
    return wanted is None or name == wanted or fnmatchcase(name, wanted.replace("[", "[[]"))


def _table(metrics: list[Document], names: dict[str, str]) -> Iterator[str]:
    rows = [HEADS, *(_row(each, names) for each in metrics)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADS))]
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)),
        ]
        yield "  ".join([*cells, row[-1]]).rstrip()


def _row(metric: Document, names: dict[str, str]) -> tuple[str, ...]:
    quantiles, top = metric["quantiles"], metric["top"]
    values = metric["sum"], metric["min"], quantiles["0.5"], quantiles["0.95"], metric["max"]
    busiest = names.get(top[0]["address"], top[0]["address"]) if top else ""
    return (metric["name"], str(metric["count"]), *map(short, values), busiest)


def _top(metrics: list[Document], count: int, names: dict[str, str]) -> Iterator[str]:
    for each in metrics:
        yield each["name"]
        for one in each["top"][:count]:
            yield f"  {short(one['value']):>8}  {names.get(one['address'], one['address'])}"


def short(value: float) -> str:
    """Three digits: 0.0123, 1.23, 12.3k, 4.56G."""
    if not value:
        return "0"
    power = min(max(0, int(log10(abs(value)) // 3)), len(PREFIXES) - 1)
    text = f"{value / 1000**power:.3g}"
    if text in ("1e+03", "-1e+03") and power + 1 < len(PREFIXES):
        power, text = power + 1, text.replace("1e+03", "1")
    return text + PREFIXES[power]
