"""`subord ping`: which nodes answer over the tree, and which do not and why."""

from __future__ import annotations

import argparse
import json
from typing import Any

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, ask
from subord.client.errors import CommandError
from subord.client.folding import folded
from subord.client.naming import names_for
from subord.client.options import add_asking, add_json, add_names, socket_path
from subord.client.text import count, printable

TIMEOUT_S = 5.0
DAEMON_BUDGET_S_MAX = 8.0


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "ping",
        help="ask nodes over the tree whether they answer",
        description="Send an order down the tree that each node answers, and print how many nodes answered, and "
        "which did not and why. Without NODES all members are asked, also those that are down.",
        epilog="exit codes: 0 if every node answered, 1 if one did not",
    )
    parser.add_argument("nodes", nargs="*", metavar="NODES", help="sets of nodes, as in `subord nodeset`")
    parser.add_argument("-a", "--all", action="store_true", help="all members (the default)")
    add_json(parser)
    add_names(parser)
    add_asking(parser, TIMEOUT_S, "time for the nodes to answer")


def run(arguments: argparse.Namespace) -> int:
    """Prints the coverage; returns OK if it is whole."""
    if arguments.nodes and arguments.all:
        raise CommandError("give NODES or --all, not both; no node was asked", exit_codes.USAGE)
    budget_s = min(arguments.timeout, DAEMON_BUDGET_S_MAX)
    target = f"/v1/ping?budget={budget_s:.3f}"
    if arguments.nodes:
        target += f"&nodes={_positions(arguments)}"
    found = ask(socket_path(arguments), target, arguments.timeout + DAEMON_GRACE_S)
    names = names_for(arguments, found)
    for each in found["missing"]:
        each["nodes"] = folded(names.get(one, one) for one in each["addresses"])
    if arguments.json:
        print(json.dumps(found))
    else:
        _show(found)
    return exit_codes.OK if found["complete"] else exit_codes.NOT_REACHED


def _positions(arguments: argparse.Namespace) -> str:
    from subord.client.member_choice import chosen_places, positions_text

    return positions_text(chosen_places(arguments, arguments.nodes))


def _show(found: dict[str, Any]) -> None:
    """A line for each level, then the coverage as the last line."""
    for each in found["levels"]:
        slowest = each["round_trip_ms_max"]
        trip = "" if slowest is None else f", round trip to the leader up to {slowest:g} ms"
        print(f"level {each['level']}: {count(each['nodes'], 'node')}{trip}")
    print(coverage_line(found))


def coverage_line(found: dict[str, Any]) -> str:
    """`496 of 500; missing: 10.0.0.[7,9] silent, 10.0.1.4 older release`."""
    told = f"{found['told']} of {found['asked']} answered in {found['oldest_ms']:.0f} ms"
    causes = ", ".join(_missing(each) for each in found["missing"])
    if not causes:
        return told if found["complete"] else f"{told}; no coordinator that knows all members was found"
    return f"{told}; missing: {causes}"


def _missing(each: dict[str, Any]) -> str:
    """`10.0.0.[7,9] silent`; the document names only some of very many nodes."""
    unnamed = each["count"] - len(each["addresses"])
    more = f" and {unnamed} more" if unnamed > 0 else ""
    return f"{printable(each['nodes'])}{more} {printable(each['cause'])}"
