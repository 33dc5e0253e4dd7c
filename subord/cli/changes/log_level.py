"""`subord log-level`: shows or changes the log level of the running daemon."""

from __future__ import annotations

import argparse
import json

from subord.client import exit_codes
from subord.client.daemon import asked, change
from subord.client.options import add_asking, add_json, socket_path

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
    add_json(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the present level and what set it."""
    if arguments.level is None:
        found = asked(arguments, "/v1/log-level")
    else:
        found = change(socket_path(arguments), f"/v1/log-level?level={arguments.level}", arguments.timeout)
    print(json.dumps(found) if arguments.json else f"{found['log_level']} (by {found['source']})")
    return exit_codes.OK
