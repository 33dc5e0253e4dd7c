"""What `subord hosts` and `subord hosts status` print."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.naming import names_for
from subord.client.text import columns, count
from subord.services.asking import asked_nodes, shown_coverage, shown_document
from subord.services.following import conflict_line, nodes_of, published_line

WIDTH: Final = 100
NEVER: Final = "no table of hosts is published"
CONFLICT: Final = conflict_line("table")


def table(arguments: argparse.Namespace) -> int:
    """Prints the table. Raises CommandError."""
    found = asked(arguments, "/v1/hosts/table")
    return shown_document(arguments, found, table_lines(found))


def table_lines(found: Document) -> Iterator[str]:
    """What is printed of a TableDocument."""
    if not found["version"]:
        yield NEVER
        return
    what = count(len(found["entries"]), "name") if found["readable"] else "this release cannot read it"
    yield published_line(found, what)
    yield from columns([(each["address"], each["name"]) for each in found["entries"]])
    if found["conflict"]:
        yield CONFLICT


def status(arguments: argparse.Namespace) -> int:
    """Prints the states, and the coverage; OK if every node has answered and has the table. Raises CommandError."""
    found = asked_nodes(arguments, "hosts")
    names = names_for(arguments, found)
    code = shown_coverage(arguments, found, lines_of(found, names))
    is_settled = all(each["applied"] for each in found["states"]) and not found["unread"]
    return code if is_settled else exit_codes.NOT_REACHED


def lines_of(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is printed of a HostsDocument."""
    yield f"version {found['version']} of the table counts" if found["version"] else NEVER
    rows = [(each["state"], str(each["nodes"]), nodes_of(each, names)) for each in found["states"]]
    head, *lines = columns([("state", "nodes", ""), *rows], right=(1,))
    if rows:
        yield head
    for line, each in zip(lines, found["states"], strict=True):
        yield line
        for text in _reasons(each, found):
            yield from wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
    lagging = sum(each["nodes"] for each in found["states"] if not each["applied"])
    if lagging:
        yield f"{count(lagging, 'node')} {'does' if lagging == 1 else 'do'} not have the table"
    if found["unread"]:
        yield f"the answers of {count(found['unread'], 'node')} cannot be read: they are of another release"


def _reasons(each: Document, found: Document) -> Iterator[str]:
    """Of nodes that have the table only what is odd."""
    if not each["applied"]:
        yield f"{each['text']}{': ' if each['detail'] else ''}{each['detail']}"
        if each["mark"] != found["mark"]:
            theirs = f"version {each['version']}" if each["version"] else "no version"
            yield f"{theirs} of the table is there, not version {found['version']}"
    elif each["state"] == "off":
        yield each["text"]
    yield from each["notes"]
