"""`subord elastic nodes`: the nodes of the cluster with their stages, jobs and paid hours."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, columns, count
from subord.runtime.elastic.state import MANAGES
from subord.services.asking import asked_root
from subord.services.elastic.commands.layout import heading
from subord.services.elastic.commands.status import fault_lines
from subord.services.elastic.commands.why import shown_by_manager, told_lines
from subord.services.following import state_lines

HEAD: Final = ("name", "address", "kind", "stage", "since", "jobs", "slots", "idle", "minute")
RIGHT: Final = range(5, 9)
COLUMN_OF_KINDS: Final = 2


def run(arguments: argparse.Namespace) -> int:
    """Prints the table, and the coverage; OK if the queue's node has told it. Raises CommandError."""
    found = asked_root(arguments, "elastic/manager")
    names = names_for(arguments, found)
    return shown_by_manager(arguments, found, lines_of(found, names))


def lines_of(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is printed of an ElasticDocument."""
    yield heading(found["plan"], names)
    growth = found["growth"]
    if growth is None:
        yield from told_lines(found, names)
        return
    yield from state_lines(growth, MANAGES)
    nodes = sorted(growth["nodes"], key=lambda each: (not each["master"], each["name"]))
    has_kinds = any(each["kind"] for each in nodes)
    rows = [HEAD, *map(_cells, nodes)]
    if not has_kinds:
        rows = [(*row[:COLUMN_OF_KINDS], *row[COLUMN_OF_KINDS + 1 :]) for row in rows]
    head, *lines = columns(rows, right=[each - (not has_kinds) for each in RIGHT])
    yield head
    for line, each in zip(lines, nodes, strict=True):
        yield line
        yield from fault_lines(each)
    if growth["left_out"]:
        yield f"{count(growth['left_out'], 'node')} more had no room in the answer"


def _cells(node: Document) -> tuple[str, ...]:
    """`minute`: of the paid hour."""
    return (
        node["name"],
        node["address"] or "-",
        node["kind"] or "-",
        "master" if node["master"] else node["stage"] or "-",
        "-" if node["since_s"] is None else age(node["since_s"]),
        str(node["jobs"]),
        f"{node['used']}/{node['slots']}",
        "-" if node["idle_s"] is None else age(node["idle_s"]),
        "-" if node["minute"] is None else str(node["minute"]),
    )
