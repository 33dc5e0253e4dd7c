"""`subord tree`: the hierarchy of the whole cluster, asked from any node of it."""

from __future__ import annotations

import argparse
import json
import sys

from subord.api.models.nesting import nested
from subord.client import exit_codes
from subord.client.control_socket import socket_path
from subord.client.daemon import Document, ask
from subord.client.drawing import MARK_STYLES, Line, dot, picture, show, strokes_for
from subord.client.errors import CommandError
from subord.client.folding import in_short
from subord.client.missing_nodes import down, never_came, with_gone
from subord.client.naming import add_names, names_for, renamed
from subord.client.options import add_asking, add_colour, whole_number

TARGET = "/v1/tree?form=rows"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "tree",
        help="draw the hierarchy of the whole cluster",
        description="Draw the hierarchy of the whole cluster, from any of its nodes. Marked in words: guest, "
        "missing (vanished without goodbye, as its leader reports), stale (the node that reported it is silent just "
        "now), held (a node above lost its leader), and with --ghosts gone (has no leader).",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--dot", action="store_true", help="print a Graphviz digraph")
    parser.add_argument(
        "--depth", metavar="N", type=whole_number, help="draw N levels below the top only; the rest is counted"
    )
    parser.add_argument("--from", metavar="ADDRESS", dest="top", help="draw only the branch of this node")
    parser.add_argument(
        "--down",
        action="store_true",
        help="draw only nodes that are not up (missing, stale, and with --ghosts gone), and the paths to them",
    )
    parser.add_argument(
        "--ghosts",
        action="store_true",
        help="also draw gone nodes where they last were; and where the network is a list of nodes instead of whole "
        "blocks, name the nodes that never joined",
    )
    parser.add_argument("--rtt", action="store_true", help="show the round trip of each node to its leader")
    parser.add_argument("--performance", action="store_true", help="show how fast each node is")
    add_names(parser)
    add_colour(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the tree; an incomplete one has a note and is no failure."""
    path = socket_path(arguments)
    shows = tuple(name for name in ("rtt", "performance") if getattr(arguments, name))
    tree = ask(path, TARGET, arguments.timeout)
    rows: list[Document] = tree["rows"]
    absent: list[str] | None = None
    if arguments.ghosts:
        rows, absent = _with_gone_nodes(path, tree, arguments.timeout)
    names = names_for(path, arguments, arguments.timeout)
    tree, rows, absent = (renamed(each, names) for each in (tree, rows, absent))
    if arguments.top is not None:
        rows = branch(rows, names.get(_canonical(arguments.top), arguments.top))
    if arguments.down:
        rows = down(rows)
    if arguments.json:
        head = {**tree, "never_came": absent} if arguments.ghosts else tree
        print(nested_json(head, _cut(rows, arguments.depth)))
    elif arguments.dot:
        print(dot(_cut(rows, arguments.depth), shows))
    else:
        lines = picture(tree, rows, arguments.depth, strokes_for(sys.stdout), shows)
        if arguments.down and not rows:
            lines.append([(_all_up(tree, arguments.ghosts), "")])
        lines += _absent(absent)
        show(lines, sys.stdout, is_plain=arguments.no_color)
    return exit_codes.OK


def _with_gone_nodes(path: str, tree: Document, timeout_s: float) -> tuple[list[Document], list[str] | None]:
    """The rows with the gone nodes; and the nodes that never joined, None: not known."""
    found = ask(path, "/v1/members", timeout_s)
    settings = ask(path, "/v1/status", timeout_s)["settings"]
    if not tree["note"]:
        tree["note"] = found["note"]
    # A node that joined after the tree was asked for, or that only this daemon knows, did join.
    there = [*tree["rows"], *found["members"]]
    absent = never_came(settings["network"], settings["positions"], there) if found["complete"] else None
    return with_gone(tree["rows"], found["members"]), absent


def _all_up(tree: Document, has_gone: bool) -> str:
    """A root that died is in no tree, only among the gone nodes."""
    which = "all of these" if tree["note"] or not has_gone else "all"
    return f"{which} are up" + ("" if has_gone else "; gone nodes are drawn with --ghosts")


def _absent(addresses: list[str] | None) -> list[Line]:
    if not addresses:
        return []
    return [[(f"never came: {in_short(addresses)}", MARK_STYLES["gone"])]]


def branch(rows: list[Document], address: str) -> list[Document]:
    """The rows of one node and all below it. Raises `CommandError` if it is not there."""
    address = _canonical(address)
    first = next((index for index, row in enumerate(rows) if row["address"] == address), None)
    if first is None:
        raise CommandError(f"{address} is not in the tree: see `subord tree`", exit_codes.NO_SUCH_NODE)
    end = first + 1
    while end < len(rows) and rows[end]["real_level"] > rows[first]["real_level"]:
        end += 1
    return rows[first:end]


def nested_json(tree: Document, rows: list[Document]) -> str:
    """The tree as nested JSON, with the given rows (depth first, whole branches)."""
    head = json.dumps({key: value for key, value in tree.items() if key != "rows"})
    base = rows[0]["real_level"] if rows else 0
    return "".join(nested(head, ((row["real_level"] - base, json.dumps(row)) for row in rows)))


def _cut(rows: list[Document], depth_max: int | None) -> list[Document]:
    if depth_max is None or not rows:
        return rows
    base = rows[0]["real_level"]
    return [row for row in rows if row["real_level"] - base <= depth_max]


def _canonical(address: str) -> str:
    """The spelling of the daemon; only IPv6 addresses have several."""
    if ":" not in address:
        return address
    from ipaddress import ip_address

    try:
        return str(ip_address(address))
    except ValueError:
        return address
