"""The path of the daemon's socket: `--socket PATH`, else $SUBORD_SOCKET, else the default."""

from __future__ import annotations

import argparse
import os

from subord.client import exit_codes
from subord.client.errors import CommandError

DEFAULT = "/run/subord/control.sock"
VARIABLE = "SUBORD_SOCKET"
PATH_BYTES_MAX = 107  # unix(7); as in subord.config.load, whose import costs more time than the whole command needs


def add_socket(parser: argparse.ArgumentParser) -> None:
    """Give a command the option `--socket`."""
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help=f"control socket of the daemon (default: ${VARIABLE}, else {DEFAULT})",
    )


def socket_path(arguments: argparse.Namespace) -> str:
    """The path to connect to; an empty option or variable counts as absent. Raises CommandError if it is too long."""
    option: str | None = arguments.socket
    path = option or os.environ.get(VARIABLE) or DEFAULT
    size = len(os.fsencode(path))
    if size > PATH_BYTES_MAX:
        raise CommandError(
            f"the path {path} is too long for a socket: {size} bytes, not at most {PATH_BYTES_MAX}; choose another "
            f"with --socket, or ${VARIABLE}",
            exit_codes.USAGE,
        )
    return path
