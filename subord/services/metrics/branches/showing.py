"""`subord metrics NAME --by branch`: one row for each subordinate of the root, and one for the root itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from subord.client.daemon import Document
from subord.client.folding import folded
from subord.client.naming import names_for
from subord.client.text import columns
from subord.services.asking import asked_root, shown_report
from subord.services.metrics.table.known import none_found
from subord.services.metrics.table.layout import HEADS, numbers

NUMBERS = range(1, len(HEADS) - 1)


def run(arguments: argparse.Namespace) -> int:
    """Prints a table for each metric, and the coverage. Raises CommandError."""
    found = asked_root(arguments, "metrics/branches", {"name": arguments.name})
    if found["told"] and not found["metrics"] and not found["left_out"]:
        raise none_found(arguments)
    addresses = [each["address"] for each in found["branches"]]
    return shown_report(arguments, found, _lines(found, names_for(arguments, [addresses, _missing_in(found)])))


def _missing_in(found: Document) -> list[str]:
    return [
        address
        for branch in found["branches"]
        if branch["coverage"] is not None
        for each in branch["coverage"]["missing"]
        for address in each["addresses"]
    ]


def _lines(found: Document, names: dict[str, str]) -> Iterator[str]:
    for metric in found["metrics"]:
        rows = [_row(each, metric["name"], names) for each in found["branches"]]
        whole = ("whole cluster", *numbers(metric), "")
        yield from columns([(metric["name"], *HEADS[1:-1], ""), *rows, whole], right=NUMBERS)
    if found["left_out"]:
        yield f"{found['left_out']} metrics or more are left out: name fewer"


def _row(branch: Document, name: str, names: dict[str, str]) -> tuple[str, ...]:
    where = names.get(branch["address"], branch["address"])
    title = f"{where} alone" if branch["alone"] else f"{where} and below"
    metric = next((each for each in branch["metrics"] if each["name"] == name), None)
    cells = ("0", *("-" for _ in HEADS[2:-1])) if metric is None else numbers(metric)
    if branch["coverage"] is None:
        cells = ("-", *cells[1:])
    return (title, *cells, _missing(branch, names))


def _missing(branch: Document, names: dict[str, str]) -> str:
    """`2 of 5 missing: 10.0.0.[8-9] stale`."""
    covered = branch["coverage"]
    if covered is None:
        return f"no answer: {branch['cause']}"
    if not covered["missing"]:
        return ""
    causes = ", ".join(
        f"{folded(names.get(one, one) for one in each['addresses'])}{_more(each)} {each['cause']}"
        for each in covered["missing"]
    )
    return f"{covered['asked'] - covered['told']} of {covered['asked']} missing: {causes}"


def _more(each: Document) -> str:
    unnamed = each["count"] - len(each["addresses"])
    return f" and {unnamed} more" if unnamed > 0 else ""
