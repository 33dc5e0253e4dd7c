"""`subord errors`: what is wrong in the whole cluster, each trouble once, with the set of those who share it."""

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
from subord.client.problem_lines import is_well, lines

TIMEOUT_S = 1.0
SHARE = 0.8  # of the time for the nodes; the rest is for our daemon
GRACE_S = 1.0


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "errors",
        help="show what is wrong in the whole cluster, folded by host set",
        description="Ask all nodes for their troubles of the last ten minutes, along the tree, and print each "
        "trouble once with all whom it concerns, in the notation of ClusterShell: duplicate addresses, refusals "
        "(about who is refused), silent and vanished nodes, input thrown away (about its sender), lost leaders, "
        "unsaved keys, and who differs from most by version or keys. Who does not answer in time is named.",
        epilog="exit codes: 0, whatever was found; with --check 1 if there is a trouble, or not everybody answered",
    )
    add_json(parser)
    parser.add_argument("--check", action="store_true", help="exit code 1 if anything is printed but the summary")
    parser.add_argument("--full", action="store_true", help="do not shorten long sets")
    add_names(parser)
    add_colour(parser)
    add_timeout(parser, TIMEOUT_S, "so long nodes have to answer")
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the troubles; none is one line, too."""
    target = f"/v1/errors?budget={arguments.timeout * SHARE:.3f}"
    path = socket_path(arguments)
    found = ask(path, target, arguments.timeout + GRACE_S)
    found = renamed(found, names_for(path, arguments, arguments.timeout + GRACE_S))
    if arguments.json:
        print(json.dumps(found))
    else:
        show(lines(found, is_full=arguments.full), sys.stdout, is_plain=arguments.no_color)
    return exit_codes.NOT_REACHED if arguments.check and not is_well(found) else exit_codes.OK
