"""`subord why`: the candidates of a node, the last answer of each, and the reason for its leader."""

from __future__ import annotations

import argparse
import json
from urllib.parse import quote

from subord.client import exit_codes
from subord.client.control_socket import add_socket, socket_path
from subord.client.daemon import Document, add_timeout, ask
from subord.client.ranking import ranking_lines
from subord.client.text import age, columns, printable

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
    parser.add_argument("address", metavar="ADDRESS", nargs="?", help="the node (default: this one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_timeout(parser)
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the reasons of one node."""
    target = "/v1/why"
    if arguments.address is not None:
        target += f"?address={quote(arguments.address, safe='')}"
    reasons = ask(socket_path(arguments), target, arguments.timeout)
    print(json.dumps(reasons) if arguments.json else "\n".join(text(reasons)))
    return exit_codes.OK


def text(reasons: Document) -> list[str]:
    """The lines for display."""
    lines = [f"{reasons['address']}  {_standing(reasons)}", f"  {printable(reasons['reason'])}"]
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
