"""`subord shares why`: the row that a node obeys, and how each leader above it has found it, step by step."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Final
from urllib.parse import urlencode

from subord.client.daemon import DAEMON_GRACE_S, Document, ask
from subord.client.naming import names_for
from subord.client.options import socket_path
from subord.client.text import age, columns, count
from subord.services.asking import DAEMON_BUDGET_S_MAX, name_missing, shown_coverage
from subord.services.shares.bank import ADJUSTMENT
from subord.services.shares.commands.layout import of_branch, one_digit, yes
from subord.services.shares.commands.status import WIDTH

STEPS: Final[Mapping[str, str]] = {
    "deposit": "unused tickets of a class without waiting work, put into the bank",
    "want": f"what the class has used, and at most {ADJUSTMENT:g} more if work was left over, else as much less",
    "correction": "subtracted from the over-allocated, or added to the needy and under-allocated",
    "withdrawal": "withdrawn from the bank by a class that is still over; below 0: deposited by one under",
    "reward": "given to the needy branches out of the bank",
    "solution": "of the programs of cluster reserves",
    "share": "the row: all classes together normalized to 100",
}
"""The steps of the policies, mostly in the words of the paper (bank.py, reserves.py)."""
COLUMNS: Final[Mapping[str, str]] = {
    "wanted": "over all nodes of the leader's branch, now; the decision may be older",
    "got, used": "by the last report of this branch, the mean of its nodes",
    "needy": "work was left over at the end of the round",
}
HEAD: Final = ("class", "wanted", "got", "used", "needy")
SHARE: Final = "share"
NOTICED: Final = 0.05
"""Tickets; less is not shown."""


def run(arguments: argparse.Namespace) -> int:
    """Prints the reasons, and the coverage; OK if it is whole. Raises CommandError."""
    from subord.client.node_sets.choice import chosen_one

    address = chosen_one(arguments, arguments.node)
    budget_s = min(arguments.timeout, DAEMON_BUDGET_S_MAX)
    target = f"/v1/shares/why?{urlencode({'node': address, 'budget': f'{budget_s:.3f}'})}"
    found = ask(socket_path(arguments), target, arguments.timeout + DAEMON_GRACE_S)
    names = names_for(arguments, found)
    name_missing(found, names)
    return shown_coverage(arguments, found, lines_of(found, names))


def lines_of(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is printed of a WhyDocument."""
    if found["node"] is None:
        return
    yield from _node(found["node"], names)
    for leader in found["leaders"]:
        yield from _leader(leader, names)
    used = dict.fromkeys(word for each in found["leaders"] for cell in each["classes"] for word in cell["totals"])
    known = [(word, STEPS[word]) for word in used if word in STEPS]
    if known:
        yield "in tickets, hundredths of a node:"
        yield from columns([*COLUMNS.items(), *known], indent="  ")


def _node(node: Document, names: Mapping[str, str]) -> Iterator[str]:
    version = f"version {node['version']}" if node["version"] else "no version"
    yield f"{names.get(node['address'], node['address'])}: {node['state']}, {version} of the document"
    detail = f": {node['detail']}" if node["detail"] else ""
    yield from _wrapped(f"{node['text']}{detail}")
    for each in node["notes"]:
        yield from _wrapped(each)
    if not node["obeyed"]:
        return
    total = sum(each["tickets"] for each in node["obeyed"])
    tickets = ", ".join(f"{each['name']} {each['tickets']}" for each in node["obeyed"])
    yield from _wrapped(f"its row, of {total} tickets: {tickets}")
    row = "" if node["row_age_s"] is None else f"; the last row came {age(node['row_age_s'])} ago"
    yield from _wrapped(f"it divides {node['wanted_text']}{row}")


def _leader(leader: Document, names: Mapping[str, str]) -> Iterator[str]:
    """The decision of one leader for one branch."""
    name, is_alone = names.get(leader["address"], leader["address"]), leader["address"] == leader["about"]
    whom = "itself" if is_alone else of_branch(leader["about"], leader["nodes"], names)
    if leader["cause"] is not None:
        yield f"{name}, for {whom}: no answer: {leader['cause']}"
        yield from _wrapped(leader["text"])
        return
    version = f"version {leader['version']}" if leader["version"] else "no version"
    yield f"{name}, for {whom}: {_decided(leader)}"
    yield from _wrapped(f"it divides {leader['wanted_text']}, {version}" if leader["wanted_text"] else version)
    if leader["undecided"]:
        yield from _wrapped(f"no shares in the last round, so those before stay: {leader['undecided']}")
    if leader["left_out"]:
        yield from _wrapped(f"this branch has no part in its decisions: it {leader['left_out']}")
    if not leader["left_out"] or any(each["row"] is not None for each in leader["classes"]):
        yield from _table(leader["classes"])


def _decided(leader: Document) -> str:
    if leader["decided_s"] is None:
        return "nothing is decided"
    covers = f"{leader['told']} of {count(leader['asked'], 'node')}"
    branches = f"{leader['branches']} branches" if leader["branches"] != 1 else "1 branch"
    return f"decided {age(leader['decided_s'])} ago, for {branches} with {covers}"


def _table(classes: list[Document]) -> Iterator[str]:
    """A row for each class; the columns are what it is made of, and the steps."""
    words = list(dict.fromkeys(word for each in classes for word in each["steps"]))
    rows = [(*HEAD, *words, *(() if SHARE in words else ("row",)))]
    rows += [_cells(each, words) for each in classes]
    yield from columns(rows, indent="  ", right=[*range(1, 4), *range(len(HEAD), len(rows[0]))])
    alone = dict.fromkeys(word for each in classes for word in each["totals"] if word not in words)
    for word in alone:
        totals = [(each["name"], each["totals"].get(word, 0.0)) for each in classes]
        shown = ", ".join(f"{name} {one_digit(total)}" for name, total in totals if abs(total) >= NOTICED)
        yield from _wrapped(f"{word}, of all branches together: {shown or 'none'}")


def _cells(each: Document, words: list[str]) -> tuple[str, ...]:
    numbers = tuple(one_digit(each[key]) for key in ("wanted", "allocation", "usage"))
    steps = tuple(one_digit(each["steps"].get(word)) for word in words)
    row = () if SHARE in words else (one_digit(each["row"]),)
    return (each["name"], *numbers, yes(each["needy"]), *steps, *row)


def _wrapped(text: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
