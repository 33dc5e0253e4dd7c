"""Many names or addresses as few words: `node[001-003,7]`, `10.0.0.[3,7-9]`. The reverse of hostlist.py.

Names that differ only in one number become one pattern; the patterns are merged number by number, the last one first.
ClusterShell (`nodeset`, `clush`), a host list and `cluster.network` read the result. IPv6 addresses become ranges
such as `fd00::1-fd00::9`, which only subord reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

ROOM: Final = 60
"""Characters that a folded set may take in a line of text."""
DIGITS_MAX: Final = 9
"""Of a number in brackets, as in hostlist.py; that module is not imported for one number."""
_NUMBERS = re.compile(rf"(?<![0-9])([0-9]{{1,{DIGITS_MAX}}})(?![0-9])")
_NumberSets = tuple[frozenset[str], ...]


def folded(names: Iterable[str]) -> str:
    """All names, each once, in one word without spaces; "" for none."""
    return ",".join(items(names))


def items(names: Iterable[str]) -> list[str]:
    """The folded words, in the order of their lowest numbers."""
    each = set(names)
    v6 = [name for name in each if ":" in name]
    return _patterns(each.difference(v6)) + _ranges(v6)


def in_short(names: Iterable[str], room: int = ROOM, total: int | None = None) -> str:
    """At most about `room` characters: the first names, and how many more there are; `total` counts unnamed ones."""
    ordered = sorted(set(names), key=in_order)
    shown = len(ordered)
    text = folded(ordered)
    while len(text) > room and shown > 1:
        shown = max(1, shown // 2)
        text = folded(ordered[:shown])
    more = max(len(ordered), total or 0) - shown
    return f"{text} and {more} more" if more > 0 else text


def in_order(name: str) -> tuple[object, ...]:
    """The sorting key: node9 before node10, IPv4 before IPv6."""
    if ":" in name:
        return (1, _number(name))
    pieces = _NUMBERS.split(name)
    return (0, tuple(pieces[::2]), tuple((int(piece), piece) for piece in pieces[1::2]))


def _patterns(names: set[str]) -> list[str]:
    by_letters: dict[tuple[str, ...], set[_NumberSets]] = {}
    for name in names:
        pieces = _NUMBERS.split(name)
        sets = tuple(frozenset((number,)) for number in pieces[1::2])
        by_letters.setdefault(tuple(pieces[::2]), set()).add(sets)
    patterns = [(texts, sets) for texts, found in by_letters.items() for sets in _merged(found)]
    patterns.sort(key=lambda pattern: (pattern[0], [min((int(n), n) for n in numbers) for numbers in pattern[1]]))
    return [_text_of(texts, sets) for texts, sets in patterns]


def _merged(found: set[_NumberSets]) -> Iterable[_NumberSets]:
    """Merges patterns that differ only in one number, for each number, the last one first."""
    count = len(next(iter(found)))
    for index in reversed(range(count)):
        same: dict[_NumberSets, set[str]] = {}
        for sets in found:
            same.setdefault(sets[:index] + sets[index + 1 :], set()).update(sets[index])
        found = {(*rest[:index], frozenset(values), *rest[index:]) for rest, values in same.items()}
    return found


def _text_of(texts: tuple[str, ...], sets: _NumberSets) -> str:
    text = texts[0]
    for numbers, letter in zip(sets, texts[1:], strict=True):
        text += (next(iter(numbers)) if len(numbers) == 1 else f"[{','.join(_runs(numbers))}]") + letter
    return text


def _runs(numbers: frozenset[str]) -> Iterator[str]:
    """`003-004,7`: a first number with leading zeros sets the width of its whole range."""
    plain = {int(text) for text in numbers if text[0] != "0" or len(text) == 1}
    runs: list[tuple[int, str, str]] = []
    for width in sorted({len(text) for text in numbers if text[0] == "0" and len(text) > 1}):
        padded = {int(text) for text in numbers if text[0] == "0" and len(text) == width > 1}
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
    """The value of an IPv6 address."""
    from ipaddress import IPv6Address

    return int(IPv6Address(name))
