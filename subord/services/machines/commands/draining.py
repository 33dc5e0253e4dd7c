"""`subord machines drain`: orders of an operator to servers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError
from subord.client.folding import in_short
from subord.client.naming import names_for
from subord.client.text import count
from subord.core.carriage.engine.causes import DENIED
from subord.services.asking import missing_lines, ordered_nodes, shown_coverage
from subord.services.following import wrapped
from subord.services.machines.task import Drain, encode

DRAINED: Final = "no machine starts there; idle machines are stopped"
ROOT: Final = "root"
UNDONE: Final = "machines may start there again"


def run(arguments: argparse.Namespace) -> int:
    """Prints what came of it, and the coverage; OK if every server has done it. Raises CommandError."""
    if not arguments.nodes and not arguments.all:
        text = "say which servers: subord machines drain NODES, or --all; nothing was changed"
        raise CommandError(text, exit_codes.USAGE)
    payload = encode(Drain(is_drained=not arguments.undo))
    found = ordered_nodes(arguments, "machines", payload, "/v1/machines/cluster")
    names = names_for(arguments, found)
    lines = lines_of(found, names, UNDONE if arguments.undo else DRAINED, arguments.user)
    code = shown_coverage(arguments, found, lines)
    is_done = not found["unread"] and not any(each["fault"] for each in found["results"])
    return code if is_done else exit_codes.NOT_REACHED


def lines_of(found: Document, names: Mapping[str, str], done: str, user: str) -> Iterator[str]:
    """What is printed of an OrderedDocument. `user`: as which the order was given."""
    for each in found["results"]:
        nodes = in_short([names.get(one, one) for one in each["addresses"]], total=each["nodes"])
        yield from wrapped(f"{nodes}: {each['fault'] or done}", "")
    for text in missing_lines(found):
        yield from wrapped(text, "")
    if user != ROOT and any(each["cause"] == DENIED for each in found["missing"]):
        yield f"a server is drained as {ROOT} only: leave out --user {user}"
    if found["unread"]:
        yield f"the answers of {count(found['unread'], 'node')} cannot be read: they are of another release"
