"""`subord forget`: nodes that are down will not return, or other hosts take their addresses, and all nodes shall
know it. The operator signs it.
"""

from __future__ import annotations

import argparse
import json
import time

from subord.client import exit_codes
from subord.client.daemon import Document, ask, asked
from subord.client.errors import CommandError
from subord.client.folding import in_short
from subord.client.member_choice import chosen_places, operator, positions_text, printable_reason
from subord.client.naming import names_for, renamed
from subord.client.options import add_asking, add_json, add_names, add_nodes, socket_path
from subord.client.orders import order, statement
from subord.client.orders.signing import add_key_option
from subord.client.text import count, printable

WAIT_S = 5.0
POLL_S = 0.2
DOWN = ("gone", "missing")


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "forget",
        help="say that nodes that are down will not return",
        description="Say that nodes that are down are no longer expected. All nodes forget them and no longer count "
        "them as down. A node that returns is a member again. No key is pinned to their addresses any more, so "
        "other hosts may take them; for this, also nodes that said goodbye can be forgotten. A node that is up is "
        "never forgotten: stop it first.",
        epilog="every node keeps the reason for 30 days, so that nodes that are away learn of it, too; `subord "
        "members --forgotten` shows it",
    )
    add_nodes(parser, "the nodes", "+")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why, for other operators")
    add_key_option(parser)
    add_json(parser)
    add_names(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Says it at this node, and waits until the root has written it into the register."""
    path, members = socket_path(arguments), _members(arguments)
    nodes = chosen_places(arguments, arguments.nodes)
    standings = {each["address"]: each["standing"] for each in members}
    names = names_for(arguments, nodes)
    up = [each["address"] for each in nodes if standings.get(each["address"], "gone") not in DOWN]
    if up:
        raise CommandError(f"not down, so not forgotten: {in_short(up)}; nothing was changed", exit_codes.USAGE)
    parts = {
        "nodes": [each for each in nodes if each["address"] in standings],
        "absent": [each for each in nodes if each["address"] not in standings],
    }
    query = {name: positions_text(part) for name, part in parts.items() if part}
    query |= {"reason": printable_reason(arguments), "by": operator()}
    said = renamed(statement(order(arguments, {"action": "forget", **query})), names)
    is_done = _is_done(path, {each["address"] for each in nodes})
    if arguments.json:
        print(json.dumps({**said, "confirmed": is_done}))
    else:
        words = "" if is_done else "; said on this node, and not confirmed by a root yet: see `subord members`"
        print(f"{count(said['nodes'], 'node')} forgotten: {in_short(said['addresses'], total=said['nodes'])}{words}")
    return exit_codes.OK if is_done else exit_codes.NOT_REACHED


def _members(arguments: argparse.Namespace) -> list[Document]:
    """All members. Raises CommandError if they are not known: a node that is up and not listed is no absent one."""
    found = asked(arguments, "/v1/members")
    if not found["complete"]:
        why = printable(found["note"] or "the root was not asked")
        raise CommandError(f"not all members are known just now: {why}; nothing was changed", exit_codes.TRY_AGAIN)
    rows: list[Document] = found["members"]
    return rows


def _is_done(path: str, nodes: set[str]) -> bool:
    """Whether none of these nodes is listed as down any more, within WAIT_S. One that was only kept out by the key
    that is now pinned no longer may be a member again before this looks.
    """
    until = time.monotonic() + WAIT_S
    while True:
        found: Document = ask(path, "/v1/members")
        if not nodes & {each["address"] for each in found["members"] if each["standing"] in DOWN}:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_S)
