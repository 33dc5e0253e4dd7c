"""Reads a host list, a file of addresses and names, into a network.

The order of the file is the order of positions, so all nodes must read the same network from it. Ambiguous entries,
such as a name with several addresses, are therefore rejected with their line. Blocks while names are looked up.
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
    """One item of addresses as written, or one name, with its line (1-based)."""

    line: int
    text: str
    is_name: bool


def network_of(path: str, resolve: Resolve | None = None) -> tuple[Network, dict[str, str]]:
    """The network of a host list, and the names by address. Blocks. Raises ConfigError with the first wrong line."""
    text = text_of(path, "host list", "correct cluster.network_file", FILE_BYTES_MAX)
    entries = _entries(path, text)
    if not entries:
        raise ConfigError(f"{path}: the host list is empty; write at least one address or name")
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
                    raise HostListError(f"more than {min(NAMES_MAX, ITEMS_MAX)} names or items: write ranges")
        except HostListError as error:
            raise ConfigError(f"{path}:{line}: {error}") from None
    return entries


def _addresses(path: str, entries: Sequence[Entry], resolve: Resolve) -> list[str]:
    """The text of each entry for `Network.parse`: as written, or the one address of the name."""
    names = list(dict.fromkeys(entry.text for entry in entries if entry.is_name))
    answers = _looked_up(names, _version(path, entries, resolve), resolve) if names else {}
    return [_one_address(path, entry, answers) if entry.is_name else entry.text for entry in entries]


def _version(path: str, entries: Sequence[Entry], resolve: Resolve) -> Version:
    """The IP version of the first address. Without one: that of the first name, IPv4 if the name has both."""
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
    """Look names up until the first failure. Daemon threads: a hanging resolver does not keep the process alive."""
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
    """Raises ConfigError. Names are looked up in file order, so a failed one precedes any without an answer."""
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
            f"{path}:{entry.line}: {entry.text} resolves to {addresses[0]}, which other nodes cannot reach; "
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
    # Binary search for the first wrong entry: a prefix parses exactly if it does not contain it.
    right, wrong = 0, len(addresses)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        try:
            Network.parse(",".join(addresses[:middle]))
            right = middle
        except NetworkError as error:
            wrong, complaint = middle, error
    entry = entries[wrong - 1]
    raise ConfigError(f"{path}:{entry.line}: {complaint}; seen at {quoted(entry.text)}")
