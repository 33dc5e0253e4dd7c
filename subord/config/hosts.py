"""The host list: a file of addresses and names, one network. The order of the file is the order of positions.

Intuition: a seating plan. Every guest must hold the same one, or two guests sit down on one chair; so whatever could
be read in two ways is sent back with the number of its line, and a name counts only if it leads to one address.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from ipaddress import ip_address
from threading import Thread
from typing import NamedTuple

from subord.config.hostlist import NAMES_MAX, HostListError, is_named, items_of, unfolded
from subord.config.resolve import Resolve, ResolveError, Version, addresses_of
from subord.config.source import ConfigError, quoted, text_of
from subord.core.address.network import ITEMS_MAX, Network, NetworkError

FILE_BYTES_MAX = 4 << 20
LOOKUPS_AT_ONCE_MAX = 16


class Entry(NamedTuple):
    """One item as written (addresses) or one name; the line (1-based) it stands on."""

    line: int
    text: str
    is_name: bool


def network_of(path: str, resolve: Resolve | None = None) -> tuple[Network, dict[str, str]]:
    """Read a host list and look its names up; both block. Raises ConfigError with the line of the first mistake.

    With the network come the names by address, for people.
    """
    text = text_of(path, "host list", "correct cluster.network_file", FILE_BYTES_MAX)
    entries = _entries(path, text)
    if not entries:
        raise ConfigError(f"{path}: this host list names no node; write at least one address or name")
    addresses = _addresses(path, entries, resolve or addresses_of)
    named = {address: entry.text for entry, address in zip(entries, addresses, strict=True) if entry.is_name}
    return _network(path, entries, addresses), named


def _entries(path: str, text: str) -> list[Entry]:
    entries: list[Entry] = []
    names = 0
    for line, words in enumerate(text.split("\n"), start=1):
        try:
            for item in items_of(words.partition("#")[0]):
                if is_named(item):
                    found = [Entry(line, name, True) for name in unfolded(item)]
                    names += len(found)
                else:
                    found = [Entry(line, item, False)]
                entries += found
                if names > NAMES_MAX or len(entries) > ITEMS_MAX:
                    raise HostListError(f"more than {min(NAMES_MAX, ITEMS_MAX)} nodes by name or item: write ranges")
        except HostListError as error:
            raise ConfigError(f"{path}:{line}: {error}") from None
    return entries


def _addresses(path: str, entries: Sequence[Entry], resolve: Resolve) -> list[str]:
    """What each entry is for a network: as written, or the one address of the name."""
    names = list(dict.fromkeys(entry.text for entry in entries if entry.is_name))
    answers = _looked_up(names, _version(path, entries, resolve), resolve) if names else {}
    return [_one_address(path, entry, answers) if entry.is_name else entry.text for entry in entries]


def _version(path: str, entries: Sequence[Entry], resolve: Resolve) -> Version:
    """That of the first address. Names only: that of the first name, IPv4 if it has both, the same on every node."""
    for entry in entries:
        if not entry.is_name:
            return 6 if ":" in entry.text else 4
    first = entries[0]
    addresses = _looked_up([first.text], None, resolve)[first.text]
    if isinstance(addresses, ResolveError):
        raise _unknown(path, first, addresses)
    return 4 if any(":" not in address for address in addresses) else 6


def _looked_up(
    names: Sequence[str], version: Version | None, resolve: Resolve
) -> dict[str, tuple[str, ...] | ResolveError]:
    """The answers of the resolver until the first failure, in threads that cannot keep the program from ending."""
    waiting = deque(names)
    answers: dict[str, tuple[str, ...] | ResolveError] = {}

    def look_up() -> None:
        while True:
            try:
                name = waiting.popleft()
            except IndexError:
                return
            try:
                answers[name] = resolve(name, version)
            except ResolveError as error:
                answers[name] = error
                waiting.clear()

    threads = [Thread(target=look_up, daemon=True) for _ in range(min(LOOKUPS_AT_ONCE_MAX, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def _one_address(path: str, entry: Entry, answers: dict[str, tuple[str, ...] | ResolveError]) -> str:
    """Names are looked up in the order of the file: before one that was not, there is one that failed."""
    addresses = answers[entry.text]
    if isinstance(addresses, ResolveError):
        raise _unknown(path, entry, addresses)
    if len(addresses) > 1:
        several = ", ".join(sorted(addresses)[:4])
        raise ConfigError(
            f"{path}:{entry.line}: {entry.text} has {len(addresses)} addresses ({several}); "
            "write the address that the node uses"
        )
    if ip_address(addresses[0]).is_loopback:
        raise ConfigError(
            f"{path}:{entry.line}: {entry.text} is {addresses[0]} here, where other nodes cannot reach it; "
            "correct /etc/hosts, or write the address"
        )
    return addresses[0]


def _unknown(path: str, entry: Entry, error: ResolveError) -> ConfigError:
    text = f"{path}:{entry.line}: {entry.text} has no address: {error}; correct the name, or write its address"
    return ConfigError(text, passing=error.passing)


def _network(path: str, entries: Sequence[Entry], addresses: Sequence[str]) -> Network:
    try:
        return Network.parse(",".join(addresses))
    except NetworkError as error:
        complaint = error
    # Whose fault? Every beginning of the list with the culprit in it is wrong, each without it is right.
    right, wrong = 0, len(addresses)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        try:
            Network.parse(",".join(addresses[:middle]))
            right = middle
        except NetworkError as error:
            wrong, complaint = middle, error
    culprit = entries[wrong - 1]
    raise ConfigError(f"{path}:{culprit.line}: {complaint}; seen at {quoted(culprit.text)}")
