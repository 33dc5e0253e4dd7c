"""Is there a better place for a guest? (protocol section 2, rule 5)

Intuition: whoever stands far back in a hall looks for a gap further in front, but does not run for one row. There may
be none because tall people came first: then the leader of a large party may ask for the place of a tall one with a
small party, at most half as large, which finds another place more easily. So the large parties end up in front, and
since every exchange shortens more ways than it lengthens, exchanges end.

"Far back" is measured for the last of one's party, and by the number of all (downlink/vacancies.py): in a dense tree,
where every node stands on the level of the paper, no node moves.
"""

from __future__ import annotations

from subord.core.messages import Advice, Wish
from subord.core.state.view import Position

LIGHTER = 2  # times lighter is the party that gives way
VAIN_LOOKS_MAX = 6  # in haste, of one who stands too deep
GAIN_MIN = 2  # levels; a move for one could be undone by the next


def better_place(advice: Advice, level: int) -> tuple[Position, Wish] | None:
    """To whom to propose, and what, for a guest that stands on `level`; None: stay."""
    if not is_too_deep(advice, level):
        return None
    for hint, its_level in zip(advice.hints, advice.levels, strict=False):
        if its_level + 1 <= max(advice.wanted, level - GAIN_MIN):
            return hint, Wish.GUEST
    if advice.swap and advice.swap_level + 1 <= level - GAIN_MIN:
        return advice.swap, Wish.SWAP
    return None


def is_too_deep(advice: Advice, level: int) -> bool:
    """Does a guest on `level` stand below the level where it belongs?"""
    return 0 < advice.wanted < level


def is_light(nodes: int, other_nodes: int) -> bool:
    """May a guest that brings `nodes` along be asked to give way to one that brings `other_nodes`?"""
    return LIGHTER * nodes <= other_nodes
