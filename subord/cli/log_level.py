"""`subord log-level`: shows or changes the log level of the running daemon."""

from __future__ import annotations

import argparse
import json

from subord.client import exit_codes
from subord.client.control_socket import add_socket, socket_path
from subord.client.daemon import add_timeout, ask, change

LEVELS = ("debug", "info", "warning", "error")  # the same as in the daemon


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "log-level",
        help="show or change the log level",
        description="Show or change the log level of the running daemon. A change lasts until the daemon is "
        "started again, a reload finds another node.log_level in the file, or SIGUSR2 switches "
        "debug on or off. Only root and the daemon's own user may change it.",
    )
    parser.add_argument("level", metavar="LEVEL", nargs="?", choices=LEVELS, help=f"one of {', '.join(LEVELS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_timeout(parser)
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the present level and what set it."""
    path, target = socket_path(arguments), "/v1/log-level"
    if arguments.level is None:
        found = ask(path, target, arguments.timeout)
    else:
        found = change(path, f"{target}?level={arguments.level}", arguments.timeout)
    print(json.dumps(found) if arguments.json else f"{found['log_level']} (by {found['source']})")
    return exit_codes.OK
