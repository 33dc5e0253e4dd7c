"""`subord tree`: the hierarchy of the whole cluster, asked from any node of it."""

from __future__ import annotations

import argparse
import json
import sys

from subord.api.nesting import nested
from subord.cli import exit_codes
from subord.cli.client import Document, add_timeout, ask
from subord.cli.control_socket import add_socket, socket_path
from subord.cli.draw import dot, picture, show, strokes_for
from subord.cli.errors import CommandError

TARGET = "/v1/tree?form=rows"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "tree",
        help="draw the hierarchy of the whole cluster",
        description="Draw the hierarchy of the whole cluster, from any of its nodes. Marked in words: guest, "
        "missing, stale (the one who reported it is silent just now), held (somebody above lost its leader).",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--dot", action="store_true", help="print a Graphviz digraph")
    parser.add_argument(
        "--depth", metavar="N", type=_depth, help="draw N levels below the top only; the rest is counted"
    )
    parser.add_argument("--from", metavar="ADDRESS", dest="top", help="draw only the branch of this node")
    parser.add_argument("--rtt", action="store_true", help="show the round trip of each node to its leader")
    parser.add_argument("--performance", action="store_true", help="show how fast each node is")
    add_timeout(parser)
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the tree; one that is incomplete says so, and is no failure."""
    path = socket_path(arguments)
    shows = tuple(name for name in ("rtt", "performance") if getattr(arguments, name))
    tree = ask(path, TARGET, arguments.timeout)
    rows: list[Document] = tree["rows"]
    if arguments.top is not None:
        rows = branch(rows, arguments.top)
    if arguments.json:
        print(nested_json(tree, _cut(rows, arguments.depth)))
    elif arguments.dot:
        print(dot(_cut(rows, arguments.depth), shows))
    else:
        show(picture(tree, rows, arguments.depth, strokes_for(sys.stdout), shows), sys.stdout)
    return exit_codes.OK


def branch(rows: list[Document], address: str) -> list[Document]:
    """The rows of one node and everybody below it. Raises `CommandError` if it is not there."""
    address = _canonical(address)
    first = next((index for index, row in enumerate(rows) if row["address"] == address), None)
    if first is None:
        raise CommandError(f"{address} is not in the tree: see `subord tree` for who is", exit_codes.NO_SUCH_NODE)
    end = first + 1
    while end < len(rows) and rows[end]["real_level"] > rows[first]["real_level"]:
        end += 1
    return rows[first:end]


def nested_json(tree: Document, rows: list[Document]) -> str:
    """The tree with the given rows (depth first, whole branches) put into one another."""
    head = json.dumps({key: value for key, value in tree.items() if key != "rows"})
    base = rows[0]["real_level"] if rows else 0
    return "".join(nested(head, ((row["real_level"] - base, json.dumps(row)) for row in rows)))


def _cut(rows: list[Document], depth_max: int | None) -> list[Document]:
    if depth_max is None or not rows:
        return rows
    base = rows[0]["real_level"]
    return [row for row in rows if row["real_level"] - base <= depth_max]


def _canonical(address: str) -> str:
    """The spelling that the daemon uses; only IPv6 has several."""
    if ":" not in address:
        return address
    from ipaddress import ip_address

    try:
        return str(ip_address(address))
    except ValueError:
        return address


def _depth(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number from 0, not {text!r}")
