"""`subord config check`: checks a configuration file without starting a daemon."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.options import add_set

if TYPE_CHECKING:
    from subord.config.schema import Config


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser("config", help="check a configuration file")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="check a configuration file",
        description="Check a configuration file without starting anything. It does not look at this machine: "
        "only `subord run` tries interfaces, addresses and directories.",
    )
    check.add_argument("file", metavar="FILE", help="the configuration, in TOML")
    add_set(check)
    check.add_argument("--json", action="store_true", help="print the settings as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints the settings that follow from a file, defaults included. Raises CommandError if no daemon can run it."""
    from subord.config.load import NO_KEY, dotted, is_without_key, load
    from subord.config.source import ConfigError

    try:
        config = load(arguments.file, arguments.set)
    except ConfigError as error:
        raise CommandError(str(error), exit_codes.CONFIGURATION) from None
    if is_without_key(config):
        raise CommandError(f"{arguments.file}: {NO_KEY}", exit_codes.CONFIGURATION)
    if arguments.json:
        print(json.dumps({"file": arguments.file, "positions": config.cluster.network.size, **dotted(config)}))
    else:
        print(_summary(arguments.file, config, dotted(config)))
    return exit_codes.OK


def _summary(file: str, config: Config, settings: dict[str, object]) -> str:
    width = max(map(len, settings))
    lines = [f"{file}: ok, {config.cluster.network.size} positions"]
    lines += [f"  {name:<{width}}  {_shown(value)}" for name, value in settings.items()]
    return "\n".join(lines)


def _shown(value: object) -> str:
    """As in the file, without quotes; a dash for a value that is not given."""
    match value:
        case "" | ():
            return "-"
        case bool():
            return json.dumps(value)
        case tuple():
            return ", ".join(value)
    return str(value)
