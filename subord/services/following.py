"""A document that an operator has published, and how nodes follow it, as `subord NAME status` prints it.

Input is the issuer's document: `states`, each with its nodes, and `unread`; outputs are lines. Of a node that follows
only what is odd is printed; of another one also why, and which version it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Final

from subord.client.daemon import Document
from subord.client.folding import in_short
from subord.client.text import columns, count

WIDTH: Final = 100


def published_line(found: Document, what: str, would: str = "") -> str:
    """`version 3 published by ann at 2026-11-26 10:30:00 UTC: ` and `what` it says. `found`: a PlanDocument."""
    by = f" by {found['principal']}" if found["principal"] else ""
    at = f" at {found['time'][:19].replace('T', ' ')} UTC" if found["time"] else ""
    return f"version {found['version']} {would}published{by}{at}: {what}"


def conflict_line(what: str) -> str:
    """Of a `plan` or another document."""
    return f"another {what} was published with the same version, and does not count: publish again"


def lines_of_states(found: Document, names: Mapping[str, str], what: str) -> Iterator[str]:
    """`found`: with `plan`, whose version counts. `what`: a word for it, such as `plan`."""
    states, version = found["states"], found["plan"]["version"]
    rows = [(each["state"], str(each["nodes"]), nodes_of(each, names)) for each in states]
    head, *lines = columns([("state", "nodes", ""), *rows], right=(1,))
    if rows:
        yield head
    for line, each in zip(lines, states, strict=True):
        yield line
        for text in _reasons(each, version, what):
            yield from wrapped(text)
    lagging = [each for each in states if not each["follows"]]
    if lagging:
        number = sum(each["nodes"] for each in lagging)
        words = ", ".join(dict.fromkeys(each["state"] for each in lagging))
        yield f"{count(number, 'node')} {'does' if number == 1 else 'do'} not follow the {what}: {words}"
    if found["unread"]:
        yield f"the answers of {count(found['unread'], 'node')} cannot be read: they are of another release"


def nodes_of(state: Document, names: Mapping[str, str]) -> str:
    """`10.0.0.[3,7-9] and 20 more`."""
    return in_short([names.get(each, each) for each in state["addresses"]], total=state["nodes"])


def _reasons(state: Document, version: int, what: str) -> Iterator[str]:
    if not state["follows"]:
        detail = f": {state['detail']}" if state["detail"] else ""
        yield f"{state['text']}{detail}"
        if state["version"] != version:
            theirs = f"version {state['version']}" if state["version"] else "no version"
            yield f"{theirs} of the {what} is there, not version {version}"
    elif state["detail"]:
        yield state["detail"]
    yield from state.get("notes", ())


def state_lines(found: Document, deciding: str) -> Iterator[str]:
    """Of the node that is to decide, if it does not just now: what it has told before is old. `deciding`: the state
    in which it does."""
    if found["state"] != deciding:
        detail = f": {found['detail']}" if found["detail"] else ""
        yield from wrapped(f"{found['state']}: {found['text']}{detail}; what follows is from before", "")
    elif found["detail"]:
        yield from wrapped(found["detail"], "")


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """Lines of a sentence; those after the first are indented."""
    return wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent or "  ")
