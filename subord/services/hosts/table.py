"""Names and addresses of nodes, as a table, and as the body of the document `hosts/table`.

Inputs are pairs of names and addresses, or a body; outputs are a table, or a body in JSON that is at most
BODY_BYTES_MAX long. Nodes whose names have a number at the end are written as groups: the numbers as ranges, and each
address as its distance from the one before, so that some 1,000 nodes of a /16 fit, wherever they are. Invariants: a
table has each name once, in small letters; no name of it is `localhost` or an address, and no address is one of the
node itself; equal tables have equal bodies.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import accumulate, pairwise
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.address.network import Network
from subord.core.carriage.documents import BODY_BYTES_MAX
from subord.core.decoding import UNREADABLE

ENTRIES_MAX: Final = 4_096
NAME_CHARS_MAX: Final = 64
DIGITS_MAX: Final = 9
USUAL_DIGITS: Final = 3
"""With leading zeros (`node007`)."""
STEP_BITS: Final = 63
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBERED: Final = re.compile(rf"(?P<prefix>.*?[a-z-])(?P<number>[0-9]{{1,{DIGITS_MAX}}})")
_OF_NODES_THEMSELVES: Final = re.compile(
    r"localhost[0-9]?|ip6-(?:localhost|loopback|localnet|mcastprefix|all[a-z]+)|broadcasthost"
)
"""The names that hosts files have for the node itself, and for all nodes."""
_SHOWN_CHARS: Final = 60

Address = IPv4Address | IPv6Address


class TableError(ValueError):
    """One sentence without a full stop: what is wrong with a table, and what to do."""


class Entry(NamedTuple):
    """A node."""

    name: str
    address: str


class Table(NamedTuple):
    """`entries`: by prefix and number of their names. None: the block of lines is removed everywhere."""

    entries: tuple[Entry, ...] = ()


_Text = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=10**DIGITS_MAX)]


class _Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names that differ by a number of at least so many digits. `numbers`: ranges, with both ends. `first`: the
    address of the first; `steps`: from each address to the next."""

    prefix: _Text
    digits: Annotated[int, msgspec.Meta(ge=1, le=DIGITS_MAX)]
    numbers: tuple[tuple[_Number, _Number], ...]
    first: _Text
    steps: tuple[int, ...] = ()


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    groups: tuple[_Group, ...] = ()
    others: tuple[tuple[_Text, _Text], ...] = ()
    """Names without a number, with their addresses."""


_decoder = msgspec.json.Decoder(_Body)


class _Place(NamedTuple):
    """Where a name with a number at its end stands."""

    prefix: str
    digits: int
    block: int
    """The high bits of an IPv6 address, so that steps are numbers of 63 bits; 0: IPv4."""


# -- tables -------------------------------------------------------------------------------------------------------


def table_of(pairs: Iterable[tuple[str, str]]) -> Table:
    """A table of names and addresses. Raises TableError."""
    found: dict[str, Entry] = {}
    for name, address in pairs:
        entry = Entry(_name(name), str(_address(name, address)))
        before = found.setdefault(entry.name, entry)
        if before != entry:
            raise TableError(f"{_shown(name)} has two addresses, {before.address} and {entry.address}: give it one")
    if len(found) > ENTRIES_MAX:
        raise TableError(f"a table has at most {ENTRIES_MAX} names, and these are {len(found)}")
    return Table(tuple(sorted(found.values(), key=_order)))


def outside(table: Table, network: Network) -> list[Entry]:
    """The entries whose addresses are none of the cluster."""
    return [each for each in table.entries if each.address not in network]


def _name(text: str) -> str:
    """In small letters: to resolvers all letters are the same. Raises TableError."""
    name = text.lower()
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        rule = f"letters, digits and `-`, parts with dots between, at most {NAME_CHARS_MAX}"
        raise TableError(f"{_shown(text)} is no name of a node: {rule}")
    first, last = name.partition(".")[0], name.rpartition(".")[2]
    if last == "localhost" or _OF_NODES_THEMSELVES.fullmatch(first):
        raise TableError(f"{_shown(text)} is a name that every node has for itself: no table may give it")
    if last.isdigit():
        raise TableError(f"{_shown(text)} can be read as an address: choose a name whose last part has a letter")
    return name


def _address(name: str, text: str) -> Address:
    """Raises TableError."""
    try:
        if "%" in text:
            raise ValueError
        found = ip_address(text)
    except ValueError:
        raise TableError(f"{_shown(text)}, the address of {_shown(name)}, is no IP address") from None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    one = mapped or found
    if one.is_loopback or one.is_unspecified or one.is_multicast or one.is_link_local or one.is_reserved or mapped:
        raise TableError(f"{found}, the address of {_shown(name)}, is none under which other nodes reach one node")
    return found


def _order(entry: Entry) -> tuple[str, int, str]:
    found = _NUMBERED.fullmatch(entry.name)
    return (entry.name, -1, "") if found is None else (found["prefix"], int(found["number"]), entry.name)


def _shown(text: str) -> str:
    short = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
    return ascii(short) if not short.isprintable() else f"`{short}`"


# -- bodies -------------------------------------------------------------------------------------------------------


def encode(table: Table) -> bytes:
    """The body of the document. Raises TableError: it has no room for all names."""
    groups = defaultdict[_Place, dict[int, Address]](dict)
    others = []
    for name, text in table.entries:
        address, found = ip_address(text), _NUMBERED.fullmatch(name)
        if found is None:
            others.append((name, text))
        else:
            groups[_place(found, address)][int(found["number"])] = address
    body = msgspec.json.encode(
        _Body(groups=tuple(_group(*each) for each in sorted(groups.items())), others=tuple(others))
    )
    if len(body) > BODY_BYTES_MAX:
        raise TableError(
            f"the table of {len(table.entries)} names takes {len(body)} bytes, and a document has at most "
            f"{BODY_BYTES_MAX}: name nodes by a prefix and numbers, let addresses follow one another, or let DNS "
            "have the names"
        )
    return body


def decode(body: bytes) -> Table | None:
    """None: it cannot be read, or is none that `table_of` makes."""
    try:
        found = _decoder.decode(body)
        return table_of([*found.others, *(pair for each in found.groups for pair in _pairs(each))])
    except (*UNREADABLE, ValueError, OverflowError):
        return None


def _place(name: re.Match[str], address: Address) -> _Place:
    number = name["number"]
    digits = len(number) if number.startswith("0") else min(len(number), USUAL_DIGITS)
    return _Place(name["prefix"], digits, 0 if address.version == 4 else 1 + (int(address) >> STEP_BITS))


def _group(place: _Place, nodes: dict[int, Address]) -> _Group:
    numbers = sorted(nodes)
    addresses = [int(nodes[each]) for each in numbers]
    return _Group(
        prefix=place.prefix,
        digits=place.digits,
        numbers=tuple(_ranges(numbers)),
        first=str(nodes[numbers[0]]),
        steps=tuple(after - before for before, after in pairwise(addresses)),
    )


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Of ascending numbers."""
    first = last = numbers[0]
    for each in numbers[1:]:
        if each != last + 1:
            yield first, last
            first = each
        last = each
    yield first, last


def _pairs(group: _Group) -> Iterator[tuple[str, str]]:
    """Raises ValueError."""
    first = ip_address(group.first)
    count = len(group.steps) + 1
    if any(low > high for low, high in group.numbers) or sum(high - low + 1 for low, high in group.numbers) != count:
        raise ValueError("another number of addresses than of names")
    numbers = [number for low, high in group.numbers for number in range(low, high + 1)]
    for number, address in zip(numbers, accumulate(group.steps, initial=int(first)), strict=True):
        yield f"{group.prefix}{number:0{group.digits}}", str(type(first)(address))
