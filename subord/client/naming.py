"""Names instead of addresses, where the daemon read its nodes from a host list with names."""

from __future__ import annotations

import argparse
import re
from typing import Any

from subord.client.daemon import ask

_ADDRESS = re.compile(r"[0-9A-Fa-f:.]*[0-9A-Fa-f]")


def add_names(parser: argparse.ArgumentParser) -> None:
    """Give a command the option `--names`."""
    parser.add_argument(
        "--names", action="store_true", help="show the names of the host list (cluster.network_file) for addresses"
    )


def names_for(path: str, arguments: argparse.Namespace, timeout_s: float) -> dict[str, str]:
    """Names by address as the daemon at `path` knows them; empty if `--names` is not given or there are none."""
    found: dict[str, str] = ask(path, "/v1/names", timeout_s)["names"] if arguments.names else {}
    return found


def renamed(document: Any, names: dict[str, str]) -> Any:
    """A document with names for the addresses in all its texts; an address without a name stays."""
    if not names:
        return document
    if isinstance(document, str):
        return _ADDRESS.sub(lambda found: names.get(found[0], found[0]), document)
    if isinstance(document, list):
        return [renamed(each, names) for each in document]
    if isinstance(document, dict):
        return {key: renamed(value, names) for key, value in document.items()}
    return document
