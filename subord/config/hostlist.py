"""Parses host names and folded host names: `rack[1-2]n[01-40]` stands for eighty names.

In: text of a host list or a key. Out: single names, the rightmost bracket varying fastest. An item that stands for
more than NAMES_MAX names is rejected before it is unfolded. Pure; resolve.py looks names up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import product
from math import prod
from typing import Final

NAMES_MAX: Final = 10_000
"""Names that one item may stand for."""
NAME_CHARACTERS_MAX = 253
DIGITS_MAX = 9  # of a number in brackets
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


class HostListError(ValueError):
    """The text is not a valid host list. The message is one sentence for its author."""


def is_address(text: str) -> bool:
    """Whether `text` is a numeric IP address without a scope."""
    try:
        return "%" not in text and ip_address(text) is not None
    except ValueError:
        return False


def is_host_name(text: str) -> bool:
    """Whether `text` may be a host name. A number as last label is refused: resolvers read `10.0.7` as 10.0.0.7."""
    labels = text.removesuffix(".").split(".")
    if len(text) > NAME_CHARACTERS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        return False
    return _NUMBER.fullmatch(labels[-1]) is None


def items_of(line: str) -> list[str]:
    """Split at commas and spaces outside brackets, as a network is split. Raises HostListError."""
    items = re.findall(r"(?:\[[^\[\]]*\]|[^\s,\[\]])+|[\[\]]", re.sub(r"\s*-\s*", "-", line))
    if "[" in items or "]" in items:
        raise HostListError("a bracket lacks its other half or is nested: write node[001-128]")
    return items


def is_named(item: str) -> bool:
    """Whether `item` is a host name, possibly folded, and not addresses."""
    return ":" not in item and "/" not in item and re.search("[A-Za-z_]", item) is not None


def unfolded(item: str) -> Iterator[str]:
    """The names of `node[001-128,200]`, the rightmost bracket varying fastest, zeros kept. Raises HostListError."""
    for name in without_brackets(item):
        if not is_host_name(name):
            raise HostListError(f"{_short(name)} is neither an address nor a host name: correct it")
        yield name


def without_brackets(item: str) -> Iterator[str]:
    """The words that `item` stands for, whether or not they are host names. Raises HostListError."""
    literals = re.split(r"\[[^\]]*\]", item)
    brackets = [[_range(piece, item) for piece in inside.split(",")] for inside in re.findall(r"\[([^\]]*)\]", item)]
    # Checked before unfolding: n[1-999999999] would fill the memory.
    if prod(sum(high - low + 1 for low, high, _ in ranges) for ranges in brackets) > NAMES_MAX:
        raise HostListError(f"{_short(item)} stands for more than {NAMES_MAX} names: name fewer")
    values = [[f"{n:0{width}}" for low, high, width in ranges for n in range(low, high + 1)] for ranges in brackets]
    for chosen in product(*values):
        yield literals[0] + "".join(value + literal for value, literal in zip(chosen, literals[1:], strict=True))


def _range(piece: str, item: str) -> tuple[int, int, int]:
    """(first, last, width to pad with zeros)."""
    low, hyphen, high = piece.strip().partition("-")
    high = high if hyphen else low
    if not all(each.isascii() and each.isdigit() and len(each) <= DIGITS_MAX for each in (low, high)):
        raise HostListError(f"{_short(piece.strip())!r} in {_short(item)} is not a range: write 7 or 001-128")
    if int(low) > int(high):
        raise HostListError(f"the range {low}-{high} in {_short(item)} is reversed: write {high}-{low}")
    if len(low) != len(high) and high.startswith("0"):
        raise HostListError(
            f"the ends of {low}-{high} in {_short(item)} have different widths: write equally many digits"
        )
    return int(low), int(high), len(low) if low.startswith("0") else 1


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
