"""`subord errors`: the problems of the whole cluster, each once, with the set of its nodes."""

from __future__ import annotations

import argparse
import json
import sys

from subord.client import exit_codes
from subord.client.daemon import NODES_TIMEOUT_S, asked_of_all
from subord.client.drawing import show
from subord.client.naming import names_for, renamed
from subord.client.options import add_asking, add_colour, add_json, add_names


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "errors",
        help="show the problems of all nodes",
        description="Ask all nodes along the tree for their problems of the last ten minutes, and print each "
        "problem once with the nodes that it concerns, in the notation of ClusterShell: duplicate addresses, "
        "refusals (with the refused node), silent and vanished nodes, dropped input (with its sender), lost leaders, "
        "unsaved keys, and nodes that differ from most by version or keys. Nodes that do not answer in time are "
        "listed.",
        epilog="exit codes: 0, whatever was found; with --check 1 if there is a problem, or a node did not answer",
    )
    add_json(parser)
    parser.add_argument("--check", action="store_true", help="exit with 1 if anything but the summary is printed")
    parser.add_argument("--full", action="store_true", help="do not shorten long sets")
    add_names(parser)
    add_colour(parser)
    add_asking(parser, NODES_TIMEOUT_S, "time for the nodes to answer")


def run(arguments: argparse.Namespace) -> int:
    """Prints the problems, or one line that there are none."""
    from subord.client.problem_lines import has_no_problem, lines

    found = asked_of_all(arguments, "/v1/errors")
    found = renamed(found, names_for(arguments, found))
    if arguments.json:
        print(json.dumps(found))
    else:
        show(lines(found, is_full=arguments.full), sys.stdout, is_plain=arguments.no_color)
    return exit_codes.NOT_REACHED if arguments.check and not has_no_problem(found) else exit_codes.OK
