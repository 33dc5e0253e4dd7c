"""Options that several commands share."""

from __future__ import annotations

import argparse

from subord.client.control_socket import add_socket
from subord.client.daemon import add_timeout


def add_asking(parser: argparse.ArgumentParser) -> None:
    """The options of a command that asks the daemon."""
    add_timeout(parser)
    add_socket(parser)


def add_set(parser: argparse.ArgumentParser) -> None:
    """The option of a command that reads the configuration."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set one key, e.g. cluster.fanout=2; wins over the file; may be given several times",
    )


def add_json(parser: argparse._ActionsContainer) -> None:
    """The option of a command whose answer is one document."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_colour(parser: argparse.ArgumentParser) -> None:
    """The option of a command that prints colours; see drawing.wants_colour for the other conditions."""
    parser.add_argument(
        "--no-color", action="store_true", help="no colours (as with NO_COLOR set, TERM=dumb, or into a pipe)"
    )


def whole_number(text: str) -> int:
    """A number from 0. Raises ArgumentTypeError."""
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number from 0, not {text!r}")


_UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """`90`, `90s`, `10min`, `2h`, `1d` in seconds. Raises ArgumentTypeError."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text.strip()[len(number) :].strip() or "s"
    try:
        seconds = float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        seconds = -1.0
    if 0 < seconds <= 366 * 86400:
        return seconds
    raise argparse.ArgumentTypeError(f"must be a time such as 90s, 10min or 2h, not {text!r}")
