"""`subord maintain`: nodes are under maintenance, and all nodes shall know it. The operator signs it."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from datetime import datetime

from subord.client import exit_codes
from subord.client.daemon import asked
from subord.client.drawing import show
from subord.client.errors import CommandError
from subord.client.folding import in_short
from subord.client.member_choice import chosen, chosen_places, operator, positions_text, printable_reason
from subord.client.naming import names_for, renamed
from subord.client.options import add_asking, add_colour, add_json, add_names, add_nodes
from subord.client.orders import order, statement
from subord.client.orders.signing import add_key_option
from subord.client.text import count

DURATION = re.compile(r"([0-9]{1,6})([smhd])")
UNTIL_S_MAX = 366 * 86_400
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "maintain",
        help="say that nodes are under maintenance, or no longer; list all maintenances",
        description="Without nodes, list all maintenances with their reasons and operators. With nodes, say that "
        "they are under maintenance: this is shown everywhere, and while it lasts they cause neither problems in "
        "`subord errors` nor alerts. It survives restarts of all daemons. Nodes that are down can be under "
        "maintenance, too.",
    )
    add_nodes(parser, "the nodes")
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--reason", metavar="TEXT", help="why; it is shown beside the nodes")
    given.add_argument(
        "--end", action="store_true", help="the maintenance of these nodes is over; they need be no members"
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        type=_until,
        help="end by itself after 30m, 2h or 3d, or at a time such as 2026-12-24T08:00 in the time zone of this host",
    )
    add_key_option(parser)
    add_json(parser)
    add_names(parser)
    add_colour(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Says it at this node, from which it travels to all; without nodes lists what was said."""
    _check(arguments)
    if not arguments.nodes:
        return _list(arguments)
    if arguments.end:
        nodes = chosen_places(arguments, arguments.nodes)
    else:
        nodes = chosen(arguments, arguments.nodes, asked(arguments, "/v1/members")["members"])
    names = names_for(arguments, nodes)
    query = {"nodes": positions_text(nodes), "by": operator()}
    action = "resume" if arguments.end else "maintain"
    if not arguments.end:
        query["reason"] = printable_reason(arguments)
        if arguments.until is not None:
            query["until"] = str(arguments.until)
    said = renamed(statement(order(arguments, {"action": action, **query})), names)
    if arguments.json:
        print(json.dumps(said))
    else:
        words = "no longer under maintenance" if arguments.end else "under maintenance"
        print(f"{count(said['nodes'], 'node')} {words}: {in_short(said['addresses'], total=said['nodes'])}")
    return exit_codes.OK


def _check(arguments: argparse.Namespace) -> None:
    """Raises CommandError if the options do not fit together."""
    wrong = None
    if arguments.nodes and not arguments.end and arguments.reason is None:
        wrong = "say why with --reason TEXT, or end a maintenance with --end"
    elif not arguments.nodes and (arguments.end or arguments.reason is not None):
        wrong = "name the nodes"
    elif arguments.until is not None and arguments.reason is None:
        wrong = "--until is for a new maintenance, with --reason"
    elif arguments.until is not None and not 0 < arguments.until - time.time() <= UNTIL_S_MAX:
        wrong = "--until must be in the future, at most a year from now"
    if wrong:
        raise CommandError(f"{wrong}; nothing was changed", exit_codes.USAGE)


def _list(arguments: argparse.Namespace) -> int:
    from subord.client.orders.statement_lines import maintenance_lines

    found = asked(arguments, "/v1/statements")
    found = renamed(found, names_for(arguments, found))
    if arguments.json:
        print(json.dumps(found))
    else:
        show(maintenance_lines(found), sys.stdout, is_plain=arguments.no_color)
    return exit_codes.OK


def _until(text: str) -> float:
    """Seconds since 1970."""
    short = DURATION.fullmatch(text)
    if short:
        return time.time() + int(short[1]) * UNITS_S[short[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither like 30m, 2h or 3d, nor like 2026-12-24T08:00"
        ) from None
