"""At whose door do I knock when I know of nobody? An endless list of addresses, best first (protocol section 3).

Intuition: new in town, you ring at your neighbours first; a village is found that way. Then you ring at a few houses
where, by the rules, somebody important should live. And if all that is silent you go where everybody goes: to the
places on a list that is the same for the whole country, so that all who are lost meet at the first of them where a
light is on. Were each of us to search on their own, each would have to be lucky; on a common list one stroke of luck
is everybody's.

The common list runs through all positions so that after k of them no gap is much longer than size / k: a block of
neighbours of that length is then hit for certain (van der Corput's sequence).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, zip_longest

from subord.core.placement.mapping import Mapping
from subord.core.state.view import Position

NEIGHBOURS = 4
CANDIDATES = 4
ANCESTORS = 2
LIKELY = 2
OTHERS_MAX = 16  # neighbours, of which those count that are not below us
LOWEST: Position = 1  # where a root may well live; the first of the common list
NEAR_MAX = NEIGHBOURS + CANDIDATES + ANCESTORS + 1


def near_targets(node: Position, mapping: Mapping) -> list[Position]:
    """At most NEAR_MAX positions: by turns neighbours, the best candidates, the line from home to the top; LOWEST."""
    candidates = islice(mapping.candidates(node), 1, 1 + CANDIDATES)  # home, the first, is asked anyway
    turns = zip_longest(islice(mapping.neighbours(node), NEIGHBOURS), candidates, _ancestors(node, mapping))
    targets = dict.fromkeys((*chain.from_iterable(turns), LOWEST))
    return [p for p in targets if p is not None and p != node]


def likely_targets(node: Position, mapping: Mapping, is_below: Callable[[Position], bool]) -> list[Position]:
    """At most 1 + LIKELY positions that may lead us and start later than we: our home, our lower neighbours.

    By performance any neighbour may, or know which node does, unless it `is_below` us already.
    """
    if mapping.by_performance:
        others = (p for p in islice(mapping.neighbours(node), OTHERS_MAX) if not is_below(p))
        return list(islice(others, 1 + LIKELY))
    home = mapping.first_of(node)
    lower = (p for p in islice(mapping.neighbours(node), NEIGHBOURS) if mapping.may_lead(p, node))
    return list(dict.fromkeys((*(() if home is None else (home,)), *islice(lower, LIKELY))))


def common_targets(size: int) -> Iterator[Position]:
    """Every position of a network once, in the order that everybody shares."""
    bits = (size - 1).bit_length()
    for number in range(1 << bits):
        position = _mirrored(number, bits) + 1
        if position <= size:
            yield position


def all_targets(node: Position, mapping: Mapping, size: int) -> Iterator[Position]:
    """For ever, by turns: a candidate in ranked order, and one from the common list; never ourselves.

    Whoever ranks below us is reached by both, which is what makes two trees one in the end.
    """
    for candidate, common in zip(
        _again_and_again(lambda: mapping.candidates(node)),
        _again_and_again(lambda: common_targets(size)),
        strict=True,
    ):
        if candidate is not None:
            yield candidate
        if common is not None and common != node:
            yield common


def _again_and_again(targets: Callable[[], Iterator[Position]]) -> Iterator[Position | None]:
    """For ever; None, when there is no door."""
    while True:
        yield from chain((next(first := targets(), None),), first)


def _ancestors(node: Position, mapping: Mapping) -> Iterator[Position]:
    above = mapping.first_of(node)
    for _ in range(ANCESTORS):
        above = mapping.first_of(above) if above is not None else None
        if above is None:
            return
        yield above


def _mirrored(number: int, bits: int) -> int:
    """The binary digits in reverse."""
    mirrored = 0
    for _ in range(bits):
        mirrored = mirrored << 1 | number & 1
        number >>= 1
    return mirrored
