"""`subord shares status`: what each class gets and uses, by branch of the root, and how the nodes follow."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, columns, count
from subord.services.asking import asked_nodes, shown_coverage
from subord.services.following import lines_of_states
from subord.services.shares.commands.layout import CONFLICT, heading, of_branch, one_digit, plan_lines, yes

WIDTH: Final = 100
CLASS_HEAD: Final = ("class", "wanted", "got", "used", "needy")
BRANCH_HEAD: Final = ("branch", "nodes", "age", "class", "row", "got", "used", "needy")


def run(arguments: argparse.Namespace) -> int:
    """Prints the tables, and the coverage; OK if every node has answered and follows. Raises CommandError."""
    found = asked_nodes(arguments, "shares")
    names = names_for(arguments, found)
    code = shown_coverage(arguments, found, lines_of(found, names, is_whole=not arguments.nodes))
    return code if _is_settled(found) else exit_codes.NOT_REACHED


def _is_settled(found: Document) -> bool:
    """All that have answered follow the document, and all nodes of the tree have part in the decisions."""
    tree = found["tree"]
    follow = all(each["follows"] for each in found["states"]) and not found["unread"]
    return follow and (tree is None or tree["told"] == tree["asked"])


def lines_of(found: Document, names: Mapping[str, str], *, is_whole: bool) -> Iterator[str]:
    """What is printed of a SharesDocument. `is_whole`: all nodes were asked."""
    plan, tree = found["plan"], found["tree"]
    if tree is None:
        yield from plan_lines(plan)
    else:
        yield heading(plan)
        yield from columns([CLASS_HEAD, *map(_class_cells, tree["classes"])], right=range(1, 4))
        if plan["conflict"]:
            yield CONFLICT
        yield from _branches(tree, names)
    if tree is None and plan["classes"] and is_whole:
        yield "what each class has got is not known: the root has not told it"
    yield from lines_of_states(found, names, "document")


def _class_cells(each: Document) -> tuple[str, ...]:
    wanted = "-" if each["wanted"] is None else f"{each['wanted']:g}"
    return each["name"], wanted, one_digit(each["allocation"]), one_digit(each["usage"]), yes(each["needy"])


# -- branches -------------------------------------------------------------------------------------------------------


def _branches(tree: Document, names: Mapping[str, str]) -> Iterator[str]:
    rows = [row for each in tree["branches"] for row in _branch_rows(each, names)]
    if rows:
        yield from columns([BRANCH_HEAD, *rows], right=(1, 2, 4, 5, 6))
    if tree["more_branches"]:
        yield f"branches that had no room in the answer: {tree['more_branches']}"
    for each in tree["left_out"]:
        alone = " alone" if each["address"] == tree["root"] else ""
        whom = f"{of_branch(each['address'], each['nodes'], names)}{alone}, {count(each['nodes'], 'node')}"
        yield from wrap(f"left out: {whom}: it {each['text']}", WIDTH, subsequent_indent="  ")
    if tree["more_left_out"]:
        yield f"left out: {tree['more_left_out']} more branches, which had no room in the answer"
    if tree["asked"] > 1:
        yield _decisions(tree, names)
    if tree["told"] < tree["asked"]:
        number = tree["asked"] - tree["told"]
        verb = "has" if number == 1 else "have"
        yield f"{count(number, 'node')} {verb} no part in the decisions; `subord shares why NODE` says why"


def _branch_rows(branch: Document, names: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """One for each class; the first one names the branch."""
    title = of_branch(branch["address"], branch["nodes"], names) + (" alone" if branch["alone"] else "")
    nodes = str(branch["nodes"])
    if branch["said_nodes"] != branch["nodes"]:
        nodes = f"{nodes} (says {branch['said_nodes']})"
    head: tuple[str, ...] = (title, nodes, age(branch["age_s"]))
    for each in branch["classes"]:
        shares = (one_digit(each[key]) for key in ("wanted", "allocation", "usage"))
        yield (*head, each["name"], *shares, yes(each["needy"]))
        head = ("", "", "")


def _decisions(tree: Document, names: Mapping[str, str]) -> str:
    root = _name(tree["root"], names)
    if tree["undecided"]:
        return f"{root} (root) has found no shares in the last round: {tree['undecided']}"
    if tree["decided_s"] is None:
        return f"{root} (root) has decided nothing yet: no branch below it has reported"
    covers = f"{tree['told']} of {count(tree['asked'], 'node')}"
    return f"{root} (root) has decided {age(tree['decided_s'])} ago for {covers}"


def _name(address: str, names: Mapping[str, str]) -> str:
    return names.get(address, address)
