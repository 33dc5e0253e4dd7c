"""The addresses of a network, and their positions.

A network is a CIDR block, counted by the host part of the address, or a list of pieces in the given order. It is kept
as runs (first address, size), so an IPv6 /64 is one run. Addresses count as integers, in address order and not in
byte order: in 10.0.0.0/16 position 1 is 10.0.0.1 and position 256 is 10.0.1.0. Invariant: each address has at most
one position, and each position one address.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import accumulate, product
from math import prod
from typing import Final, Literal, NamedTuple, TypeVar

ITEMS_MAX: Final = 10_000
"""Items of a list: addresses, ranges and CIDRs as written; a bracket counts as what it stands for."""
CACHE_ENTRIES_MAX: Final = 4096
"""Cached results per direction; a full cache is emptied."""

Address = IPv4Address | IPv6Address
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class NetworkError(ValueError):
    """The text describes no network. The message is one sentence for the operator."""


class _Run(NamedTuple):
    """Neighbouring addresses, as integers."""

    version: Literal[4, 6]
    first: int
    size: int


class Network:
    """The addresses of one network in order of position. Immutable; equal if the canonical texts are.

    Positions count from 1. A CIDR leaves out the network address and the IPv4 broadcast address (for IPv6 the network
    address is the subnet-router anycast address, RFC 4291, 2.6.1), but blocks of one or two addresses use them all
    (RFC 3021, RFC 6164). A list uses exactly what it names.
    """

    def __init__(self, runs: tuple[_Run, ...], cidr: IPv4Network | IPv6Network | None) -> None:
        """Called by `parse` alone: runs without overlap, of one family; `cidr` if they are one block."""
        self._runs = runs
        self._version = runs[0].version
        self._prefix_length = None if cidr is None else cidr.prefixlen
        self._text = ",".join(map(_run_text, runs)) if cidr is None else str(cidr)
        *befores, self._size = accumulate((run.size for run in runs), initial=0)
        self._befores = befores
        pairs = zip(runs, befores, strict=True)
        self._by_address = sorted((run.first, run.size, before) for run, before in pairs)
        self._firsts = [first for first, _, _ in self._by_address]
        self._positions: dict[str, int] = {}
        self._addresses: dict[int, str] = {}

    @classmethod
    def parse(cls, text: str) -> Network:
        """Parse a CIDR, or a list of addresses, ranges and CIDRs separated by commas or spaces.

        Ranges are written `10.0.5.10-10.0.5.60`, `10.0.5.10-60`, `10.0.5.[10-60,70]` (NodeSet style: of several
        brackets the rightmost varies fastest), `fd00::10-fd00::ff`. Raises `NetworkError`.
        """
        items = _items(text)
        if len(items) == 1 and "/" in items[0] and "[" not in items[0]:
            cidr = _cidr(items[0])
            return cls((_usable(cidr),), cidr)
        runs: list[_Run] = []
        for item in items:
            runs += _runs_of_item(item)
            if len(runs) > ITEMS_MAX:
                raise _too_many()
        _check_one_family(runs)
        _check_no_overlap(runs)
        return cls(_folded(runs), None)

    @property
    def text(self) -> str:
        """The canonical form; `parse` reads it back: a CIDR as such, a list folded into ranges."""
        return self._text

    @property
    def size(self) -> int:
        """The number of positions, from 1 to 2^128 - 1."""
        return self._size

    @property
    def version(self) -> Literal[4, 6]:
        """The address family, 4 or 6."""
        return self._version

    @property
    def prefix_length(self) -> int | None:
        """The prefix length of a CIDR in bits; None for a list."""
        return self._prefix_length

    @property
    def fingerprint(self) -> str:
        """Stands for a `text` that is too long to send: at most 200 characters, equal if the texts are equal."""
        ends = f"{self.address_text_of(1)} to {self.address_text_of(self._size)}"
        return f"{self._size} addresses from {ends}, sha256 {sha256(self._text.encode()).hexdigest()[:32]}"

    def position_of(self, address: str | Address) -> int | None:
        """The position of an address; None if it is outside, or is no address. O(log runs)."""
        if not isinstance(address, str):
            return self._find(address)
        known = self._positions.get(address)
        if known is not None:
            return known
        try:
            position = self._find(ip_address(address))
        except ValueError:
            return None
        # Addresses outside are not cached: they would push out those of the network.
        if position is not None:
            _remember(self._positions, address, position)
        return position

    def address_of(self, position: int) -> Address:
        """The address at a position. Raises `IndexError` outside 1..size. O(log runs)."""
        if not 1 <= position <= self._size:
            raise IndexError(f"there is no position {position} in {_short(self._text)}: it has {self._size}")
        index = bisect_right(self._befores, position - 1) - 1
        return _address(self._version, self._runs[index].first + position - 1 - self._befores[index])

    def address_text_of(self, position: int) -> str:
        """The address at a position in its canonical spelling. Raises `IndexError` outside 1..size."""
        text = self._addresses.get(position)
        if text is None:
            text = str(self.address_of(position))
            _remember(self._addresses, position, text)
        return text

    def meets(self, block: IPv4Network | IPv6Network) -> bool:
        """Whether any address of `block` belongs to the network. O(runs)."""
        first, last = int(block[0]), int(block[-1])
        return block.version == self._version and any(
            run.first <= last and first < run.first + run.size for run in self._runs
        )

    def __contains__(self, address: str | Address) -> bool:
        return self.position_of(address) is not None

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Network) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Network.parse({self._text!r})"

    def _find(self, address: Address) -> int | None:
        if address.version != self._version:
            return None
        value = int(address)
        index = bisect_right(self._firsts, value) - 1
        if index < 0:
            return None
        first, size, before = self._by_address[index]
        return before + value - first + 1 if value < first + size else None


def _remember(cache: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if len(cache) >= CACHE_ENTRIES_MAX:
        cache.clear()
    cache[key] = value


def _items(text: str) -> list[str]:
    """Splits at commas and spaces outside brackets; spaces around a hyphen do not count."""
    items = re.findall(r"(?:\[[^\[\]]*\]|[^\s,\[\]])+|[\[\]]", re.sub(r"\s*-\s*", "-", text))
    if not items:
        raise NetworkError("the network is empty: write a CIDR (10.0.0.0/16) or a list (10.0.5.10-60)")
    if "[" in items or "]" in items:
        raise NetworkError("a bracket lacks its other half or is nested: write 10.0.[1-2].[1-20]")
    return items


def _runs_of_item(item: str) -> list[_Run]:
    if "[" in item:
        return _bracket_runs(item)
    if "/" in item:
        return [_usable(_cidr(item))]
    if "-" in item:
        return [_range(item)]
    address = _parsed_address(item, item)
    return [_Run(address.version, int(address), 1)]


def _cidr(item: str) -> IPv4Network | IPv6Network:
    text, _, prefix = item.rpartition("/")
    address = _parsed_address(text, item)
    # Only a length: netmasks are easy to confuse with hostmasks, and ipaddress accepts both.
    if not re.fullmatch("[0-9]{1,3}", prefix):
        raise NetworkError(f"{_short(item)!r} lacks a prefix length: write 0 to {address.max_prefixlen}")
    if int(prefix) > address.max_prefixlen:
        raise NetworkError(f"the prefix length in {_short(item)!r} is too long: write 0 to {address.max_prefixlen}")
    network = ip_network(f"{address}/{prefix}", strict=False)
    if address != network.network_address:
        raise NetworkError(f"{_short(item)!r} has host bits set: write {network}")
    return network


def _usable(cidr: IPv4Network | IPv6Network) -> _Run:
    first, size = int(cidr.network_address), cidr.num_addresses
    if size <= 2:
        return _Run(cidr.version, first, size)
    return _Run(cidr.version, first + 1, size - (2 if cidr.version == 4 else 1))


def _range(item: str) -> _Run:
    """`a.b.c.d-e.f.g.h`, `a.b.c.d-h`, or two IPv6 addresses; both ends belong to it."""
    left, _, right = item.partition("-")
    first = _parsed_address(left, item)
    if first.version == 4 and right.isdigit():
        right = f"{left.rpartition('.')[0]}.{right}"
    last = _parsed_address(right, item)
    if first.version != last.version:
        raise _mixed(str(first), str(last))
    size = int(last) - int(first) + 1
    if size < 1:
        raise NetworkError(f"the range {_short(item)!r} is reversed: write {last}-{first}")
    return _Run(first.version, int(first), size)


def _bracket_runs(item: str) -> list[_Run]:
    """NodeSet style, IPv4 only: each octet is a number or a bracket of numbers and ranges."""
    octets = [_octet_ranges(octet, item) for octet in item.split(".")]
    if len(octets) != 4:
        raise NetworkError(f"{_short(item)!r} has not 4 octets: use brackets for octets of IPv4 only")
    *outer, inner = octets
    # Checked before the expansion: [0-255].[0-255].[0-255].[1-9] would fill the memory.
    if prod(sum(high - low + 1 for low, high in ranges) for ranges in outer) * len(inner) > ITEMS_MAX:
        raise _too_many()
    values = [[value for low, high in ranges for value in range(low, high + 1)] for ranges in outer]
    return [
        _Run(4, (((a << 8) + b << 8) + c << 8) + low, high - low + 1)
        for a, b, c in product(*values)
        for low, high in inner
    ]


def _octet_ranges(octet: str, item: str) -> list[tuple[int, int]]:
    if not (octet.startswith("[") and octet.endswith("]")):
        return [(_octet(octet, item),) * 2]
    ranges = []
    for piece in octet[1:-1].split(","):
        low, hyphen, high = piece.strip().partition("-")
        ranges.append((_octet(low, item), _octet(high if hyphen else low, item)))
        if ranges[-1][0] > ranges[-1][1]:
            raise NetworkError(f"the range {low}-{high} in {_short(item)!r} is reversed: write {high}-{low}")
    return ranges


def _octet(text: str, item: str) -> int:
    # As in ipaddress: no leading zeros, which some programs read as octal.
    if re.fullmatch("0|[1-9][0-9]{0,2}", text) and int(text) <= 255:
        return int(text)
    raise NetworkError(f"{_short(text)!r} in {_short(item)!r} is no octet: write 0 to 255 or [10-60,70]")


def _parsed_address(text: str, item: str) -> Address:
    try:
        # A scope (fe80::1%eth0) differs from node to node.
        if "%" not in text:
            return ip_address(text)
    except ValueError:
        pass
    inside = "" if text == item else f" in {_short(item)!r}"
    raise NetworkError(f"{_short(text)!r}{inside} is no IP address: write numbers, no name and no scope")


def _check_one_family(runs: list[_Run]) -> None:
    for run in runs:
        if run.version != runs[0].version:
            raise _mixed(_text(runs[0].version, runs[0].first), _text(run.version, run.first))


def _check_no_overlap(runs: list[_Run]) -> None:
    end = 0
    for run in sorted(runs, key=lambda run: run.first):
        if run.first < end:
            raise NetworkError(f"{_text(run.version, run.first)} is named more than once: name it once")
        end = run.first + run.size


def _folded(runs: list[_Run]) -> tuple[_Run, ...]:
    """Joins adjacent runs; the order stays."""
    folded = [runs[0]]
    for run in runs[1:]:
        last = folded[-1]
        if last.first + last.size == run.first:
            folded[-1] = last._replace(size=last.size + run.size)
        else:
            folded.append(run)
    return tuple(folded)


def _run_text(run: _Run) -> str:
    first = _text(run.version, run.first)
    return first if run.size == 1 else f"{first}-{_text(run.version, run.first + run.size - 1)}"


def _text(version: Literal[4, 6], value: int) -> str:
    return str(_address(version, value))


def _address(version: Literal[4, 6], value: int) -> Address:
    return IPv4Address(value) if version == 4 else IPv6Address(value)


def _mixed(one: str, other: str) -> NetworkError:
    return NetworkError(f"the network mixes families ({one} and {other}): use only IPv4 or only IPv6")


def _too_many() -> NetworkError:
    return NetworkError(f"the network has more than {ITEMS_MAX} items: write ranges or CIDRs")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
