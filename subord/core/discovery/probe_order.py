"""The order in which a node probes addresses that may be unused (docs/protocol.md, section 3).

Inputs are a position, its mapping, and the size of the network; outputs are targets. First near targets, then the
common list. The common list is the same for all nodes of a network, so nodes that know no other node meet at its
first live address. It runs through all positions so that after k of them no gap is much longer than size / k (van der
Corput sequence): a block of neighbours of that length contains one of the first k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, zip_longest

from subord.core.mapping.mapping import Mapping
from subord.core.view import Position

NEIGHBOURS = 4
CANDIDATES = 4
ANCESTORS = 2
LIKELY = 2
OTHERS_MAX = 16  # neighbours to look at; those below the node are left out
LOWEST: Position = 1  # a likely root, and the first of the common list
NEAR_MAX = NEIGHBOURS + CANDIDATES + ANCESTORS + 1


def near_targets(node: Position, mapping: Mapping) -> list[Position]:
    """At most NEAR_MAX positions: neighbours, best candidates and ancestors by turns, then LOWEST."""
    candidates = islice(mapping.candidates(node), 1, 1 + CANDIDATES)  # without the home, which is asked first anyway
    turns = zip_longest(islice(mapping.neighbours(node), NEIGHBOURS), candidates, _ancestors(node, mapping))
    targets = dict.fromkeys((*chain.from_iterable(turns), LOWEST))
    return [p for p in targets if p is not None and p != node]


def likely_targets(node: Position, mapping: Mapping, is_below: Callable[[Position], bool]) -> list[Position]:
    """At most 1 + LIKELY positions that may lead the node and may start later: its home and lower neighbours.

    Where ranks change, any neighbour may lead later: the nearest ones that are not below the node, by `is_below`.
    """
    if mapping.ranks_change:
        others = (p for p in islice(mapping.neighbours(node), OTHERS_MAX) if not is_below(p))
        return list(islice(others, 1 + LIKELY))
    home = mapping.first_of(node)
    lower = (p for p in islice(mapping.neighbours(node), NEIGHBOURS) if mapping.may_lead(p, node))
    return list(dict.fromkeys((*(() if home is None else (home,)), *islice(lower, LIKELY))))


def common_targets(size: int) -> Iterator[Position]:
    """Every position of a network once, in the order that all nodes share."""
    bits = (size - 1).bit_length()
    for number in range(1 << bits):
        position = _bit_reversed(number, bits) + 1
        if position <= size:
            yield position


def all_targets(node: Position, mapping: Mapping, size: int) -> Iterator[Position]:
    """Without end, by turns: a candidate in ranked order, and one of the common list; never `node` itself.

    Both contain every lower position, so two trees find each other in the end.
    """
    for candidate, common in zip(
        _cycle(lambda: mapping.candidates(node)),
        _cycle(lambda: common_targets(size)),
        strict=True,
    ):
        if candidate is not None:
            yield candidate
        if common is not None and common != node:
            yield common


def _cycle(targets: Callable[[], Iterator[Position]]) -> Iterator[Position | None]:
    """Repeats `targets()` without end; None for each empty run."""
    while True:
        yield from chain((next(first := targets(), None),), first)


def _ancestors(node: Position, mapping: Mapping) -> Iterator[Position]:
    above = mapping.first_of(node)
    for _ in range(ANCESTORS):
        above = mapping.first_of(above) if above is not None else None
        if above is None:
            return
        yield above


def _bit_reversed(number: int, bits: int) -> int:
    reversed_ = 0
    for _ in range(bits):
        reversed_ = reversed_ << 1 | number & 1
        number >>= 1
    return reversed_
