"""Names instead of addresses in what people read.

In: the host list as the daemon read it, /etc/hosts, what the daemon's resolver knows of the members, the host name of
the asked node, and with `--names` also the network's resolver. Out: names by address, and documents with names. The
daemon keeps the names and answers in a moment even if the resolver hangs; only `--names` makes a command itself ask,
once and for at most two seconds. What programs read (`--json`, `--dot`, `--fold`, `--list`) has
addresses unless `--names` is given.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from subord.client import exit_codes
from subord.client.daemon import asked
from subord.client.errors import CommandError
from subord.client.text import canonical

HOSTS_FILE = "/etc/hosts"
HOSTS_BYTES_MAX = 4 << 20
FOR_PROGRAMS = ("json", "dot", "fold", "list")
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]*[0-9A-Fa-f]")
_WHOLE_ADDRESS = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})")
_LOOPBACK = ("127.", "::1")


def names_for(arguments: argparse.Namespace, *documents: Any) -> dict[str, str]:
    """Names by address for the output of a command; `documents` have the addresses that `--names` looks up."""
    if arguments.addresses or (not arguments.names and any(getattr(arguments, each, False) for each in FOR_PROGRAMS)):
        return {}
    names = known_names(arguments)
    if arguments.names:
        names |= _of_resolver({each for document in documents for each in _addresses_in(document)} - names.keys())
    return names


def known_names(arguments: argparse.Namespace) -> dict[str, str]:
    """Names by address: of the host list, else of /etc/hosts, else of the daemon's resolver, and for the asked node
    itself at last its own host name. Asks no other node.
    """
    listed, resolved = _of_daemon(arguments)
    names: dict[str, str] = {}
    for address, each in hosts_file():
        names.setdefault(address, each[0])
    names |= listed
    taken = set(names.values())  # one name for two addresses would mislead
    return {
        address: each for address, each in resolved.items() if _NAME.fullmatch(each) and each not in taken
    } | names


def listed_names(arguments: argparse.Namespace) -> dict[str, str]:
    """Names by address of the host list, as the daemon read it."""
    return _of_daemon(arguments)[0]


def _of_daemon(arguments: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """The names of the host list, and those of the resolver."""
    try:
        found = asked(arguments, "/v1/names")
    except CommandError as error:
        if error.exit_code != exit_codes.DAEMON_UNREACHABLE:
            raise
        return {}, {}  # an older daemon, or none: what the command asks says so
    return found["names"], found.get("resolved", {})


def hosts_file() -> Iterator[tuple[str, list[str]]]:
    """The address and the names of each line of /etc/hosts, but for loopback addresses."""
    try:
        with open(HOSTS_FILE, "rb") as file:
            text = file.read(HOSTS_BYTES_MAX).decode("ascii", "replace")
    except OSError:
        return
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        names = [name for name in names if _NAME.fullmatch(name)]
        if names and _WHOLE_ADDRESS.fullmatch(address) and not address.startswith(_LOOPBACK):
            yield canonical(address), names


def renamed(document: Any, names: dict[str, str]) -> Any:
    """A document with names for the addresses in all its texts; an address without a name stays."""
    if not names:
        return document
    if isinstance(document, str):
        return names.get(document) or _ADDRESS.sub(lambda found: names.get(found[0], found[0]), document)
    if isinstance(document, list):
        return [renamed(each, names) for each in document]
    if isinstance(document, dict):
        return {key: renamed(value, names) for key, value in document.items()}
    return document


def with_address(address: str, names: dict[str, str]) -> str:
    """`node4 (10.0.0.4)`, or the address of a node without a name."""
    return f"{names[address]} ({address})" if address in names else address


def _of_resolver(addresses: set[str]) -> dict[str, str]:
    from subord.client import lookups

    found = lookups.looked_up(sorted(addresses), lookups.name_of, lookups.LIMIT_S)
    return {address: name for address, name in found.items() if name and _NAME.fullmatch(name)}


def _addresses_in(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield from filter(_WHOLE_ADDRESS.fullmatch, _ADDRESS.findall(document))
    elif isinstance(document, dict | list):
        for each in document.values() if isinstance(document, dict) else document:
            yield from _addresses_in(each)
