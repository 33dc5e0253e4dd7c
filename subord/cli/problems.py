"""`subord errors`: the problems of the whole cluster, each once, with the set of its nodes."""

from __future__ import annotations

import argparse
import json
import sys

from subord.client import exit_codes
from subord.client.control_socket import add_socket, socket_path
from subord.client.daemon import add_timeout, ask
from subord.client.drawing import show
from subord.client.naming import add_names, names_for, renamed
from subord.client.options import add_colour, add_json
from subord.client.problem_lines import has_no_problem, lines

TIMEOUT_S = 1.0
SHARE = 0.8  # of the time for the nodes; the rest is for the daemon
GRACE_S = 1.0


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
    parser.add_argument("--check", action="store_true", help="exit code 1 if anything is printed but the summary")
    parser.add_argument("--full", action="store_true", help="do not shorten long sets")
    add_names(parser)
    add_colour(parser)
    add_timeout(parser, TIMEOUT_S, "time for the nodes to answer")
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the problems, or one line that there are none."""
    target = f"/v1/errors?budget={arguments.timeout * SHARE:.3f}"
    path = socket_path(arguments)
    found = ask(path, target, arguments.timeout + GRACE_S)
    found = renamed(found, names_for(path, arguments, arguments.timeout + GRACE_S))
    if arguments.json:
        print(json.dumps(found))
    else:
        show(lines(found, is_full=arguments.full), sys.stdout, is_plain=arguments.no_color)
    return exit_codes.NOT_REACHED if arguments.check and not has_no_problem(found) else exit_codes.OK
