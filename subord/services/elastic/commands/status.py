"""`subord elastic status`: the queue, the size of the cluster, what is added and removed, and how nodes follow."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, columns, count
from subord.runtime.elastic.state import MANAGES
from subord.services.asking import asked_nodes, asked_root, shown_coverage
from subord.services.elastic.commands.layout import (
    CONFLICT,
    heading,
    is_in_force,
    seen_lines,
    silent_line,
)
from subord.services.elastic.stages import Stage
from subord.services.following import lines_of_states, nodes_of, state_lines, wrapped

MOVING_HEAD: Final = ("node", "stage", "since")
DECIDED_MAX: Final = 3
"""Sentences of the last decision on one screen."""


def run(arguments: argparse.Namespace) -> int:
    """Prints the screen, and the coverage; OK if every node has answered and follows. Raises CommandError."""
    found = asked_nodes(arguments, "elastic")
    if arguments.nodes and found["growth"] is None and is_in_force(found["plan"]):
        found["growth"] = asked_root(arguments, "elastic/manager")["growth"]
    names = names_for(arguments, found)
    code = shown_coverage(arguments, found, lines_of(found, names))
    return code if _is_settled(found) else exit_codes.NOT_REACHED


def _is_settled(found: Document) -> bool:
    """All that have answered follow the plan, and the queue's node can be seen."""
    follow = all(each["follows"] for each in found["states"]) and not found["unread"]
    return follow and (found["growth"] is not None or not is_in_force(found["plan"]))


def lines_of(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is printed of an ElasticDocument."""
    plan, growth = found["plan"], found["growth"]
    yield heading(plan, names)
    if plan["conflict"]:
        yield CONFLICT
    if growth is not None:
        yield from _growth(growth)
    elif is_in_force(plan):
        yield silent_line(found, names)
    else:
        yield from _queues(found, names)
    yield from lines_of_states(found, names, "plan")


def _growth(growth: Document) -> Iterator[str]:
    yield from state_lines(growth, MANAGES)
    yield from seen_lines(growth)
    for each in growth["why"][:DECIDED_MAX]:
        yield from wrapped(f"decided: {each}", "")
    if len(growth["why"]) > DECIDED_MAX:
        yield "more reasons: `subord elastic why`"
    if growth["blocked_s"] is not None:
        yield f"nodes are wanted, and for {age(growth['blocked_s'])} none could be added"
    yield from moving_lines(growth)
    totals = [f"{growth[word]} {word}" for word in ("added", "removed", "undone") if growth[word]]
    if totals:
        yield f"nodes in all: {', '.join(totals)}"


def moving_lines(growth: Document) -> Iterator[str]:
    """Nodes that are being added or removed, and nodes with a fault."""
    moving = [each for each in growth["nodes"] if each["stage"] not in ("", Stage.SERVING) or each["fault"]]
    rows = [(each["name"], each["stage"] or "-", _since(each)) for each in moving]
    if not rows:
        return
    head, *lines = columns([MOVING_HEAD, *rows])
    yield head
    for line, each in zip(lines, moving, strict=True):
        yield line
        yield from fault_lines(each)


def fault_lines(node: Document) -> list[str]:
    """Why the work of its stage has failed."""
    if not node["fault"]:
        return []
    tries = f"{count(node['tries'], 'time')}: " if node["tries"] else ""
    return wrapped(f"failed {tries}{node['fault']}" if tries else node["fault"])


def _since(node: Document) -> str:
    return "-" if node["since_s"] is None else age(node["since_s"])


def _queues(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """Without a plan in force: which nodes could manage the cluster."""
    for each in found["queues"]:
        kinds = f", kinds {', '.join(each['kinds'])}" if each["kinds"] else ""
        yield f"elastic.batch is configured on {nodes_of(each, names)}: {each['batch']}{kinds}"
