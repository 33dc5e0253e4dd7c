"""Names of nodes: a prefix and a number of at least three digits, one more than the highest there is. Pure.

Input are the names that are taken; outputs are names that none of them is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain, count, islice
from typing import Final, NamedTuple

DIGITS_MIN: Final = 3
DIGITS_MAX: Final = 9
NUMBER_MAX: Final = 10**DIGITS_MAX - 1


class Name(NamedTuple):
    name: str
    number: int


def next_names(prefix: str, known: Iterable[str], wanted: int) -> list[Name]:
    """`known`: of all nodes that have a name: those with records, hosts of the batch system, the queue's node, and
    those that the supplier lists. Behind the highest number the lowest free ones follow: a supplier may list it."""
    taken = {number for each in known if (number := number_of(prefix, each)) is not None}
    numbers = chain(range(max(taken, default=0) + 1, NUMBER_MAX + 1), count(1))
    free = islice((each for each in numbers if each not in taken), wanted)
    return [Name(f"{prefix}{number:0{DIGITS_MIN}}", number) for number in free]


def number_of(prefix: str, name: str) -> int | None:
    """None: the name is not one of this cluster."""
    found = re.fullmatch(rf"{re.escape(prefix)}(\d{{{DIGITS_MIN},{DIGITS_MAX}}})", short(name), re.ASCII)
    return int(found[1]) if found else None


def short(name: str) -> str:
    """Without the domain, which a batch system may add."""
    return name.lower().partition(".")[0]


def is_same(one: str, other: str) -> bool:
    """Whether both name one host, whose domain may be left out on either side."""
    first, second = one.lower(), other.lower()
    return first == second or (("." in first) != ("." in second) and short(first) == short(second))


def naming(names: Iterable[str]) -> Callable[[str], str]:
    """Gives a host the name by which it is known: a batch system or a supplier may add a domain, or use capitals."""
    exact = {each.lower(): each for each in names}
    near = {each.lower().partition(".")[0]: each for each in exact.values()}

    def named(name: str) -> str:
        found = exact.get(name.lower()) or near.get(name.lower().partition(".")[0])
        return found if found is not None and is_same(found, name) else name

    return named
