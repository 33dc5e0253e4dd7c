"""`subord log-level`: see, and change, how much the log of the running daemon says."""

from __future__ import annotations

import argparse
import json

from subord.client import exit_codes
from subord.client.control_socket import add_socket, socket_path
from subord.client.daemon import add_timeout, ask, change

LEVELS = ("debug", "info", "warning", "error")  # those of the daemon


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "log-level",
        help="show or change how much the log of the running daemon says",
        description="Show how much the log of the running daemon says, or change it. It stays so until the daemon is "
        "started again, a reload finds another node.log_level in the file, or a signal changes it: SIGUSR2 switches "
        "debug on and off. Only root and the daemon's own user may change it.",
    )
    parser.add_argument("level", metavar="LEVEL", nargs="?", choices=LEVELS, help=f"one of {', '.join(LEVELS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_timeout(parser)
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the level that holds now, and what chose it."""
    path, target = socket_path(arguments), "/v1/log-level"
    if arguments.level is None:
        found = ask(path, target, arguments.timeout)
    else:
        found = change(path, f"{target}?level={arguments.level}", arguments.timeout)
    print(json.dumps(found) if arguments.json else f"{found['log_level']} (by {found['source']})")
    return exit_codes.OK
