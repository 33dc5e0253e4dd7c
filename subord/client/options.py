"""Options that several commands share, and what their values mean.

Imports little, because every command imports it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from subord.client import exit_codes
from subord.client.errors import CommandError

TIMEOUT_S = 5.0
SOCKET = "/run/subord/control.sock"
SOCKET_VARIABLE = "SUBORD_SOCKET"
PATH_BYTES_MAX = 107  # unix(7); as in subord.config.load, whose import costs more time than the whole command needs


def add_asking(
    parser: argparse.ArgumentParser, timeout_s: float = TIMEOUT_S, what: str = "give up after this long"
) -> None:
    """The options of a command that asks the daemon. `what`: the meaning of its timeout."""
    add_seconds(parser, "--timeout", timeout_s, what)
    add_socket(parser)


def add_socket(parser: argparse.ArgumentParser) -> None:
    """The option of a command that asks the daemon in a time of its own."""
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help=f"control socket of the daemon (default: ${SOCKET_VARIABLE}, else {SOCKET})",
    )


def socket_path(arguments: argparse.Namespace) -> str:
    """The path to connect to; an empty option or variable counts as absent. Raises CommandError if it is too long."""
    option: str | None = arguments.socket
    path = option or os.environ.get(SOCKET_VARIABLE) or SOCKET
    size = len(os.fsencode(path))
    if size > PATH_BYTES_MAX:
        raise CommandError(
            f"the path {path} is too long for a socket: {size} bytes, not at most {PATH_BYTES_MAX}; choose another "
            f"with --socket, or ${SOCKET_VARIABLE}",
            exit_codes.USAGE,
        )
    return path


def add_seconds(parser: argparse.ArgumentParser, name: str, default_s: float, what: str) -> None:
    """An option in seconds."""
    seconds = number("seconds", 86400)
    parser.add_argument(
        name, metavar="SECONDS", type=seconds, default=default_s, help=f"{what} (default: {default_s:g})"
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    """The option of a command that reads the configuration."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set one key, e.g. cluster.fanout=2; overrides the file; may be repeated",
    )


def add_json(parser: argparse._ActionsContainer) -> None:
    """The option of a command whose answer is one document."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_nodes(parser: argparse.ArgumentParser, what: str, nargs: str = "*") -> None:
    """The words that name nodes; see choice.py in node_sets. `what` begins their description."""
    parser.add_argument(
        "nodes", metavar="NODES", nargs=nargs, help=f"{what}: names, addresses and groups, such as '@rack1!node[7-9]'"
    )


def add_names(parser: argparse.ArgumentParser) -> None:
    """The options of a command that shows names; see naming.py."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--names",
        action="store_true",
        help="ask the resolver (DNS) for names that are neither in the host list (cluster.network_file) nor in "
        "/etc/hosts, and also print names in output for programs (such as --json)",
    )
    form.add_argument("--addresses", action="store_true", help="print addresses, no names")


def add_colour(parser: argparse.ArgumentParser) -> None:
    """The option of a command that prints colours; see drawing.wants_colour for the other conditions."""
    parser.add_argument(
        "--no-color", action="store_true", help="no colours (as with NO_COLOR set, TERM=dumb, or into a pipe)"
    )


def whole_number(least: int = 0, most: int | None = None) -> Callable[[str], int]:
    """The type of an option from `least` to `most`, with at most nine digits."""
    bounds = f"from {least}" + ("" if most is None else f" to {most}")

    def parsed(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1
        if least <= value <= (value if most is None else most):
            return value
        raise argparse.ArgumentTypeError(f"must be a whole number {bounds}, not {text!r}")

    return parsed


def number(what: str, most: float) -> Callable[[str], float]:
    """The type of an option that is more than 0 and at most `most`."""

    def parsed(text: str) -> float:
        found = _float(text)
        if 0 < found <= most:
            return found
        raise argparse.ArgumentTypeError(f"must be {what}, more than 0 and at most {most:g}, not {text!r}")

    return parsed


_UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """`90`, `90s`, `10min`, `2h`, `1d` in seconds. Raises ArgumentTypeError."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text.strip()[len(digits) :].strip() or "s"
    seconds = _float(digits) * _UNITS.get(unit, 0.0)
    if 0 < seconds <= 366 * 86400:
        return seconds
    raise argparse.ArgumentTypeError(f"must be a time such as 90s, 10min or 2h, not {text!r}")


def _float(text: str) -> float:
    """-1: not a number."""
    try:
        return float(text)
    except ValueError:
        return -1.0
