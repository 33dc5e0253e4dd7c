"""The order of all lower positions for one node: nearest first (paper, section "subordination tree").

Input is a position; outputs are all lower positions, each once. It orders the nodes that a search begins with, and
the probes; search/rounds.py puts hints before it.

The distance counts levels first, then offsets from the place where the way to the root crosses that level; the
position breaks ties, so all nodes compute the same order. The own level comes last. The list may have 2^64 entries,
so it is generated, level by level, outwards from the crossing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from subord.core.address.numbering import Numbering

Distance = tuple[int, int, int, int]


def distance(node: int, candidate: int, numbering: Numbering) -> Distance:
    """The distance of a candidate from a node as a sort key: less is nearer, and no two are equal.

    The fields: 1 for a candidate on the node's own level, else 0; difference of levels; difference of offsets;
    position of the candidate. Raises `ValueError` if the candidate is not lower than the node.
    """
    if not candidate < node:
        raise ValueError(f"position {candidate} is no candidate of position {node}: only lower positions are")
    return _distance(numbering.level_and_offset(node), candidate, numbering)


def ranked(node: int, numbering: Numbering) -> Iterator[int]:
    """All positions lower than `node`, nearest first, one at a time; the first is its computed leader."""
    node_level, node_offset = numbering.level_and_offset(node)
    crossing = node_offset
    for level in range(node_level - 1, -1, -1):
        crossing //= numbering.fanout
        first = numbering.position_at(level, 0)
        yield from _outwards(first + crossing, first, first + numbering.level_size(level) - 1)
    if node_offset > 0:
        first = node - node_offset
        yield from _outwards(first + node_offset // numbering.fanout, first, node - 1)


def in_rank_order(node: int, candidates: Iterable[int], numbering: Numbering) -> list[int]:
    """Those of `candidates` that `ranked` would yield, in its order, each once."""
    place = numbering.level_and_offset(node)
    lower = {candidate for candidate in candidates if 0 < candidate < node}
    return sorted(lower, key=lambda candidate: _distance(place, candidate, numbering))


def _distance(node: tuple[int, int], candidate: int, numbering: Numbering) -> Distance:
    node_level, node_offset = node
    level, offset = numbering.level_and_offset(candidate)
    levels = node_level - level
    # On its own level a node compares with its offset one level above.
    crossing = node_offset // numbering.fanout ** (levels or 1)
    return (0 if levels else 1, levels, abs(offset - crossing), candidate)


def _outwards(centre: int, lowest: int, highest: int) -> Iterator[int]:
    """`centre`, then its neighbours on both sides by turns, the lower one first, within the bounds."""
    yield centre
    below, above = centre - 1, centre + 1
    while lowest <= below and above <= highest:
        yield below
        yield above
        below, above = below - 1, above + 1
    yield from range(below, lowest - 1, -1)
    yield from range(above, highest + 1)
