"""Where the client commands find their daemon: `--socket PATH`, else $SUBORD_SOCKET, else the usual place."""

from __future__ import annotations

import argparse
import os

DEFAULT = "/run/subord/control.sock"
VARIABLE = "SUBORD_SOCKET"


def add_socket(parser: argparse.ArgumentParser) -> None:
    """Give a command the option `--socket`."""
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help=f"control socket of the daemon (default: ${VARIABLE}, else {DEFAULT})",
    )


def socket_path(arguments: argparse.Namespace) -> str:
    """The path to connect to; an empty option or variable counts as absent."""
    option: str | None = arguments.socket
    return option or os.environ.get(VARIABLE) or DEFAULT
