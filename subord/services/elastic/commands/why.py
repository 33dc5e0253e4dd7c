"""`subord elastic why`: the last decision in sentences: why nodes are added or not, and why each node stays."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import count
from subord.runtime.elastic.state import MANAGES
from subord.services.asking import asked_root, shown_coverage, shown_document
from subord.services.elastic.commands.layout import (
    heading,
    is_in_force,
    seen_lines,
    silent_line,
)
from subord.services.elastic.commands.status import moving_lines
from subord.services.following import state_lines, wrapped


def run(arguments: argparse.Namespace) -> int:
    """Prints the sentences, and the coverage; OK if the queue's node has told them. Raises CommandError."""
    found = asked_root(arguments, "elastic/manager")
    names = names_for(arguments, found)
    return shown_by_manager(arguments, found, lines_of(found, names))


def shown_by_manager(arguments: argparse.Namespace, found: Document, lines: Iterator[str]) -> int:
    """`shown_coverage` of an answer of the queue's node alone; without a plan in force no node was asked."""
    if not is_in_force(found["plan"]) and not arguments.json:
        return shown_document(arguments, found, lines)
    code, growth = shown_coverage(arguments, found, lines), found["growth"]
    manages = growth is not None and growth["state"] == MANAGES
    return exit_codes.NOT_REACHED if is_in_force(found["plan"]) and not manages else code


def lines_of(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is printed of an ElasticDocument."""
    yield heading(found["plan"], names)
    growth = found["growth"]
    if growth is None:
        yield from told_lines(found, names)
        return
    yield from state_lines(growth, MANAGES)
    yield from seen_lines(growth)
    if growth["why"]:
        yield "decided:"
    elif growth["poll_age_s"] is not None:
        yield "nothing is decided yet"
    for each in growth["why"]:
        yield from wrapped(each)
    if growth["why_left_out"]:
        yield f"  {count(growth['why_left_out'], 'reason')} more had no room in the answer"
    yield from moving_lines(growth)


def told_lines(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """Of a queue's node that has told nothing, what state it is in."""
    if not is_in_force(found["plan"]):
        return
    yield silent_line(found, names)
    for each in found["states"]:
        detail = f": {each['detail']}" if each["detail"] else ""
        yield from wrapped(f"{each['text']}{detail}")
    if found["unread"]:
        yield "  its answer cannot be read: it is of another release"
