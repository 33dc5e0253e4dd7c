"""`subord why`: the candidates of a node, the last answer of each, and the reason for its leader."""

from __future__ import annotations

import argparse
import json
from urllib.parse import quote

from subord.client import exit_codes
from subord.client.daemon import Document, SilentError, asked
from subord.client.errors import CommandError
from subord.client.naming import names_for, renamed, with_address
from subord.client.options import add_asking, add_json, add_names
from subord.client.ranking import ranking_lines
from subord.client.text import age, columns, printable

NO_ANSWER = " does not answer"
"""In the sentence of every release's daemon about a node that is silent."""
TITLES = ("first candidates, nearest first", "no node has a lower position")
TITLES_RANKED = ("first candidates, best first", "no node is known to rank lower")


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "why",
        help="explain why a node has its leader",
        description="Show the ranked candidates of a node, the last answer of each, and why the present leader "
        "was chosen; with the mappings performance and latency also the measured numbers. Other nodes are asked over "
        "the network.",
    )
    parser.add_argument("node", metavar="NODE", nargs="?", help="the node, by name or address (default: this one)")
    add_json(parser)
    add_names(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the reasons of one node."""
    reasons = asked(arguments, "/v1/why") if arguments.node is None else _of_node(arguments)
    names = names_for(arguments, reasons)
    print(json.dumps(renamed(reasons, names)) if arguments.json else "\n".join(text(reasons, names)))
    return exit_codes.OK


def _of_node(arguments: argparse.Namespace) -> Document:
    """Raises `CommandError`; for a node without an answer with what the root knows of it."""
    from subord.client.node_sets.choice import chosen_one

    address = chosen_one(arguments, arguments.node)
    try:
        return asked(arguments, f"/v1/why?address={quote(address, safe='')}")
    except SilentError:
        raise
    except CommandError as error:
        if NO_ANSWER not in str(error):
            raise
        from subord.client.absent_node import not_shown

        raise not_shown(arguments, address, "does not answer", "no reasons are shown") from None


def text(reasons: Document, names: dict[str, str] | None = None) -> list[str]:
    """The lines for display, with `names` for addresses."""
    address = with_address(reasons["address"], names or {})
    reasons = renamed(reasons, names or {})
    lines = [f"{address}  {_standing(reasons)}", f"  {printable(reasons['reason'])}"]
    if reasons.get("maintenance"):  # missing in answers of older daemons
        lines.append(f"  under maintenance: {printable(reasons['maintenance'])}")
    ranking = reasons.get("ranking")  # missing in answers of older daemons
    if ranking is not None:
        lines += ranking_lines(ranking, reasons["leader"])
    first, without = TITLES if ranking is None else TITLES_RANKED
    for title, key in ((first, "candidates"), ("asked besides them", "others")):
        if reasons[key]:
            header = ["", "address", "position", "level", "offset", "last answer"]
            rows = [header, *(_candidate(each, reasons["leader"]) for each in reasons[key])]
            lines += ["", f"{title}:", *columns(rows, " ")]
    if not reasons["candidates"]:
        lines += ["", f"there are no candidates: {without}"]
    return lines


def _standing(reasons: Document) -> str:
    if reasons["leader"] is None:
        return reasons["place"] or "has no place yet"
    return f"{reasons['place'] or 'no place yet'}, leader {reasons['leader']}"


def _candidate(each: Document, leader: str | None) -> list[str]:
    answer = "not asked" if each["answer"] is None else f"{printable(each['answer'])} ({age(each['ago_s'])} ago)"
    mark = "*" if each["address"] == leader else ""
    return [mark, each["address"], str(each["position"]), str(each["level"]), str(each["offset"]), answer]
