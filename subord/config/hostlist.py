"""Host names as administrators write them: which text is one, and `rack[1-2]n[01-40]` for eighty of them.

Intuition: a rubber stamp with dials. The letters stay, each bracket is a dial, and the last dial turns fastest.
Nobody is asked here whether such hosts exist; that is resolve.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import product
from math import prod
from typing import Final

NAMES_MAX: Final = 10_000
"""Names that one text may stand for."""
NAME_CHARACTERS_MAX = 253
DIGITS_MAX = 9  # of a number in brackets
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


class HostListError(ValueError):
    """The text names no hosts. The message is one sentence for whoever wrote the text."""


def is_address(text: str) -> bool:
    """Is this a numeric IP address, without a scope?"""
    try:
        return "%" not in text and ip_address(text) is not None
    except ValueError:
        return False


def is_host_name(text: str) -> bool:
    """May this be the name of a host? What ends in a number is a mistyped address: `10.0.7` would become 10.0.0.7."""
    labels = text.removesuffix(".").split(".")
    if len(text) > NAME_CHARACTERS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        return False
    return _NUMBER.fullmatch(labels[-1]) is None


def items_of(line: str) -> list[str]:
    """Splits at commas and spaces outside brackets, as a network is split. Raises HostListError."""
    items = re.findall(r"(?:\[[^\[\]]*\]|[^\s,\[\]])+|[\[\]]", re.sub(r"\s*-\s*", "-", line))
    if "[" in items or "]" in items:
        raise HostListError("a bracket lacks its other half or is nested: write node[001-128]")
    return items


def is_named(item: str) -> bool:
    """Does this item name hosts, rather than give addresses?"""
    return ":" not in item and "/" not in item and re.search("[A-Za-z_]", item) is not None


def unfolded(item: str) -> Iterator[str]:
    """The names of `node[001-128,200]`, the rightmost bracket varying fastest, zeros kept. Raises HostListError."""
    literals = re.split(r"\[[^\]]*\]", item)
    dials = [[_range(piece, item) for piece in inside.split(",")] for inside in re.findall(r"\[([^\]]*)\]", item)]
    # Known before anything is unfolded: n[1-999999999] would fill the memory.
    if prod(sum(high - low + 1 for low, high, _ in ranges) for ranges in dials) > NAMES_MAX:
        raise HostListError(f"{_short(item)} stands for more than {NAMES_MAX} names: name fewer")
    values = [[f"{n:0{width}}" for low, high, width in ranges for n in range(low, high + 1)] for ranges in dials]
    for turned in product(*values):
        name = literals[0] + "".join(value + literal for value, literal in zip(turned, literals[1:], strict=True))
        if not is_host_name(name):
            raise HostListError(f"{_short(name)} is neither an address nor a host name: correct it")
        yield name


def _range(piece: str, item: str) -> tuple[int, int, int]:
    """(first, last, digits to fill up with zeros)."""
    low, hyphen, high = piece.strip().partition("-")
    high = high if hyphen else low
    if not all(each.isascii() and each.isdigit() and len(each) <= DIGITS_MAX for each in (low, high)):
        raise HostListError(f"{_short(piece.strip())!r} in {_short(item)} is no range: write 7 or 001-128")
    if int(low) > int(high):
        raise HostListError(f"the range {low}-{high} in {_short(item)} is reversed: write {high}-{low}")
    if len(low) != len(high) and high.startswith("0"):
        raise HostListError(f"the ends of {low}-{high} in {_short(item)} have different widths: write as many digits")
    return int(low), int(high), len(low) if low.startswith("0") else 1


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
