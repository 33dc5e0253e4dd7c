"""`subord job-done`: reports to the daemon that a job was completed here. Epilogs run it; it ends within a second."""

from __future__ import annotations

import argparse

from subord.client import exit_codes
from subord.client.daemon import change
from subord.client.options import add_asking, number, socket_path

TIMEOUT_S = 0.7  # with the start of Python less than a second
WEIGHT_MAX = 1e6  # that of the daemon


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "job-done",
        help="report that a job was completed on this node",
        description="Report to the daemon that a job was completed on this node, which makes up the node's "
        "performance (docs/mappings.md). For the epilog of a batch system: it prints nothing on success and "
        "gives up within a second. Only root and the daemon's own user may report.",
    )
    parser.add_argument(
        "--weight",
        metavar="W",
        type=number("a number", WEIGHT_MAX),
        default=1.0,
        help="how many jobs it counts as, such as the number of its processors (default: 1)",
    )
    add_asking(parser, TIMEOUT_S)


def run(arguments: argparse.Namespace) -> int:
    """Prints nothing."""
    change(socket_path(arguments), f"/v1/job-done?weight={arguments.weight!r}", arguments.timeout)
    return exit_codes.OK
