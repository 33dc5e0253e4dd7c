"""`subord tree`: the hierarchy of the whole cluster, asked from any node of it."""

from __future__ import annotations

import argparse
import json
import sys

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.drawing import MARK_STYLES, cut, dot, picture, show, strokes_for
from subord.client.folding import in_short
from subord.client.naming import names_for, renamed
from subord.client.options import add_asking, add_colour, add_json, add_names, whole_number
from subord.client.tree_parts import branch, down, never_came


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "tree",
        help="draw the hierarchy of the whole cluster",
        description="Draw the hierarchy of the whole cluster, from any of its nodes. Marked in words: guest, "
        "stale (the node that reported it is silent just now), held (a node above lost its leader), and down: "
        "down (ended or vanished without goodbye; below its last leader).",
    )
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--dot", action="store_true", help="print a Graphviz digraph")
    parser.add_argument(
        "--depth", metavar="N", type=whole_number(), help="draw N levels below the top only; the rest is counted"
    )
    parser.add_argument("--from", metavar="NODE", dest="top", help="draw only the branch of this node")
    parser.add_argument(
        "--down",
        action="store_true",
        help="draw only nodes that are not up (down and stale), and the paths to them",
    )
    parser.add_argument(
        "--ghosts",
        action="store_true",
        help="also name the nodes that never joined, where the network is a list of nodes instead of whole blocks",
    )
    parser.add_argument("--rtt", action="store_true", help="show the round trip of each node to its leader")
    parser.add_argument("--performance", action="store_true", help="show how fast each node is")
    add_names(parser)
    add_colour(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the tree; an incomplete one has a note and is no failure."""
    shows = tuple(name for name in ("rtt", "performance") if getattr(arguments, name))
    tree = asked(arguments, "/v1/tree?form=rows")
    rows: list[Document] = tree["rows"]
    absent: list[str] | None = None
    if arguments.ghosts:
        absent = _never_came(arguments, tree)
    names = names_for(arguments, tree, rows, absent)
    tree, rows, absent = (renamed(each, names) for each in (tree, rows, absent))
    part: list[Document] = []
    if arguments.top is not None:
        from subord.client.node_sets.choice import chosen_one

        top = chosen_one(arguments, arguments.top)
        rows = part = branch(rows, names.get(top, top))
        if not part:
            from subord.client.absent_node import not_shown

            raise not_shown(arguments, top, "is not in the tree just now", "nothing is drawn")
    if arguments.down:
        rows = down(rows)
    shown = [row for row, _ in cut(rows, arguments.depth)]
    if arguments.json:
        print(nested_json({**tree, "never_came": absent} if arguments.ghosts else tree, shown))
    elif arguments.dot:
        print(dot(shown, shows))
    else:
        lines = picture(tree, rows, arguments.depth, strokes_for(sys.stdout), shows, branch=part)
        if arguments.down and not rows:
            lines.append([("all of these are up" if tree["note"] else "all are up", "")])
        if absent:
            lines.append([(f"never came: {in_short(absent)}", MARK_STYLES["gone"])])
        show(lines, sys.stdout, is_plain=arguments.no_color)
    return exit_codes.OK


def _never_came(arguments: argparse.Namespace, tree: Document) -> list[str] | None:
    """The listed nodes that never joined; None: not known."""
    found = asked(arguments, "/v1/members")
    settings = asked(arguments, "/v1/status")["settings"]
    if not tree["note"]:
        tree["note"] = found["note"]
    # A node that joined after the tree was asked for, or that only this daemon knows, did join.
    there = [*tree["rows"], *found["members"]]
    return never_came(settings["network"], settings["positions"], there) if found["complete"] else None


def nested_json(tree: Document, rows: list[Document]) -> str:
    """The tree as nested JSON, with the given rows (depth first, whole branches)."""
    from subord.api.models.nesting import nested

    head = json.dumps({key: value for key, value in tree.items() if key != "rows"})
    base = rows[0]["real_level"] if rows else 0
    return "".join(nested(head, ((row["real_level"] - base, json.dumps(row)) for row in rows)))
