"""The words of `subord exec` that name nodes, for the parser; targets.py finds the nodes.

Imports little, because every command line imports it.
"""

from __future__ import annotations

import argparse
from typing import Any, Final, NamedTuple

from subord.client.options import number

NOTHING: Final = "nothing was run"
TIME_S_MAX: Final = 86_000
STATES: Final = ("live", "held", "stale", "down", "missing", "gone", "home", "guest", "root", "maintained")
"""As in client/node_sets/choice.py, whose import costs more time than a command line needs."""


def add_targets(parser: argparse.ArgumentParser) -> None:
    """The options that name nodes."""
    found = parser.add_argument_group("nodes", "Several of these options add up; -x takes nodes away.")
    more: dict[str, Any] = {"action": "append", "default": []}
    found.add_argument("-w", "--nodes", metavar="NODES", help="these nodes, as in `subord nodeset`", **more)
    found.add_argument("-g", "--group", metavar="GROUP", help="the nodes of this group; as -w @GROUP", **more)
    found.add_argument("--below", metavar="NODE", help="this node and all below it in the tree", **more)
    found.add_argument(
        "--state", metavar="STATE", choices=STATES, help=f"members by their state: {', '.join(STATES)}", **more
    )
    found.add_argument("-a", "--all", action="store_true", help="all members, also those that are down")
    found.add_argument(
        "-x",
        "--exclude",
        metavar="NODES",
        help="not these nodes; without another option all members but these",
        **more,
    )


def add_time(options: argparse._ArgumentGroup, what: str, time_s: float) -> None:
    """The time for each node. `what`: what happens then."""
    seconds = number("seconds", TIME_S_MAX)
    text = f"{what} after this long (default: {time_s:g})"
    options.add_argument("-t", "--timeout", dest="time_s", metavar="SECONDS", type=seconds, default=time_s, help=text)


class Percent(NamedTuple):
    """A share of the nodes."""

    value: int


def batch(text: str) -> int | Percent:
    """`10` or `10%`. Raises ArgumentTypeError."""
    digits = text.removesuffix("%")
    value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 6 else 0
    if value < 1 or (digits != text and value > 100):
        raise argparse.ArgumentTypeError(
            f"must be a number of nodes such as 10, or a share such as 10%, not {text!r}"
        )
    return value if digits == text else Percent(value)
