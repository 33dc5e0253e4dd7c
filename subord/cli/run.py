"""`subord run`: runs the daemon of this node in the foreground."""

from __future__ import annotations

import argparse

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.options import add_set


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "run",
        help="run the daemon of this node in the foreground",
        description="Run the daemon of this node in the foreground, until SIGTERM or SIGINT. "
        "SIGHUP reads the configuration again, SIGUSR1 writes the state to the log, SIGUSR2 switches debug lines on "
        "and off.",
    )
    parser.add_argument("--config", metavar="FILE", help="the configuration, in TOML")
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs until the daemon ends; returns its exit code."""
    from subord.config.load import load
    from subord.config.source import ConfigError

    try:
        config = load(arguments.config, arguments.set)
    except ConfigError as error:
        code = exit_codes.TRY_AGAIN if error.passing else exit_codes.CONFIGURATION
        raise CommandError(str(error), code) from None
    from subord.daemon import main

    return main(config)
