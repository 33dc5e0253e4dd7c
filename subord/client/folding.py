"""Many names or addresses as few words: `node[001-003,7]`, `10.0.0.[3,7-9]`. The reverse of hostlist.py.

Intuition: a rubber stamp with dials, looked at from behind. Names that differ in one number only came from one dial;
what is left differs in the next dial, and in the end few stamps make all the names.

What comes out is understood by ClusterShell (`nodeset`, `clush`), by a host list and by `cluster.network`, but
IPv6, which no bracket fits, is folded to ranges `fd00::1-fd00::9`, which only subord understands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

ROOM: Final = 60
"""Characters that a folded set may take on a line for people."""
DIGITS_MAX: Final = 9
"""Of a number in brackets, as hostlist.py reads it; that file is not imported for one number."""
_NUMBERS = re.compile(rf"(?<![0-9])([0-9]{{1,{DIGITS_MAX}}})(?![0-9])")
_Dials = tuple[frozenset[str], ...]


def folded(names: Iterable[str]) -> str:
    """All of them, each once, in one word without spaces; "" for none."""
    return ",".join(items(names))


def items(names: Iterable[str]) -> list[str]:
    """The folded words, in the order of their lowest numbers."""
    each = set(names)
    v6 = [name for name in each if ":" in name]
    return _stamps(each.difference(v6)) + _ranges(v6)


def in_short(names: Iterable[str], room: int = ROOM, total: int | None = None) -> str:
    """At most about `room` characters: the first ones, and how many more there are; `total`: with those unnamed."""
    ordered = sorted(set(names), key=in_order)
    shown = len(ordered)
    text = folded(ordered)
    while len(text) > room and shown > 1:
        shown = max(1, shown // 2)
        text = folded(ordered[:shown])
    more = max(len(ordered), total or 0) - shown
    return f"{text} and {more} more" if more > 0 else text


def in_order(name: str) -> tuple[object, ...]:
    """For sorting as people count: node9 before node10, IPv4 before IPv6."""
    if ":" in name:
        return (1, _number(name))
    pieces = _NUMBERS.split(name)
    return (0, tuple(pieces[::2]), tuple((int(piece), piece) for piece in pieces[1::2]))


def _stamps(names: set[str]) -> list[str]:
    by_letters: dict[tuple[str, ...], set[_Dials]] = {}
    for name in names:
        pieces = _NUMBERS.split(name)
        dials = tuple(frozenset((number,)) for number in pieces[1::2])
        by_letters.setdefault(tuple(pieces[::2]), set()).add(dials)
    stamps = [(letters, dials) for letters, found in by_letters.items() for dials in _merged(found)]
    stamps.sort(key=lambda stamp: (stamp[0], [min((int(n), n) for n in dial) for dial in stamp[1]]))
    return [_written(letters, dials) for letters, dials in stamps]


def _merged(found: set[_Dials]) -> Iterable[_Dials]:
    """Dial by dial, the last first: those that differ there alone become one."""
    count = len(next(iter(found)))
    for turned in reversed(range(count)):
        same: dict[_Dials, set[str]] = {}
        for dials in found:
            same.setdefault(dials[:turned] + dials[turned + 1 :], set()).update(dials[turned])
        found = {(*rest[:turned], frozenset(values), *rest[turned:]) for rest, values in same.items()}
    return found


def _written(letters: tuple[str, ...], dials: _Dials) -> str:
    text = letters[0]
    for dial, letter in zip(dials, letters[1:], strict=True):
        text += (next(iter(dial)) if len(dial) == 1 else f"[{','.join(_runs(dial))}]") + letter
    return text


def _runs(dial: frozenset[str]) -> Iterator[str]:
    """`003-004,7`: a first number with leading zeros gives its width to all of its range."""
    plain = {int(text) for text in dial if text[0] != "0" or len(text) == 1}
    runs: list[tuple[int, str, str]] = []
    for width in sorted({len(text) for text in dial if text[0] == "0" and len(text) > 1}):
        padded = {int(text) for text in dial if text[0] == "0" and len(text) == width > 1}
        for low, high in _consecutive(padded):
            last = high
            while last + 1 >= 10 ** (width - 1) and last + 1 in plain:  # 099 is followed by a plain 100
                last += 1
                plain.discard(last)
            runs.append((low, f"{low:0{width}}", f"{last:0{width}}"))
    runs += [(low, str(low), str(high)) for low, high in _consecutive(plain)]
    for _, first, final in sorted(runs):
        yield first if first == final else f"{first}-{final}"


def _consecutive(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The (first, last) of each run."""
    first = last = None
    for number in sorted(numbers):
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = number
    if first is not None and last is not None:
        yield first, last


def _ranges(names: list[str]) -> list[str]:
    if not names:
        return []
    from ipaddress import IPv6Address

    pairs = _consecutive(map(_number, names))
    return [str(IPv6Address(low)) + (f"-{IPv6Address(high)}" if high > low else "") for low, high in pairs]


def _number(name: str) -> int:
    """Of an IPv6 address."""
    from ipaddress import IPv6Address

    return int(IPv6Address(name))
